"""Batches of every kind move whole."""

import pytest
import torch

from textmover.data.error_spans import MarkedBatch
from textmover.data.labelled import LabelBatch
from textmover.data.paraphrases import ParaphraseBatch
from textmover.data.training_sources import RatingBatch
from textmover.presets import build_metric, preset_config


@pytest.fixture
def tokens(tiny_encoder):
    return build_metric(preset_config("twmd", encoder=str(tiny_encoder))).tokenize(["a cat", "the old dog"])


def kinds(tokens):
    common = {"positions": torch.tensor([4, 7]), "source": "a source", "joint": 5}
    two = torch.tensor([0, 1])
    yield RatingBatch(hypotheses=tokens, references=tokens, owners=two, ratings=two.double(), **common)
    targets = {"of_source": two.bool(), "wrong": two.float(), "missing": two.float(), "severity": two}
    yield MarkedBatch(hypotheses=tokens, references=tokens, **targets, **common)
    yield LabelBatch(texts=(tokens, tokens), labels=two, **common)
    yield ParaphraseBatch(hypotheses=tokens, references=tokens, negatives=tokens, clusters=two[:, None], **common)
    yield ParaphraseBatch(hypotheses=tokens, references=tokens, negatives=None, clusters=two[:, None], **common)


def parts(value):
    if isinstance(value, tuple):
        return [one for part in value for one in parts(part)]
    return [value]


def test_everything_moves_and_the_rest_stays(tokens):
    for batch in kinds(tokens):
        moved = batch.to("meta")
        assert type(moved) is type(batch)
        assert len(moved) == len(batch) == 2
        assert (moved.source, moved.joint) == ("a source", 5)
        for name, value in vars(batch).items():
            for old, new in zip(parts(value), parts(getattr(moved, name)), strict=True):
                if isinstance(old, torch.Tensor):
                    assert new.is_meta
                    assert (new.dtype, new.shape) == (old.dtype, old.shape)
                elif hasattr(old, "input_ids"):
                    assert new.input_ids.is_meta
                    assert new.mask.is_meta
                else:
                    assert new == old
