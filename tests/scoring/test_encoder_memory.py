"""Metrics that share a memory read each text once and score as they would alone."""

import copy
import gc
import logging
import pickle

import numpy as np
import pytest
import torch

from textmover import Scorer
from textmover.scoring import save_checkpoint
from textmover.scoring.encoder_memory import EncoderMemory
from textmover.types import InputError

HYPOTHESES = ["the small dog ran to the old house", "she will buy a book", "tea", "go home", "tea"]
REFERENCES = ["a little dog runs home at night", "she sold it", "a cold drink of water", "go home", "tea"]
TEXTS = {*HYPOTHESES, *REFERENCES}
PRESETS = {
    "twmd": {"layer": 1, "temperature": 0.1},
    "bertscore-f1": {"layer": 2},
    "moverscore-wmd2": {"last_layers": 3, "weights": "uniform"},
    "sbert": {"layer": -1},
}


@pytest.fixture
def load(tiny_encoder):
    return lambda name, **options: Scorer.from_pretrained(
        name, encoder=str(tiny_encoder), device="cpu", **{**PRESETS[name], **options}
    )


def encoded(scorer: Scorer, monkeypatch) -> list[str]:
    """Texts that an encoder reads from here on."""
    read: list[str] = []
    encoder = scorer.metric.encoder
    real = encoder.encode
    monkeypatch.setattr(encoder, "encode", lambda batch: (read.extend(batch.texts), real(batch))[1])
    return read


@pytest.mark.parametrize("order", [list(PRESETS), list(PRESETS)[::-1]])
def test_scores_are_those_of_each_metric_alone(load, order):
    memory = EncoderMemory()
    together = {name: load(name, memory=memory) for name in order}
    assert len({id(one.metric.encoder.model) for one in together.values()}) == 1
    for _ in range(2):
        for name, scorer in together.items():
            found = scorer.score(HYPOTHESES, REFERENCES).scores
            np.testing.assert_allclose(found, load(name).score(HYPOTHESES, REFERENCES).scores, atol=1e-6, rtol=0)
            scorer.clear_cache()


def test_each_text_is_read_once_for_all(load, monkeypatch):
    memory = EncoderMemory()
    scorers = [load(name, memory=memory) for name in PRESETS]
    reads = [encoded(scorer, monkeypatch) for scorer in scorers]
    for scorer in scorers:
        scorer.score(HYPOTHESES, REFERENCES)
        scorer.clear_cache()
        scorer.score(HYPOTHESES, REFERENCES)
    assert sorted(text for read in reads for text in read) == sorted(TEXTS)


def test_metrics_of_other_weights_windows_or_precisions_are_kept_apart(load, tiny_metric, tmp_path):
    memory = EncoderMemory()
    torch.manual_seed(1)
    other = tiny_metric(layer=1)
    with torch.no_grad():
        other.encoder.model.encoder.layer[0].output.dense.weight += 0.1
    save_checkpoint(other, tmp_path / "other", card="")
    first = load("twmd", memory=memory)
    second = Scorer.from_pretrained(tmp_path / "other", device="cpu", memory=memory)
    third = load("twmd", memory=memory, long_texts="window")
    assert len({id(one.metric.encoder.model) for one in (first, second, third)}) == 3
    assert len(memory._groups) == 3
    scores = [one.score(HYPOTHESES, REFERENCES).scores for one in (first, second)]
    assert abs(scores[0] - scores[1]).max() > 1e-6


def test_a_checkpoint_with_the_same_weights_shares(load, tmp_path):
    memory = EncoderMemory()
    first = load("twmd", memory=memory)
    save_checkpoint(load("twmd").metric, tmp_path / "same", card="")
    second = Scorer.from_pretrained(tmp_path / "same", device="cpu", memory=memory)
    assert first.metric.encoder.model is second.metric.encoder.model


def test_an_encoder_in_training_leaves(load, monkeypatch):
    memory = EncoderMemory()
    trained, kept = load("bertscore-f1", memory=memory), load("bertscore-f1", memory=memory)
    before = kept.score(HYPOTHESES, REFERENCES).scores
    trained.metric.train()
    metric = trained.metric
    metric(metric.tokenize(["tea"]), metric.tokenize(["go home"])).score.sum().backward()
    metric.eval()
    read = encoded(trained, monkeypatch)
    trained.score(["tea"], ["go home"])
    assert sorted(read) == ["go home", "tea"]
    assert np.array_equal(kept.score(HYPOTHESES, REFERENCES).scores, before)


def test_copies_and_other_weights_do_not_share(load):
    scorer = load("twmd", memory=EncoderMemory())
    for copied in (copy.deepcopy(scorer.metric), pickle.loads(pickle.dumps(scorer.metric))):
        assert copied.encoder._states is None
        found = Scorer(copied).score(HYPOTHESES, REFERENCES).scores
        assert np.allclose(found, scorer.score(HYPOTHESES, REFERENCES).scores)
    scorer.metric.load_state_dict(scorer.metric.state_dict())
    assert scorer.metric.encoder._states is None


def test_states_are_bounded(load):
    memory = EncoderMemory(limit=5_000)
    scorer = load("twmd", memory=memory, batch_tokens=12)
    scorer.score(HYPOTHESES, REFERENCES)
    assert 0 < memory._groups[0]._cache.nbytes <= 5_000
    memory.forget()
    assert memory._groups[0]._cache.nbytes == 0


def test_a_member_that_is_gone_is_not_held(load):
    memory = EncoderMemory()
    first, second = load("twmd", memory=memory), load("bertscore-f1", memory=memory)
    del first
    gc.collect()
    assert list(memory._groups[0].encoders) == [second.metric.encoder]


def test_auto_and_negative_bounds_are_refused(load):
    with pytest.raises(InputError, match="`precision` to be named where metrics share their encoder"):
        load("twmd", memory=EncoderMemory(), precision="auto")
    with pytest.raises(InputError, match="`limit` to be 0 bytes or more, but got -1"):
        EncoderMemory(limit=-1)


# --- on disk ----------------------------------------------------------------------------------------------------------


def test_states_outlive_the_process(load, tmp_path, monkeypatch):
    first = EncoderMemory(folder=tmp_path)
    before = load("twmd", memory=first).score(HYPOTHESES, REFERENCES).scores
    first.flush()
    assert len(list(tmp_path.rglob("*.safetensors"))) == 1

    scorer = load("twmd", memory=EncoderMemory(folder=tmp_path))
    read = encoded(scorer, monkeypatch)
    after = scorer.score([*HYPOTHESES, "a new text"], [*REFERENCES, "tea"]).scores
    assert read == ["a new text"]
    np.testing.assert_allclose(after[:5], before, atol=1e-6, rtol=0)


def test_other_layers_and_weights_have_a_place_of_their_own(load, tmp_path, monkeypatch):
    for name in ("twmd", "bertscore-f1"):
        memory = EncoderMemory(folder=tmp_path)
        scorer = load(name, memory=memory)
        read = encoded(scorer, monkeypatch)
        scorer.score(HYPOTHESES, REFERENCES)
        memory.flush()
        assert set(read) == TEXTS
    places = [one.parent for one in tmp_path.rglob("identity.json")]
    assert len(places) == 2


def test_the_folder_is_bounded(load, tmp_path):
    memory = EncoderMemory(folder=tmp_path, folder_limit=20_000)
    scorer = load("twmd", memory=memory)
    for number in range(8):
        scorer.score([f"{'the dog ran home ' * 3}{number}"], ["tea"])
        memory.flush()
        assert sum(one.stat().st_size for one in tmp_path.rglob("*.safetensors")) <= 20_000


def test_a_folder_of_another_version_is_ignored_and_said(load, tmp_path, caplog):
    (tmp_path / "v0").mkdir()
    load("twmd", memory=EncoderMemory(folder=tmp_path)).score(["tea"], ["tea"])
    assert "v0 was written by another version of textmover and is ignored: remove it." in caplog.text


def test_damaged_files_are_ignored_and_said(load, tmp_path, caplog, monkeypatch):
    memory = EncoderMemory(folder=tmp_path)
    load("twmd", memory=memory).score(HYPOTHESES, REFERENCES)
    memory.flush()
    (path,) = tmp_path.rglob("*.safetensors")
    path.write_bytes(path.read_bytes()[:100])
    scorer = load("twmd", memory=EncoderMemory(folder=tmp_path))
    read = encoded(scorer, monkeypatch)
    scorer.score(HYPOTHESES, REFERENCES)
    assert set(read) == TEXTS
    assert f"{path} is ignored: it cannot be read" in caplog.text


def test_files_that_another_process_removed_are_read_anew(load, tmp_path, monkeypatch):
    memory = EncoderMemory(limit=0, folder=tmp_path)
    scorer = load("twmd", memory=memory)
    before = scorer.score(HYPOTHESES, REFERENCES).scores
    memory.flush()
    for path in tmp_path.rglob("*.safetensors"):
        path.unlink()
    scorer.clear_cache()
    np.testing.assert_allclose(scorer.score(HYPOTHESES, REFERENCES).scores, before, atol=1e-6, rtol=0)


def test_a_full_disk_is_said_once_and_scoring_goes_on(load, tmp_path, monkeypatch, caplog):
    memory = EncoderMemory(folder=tmp_path)
    scorer = load("twmd", memory=memory)
    expected = scorer.score(HYPOTHESES, REFERENCES).scores

    def refuse(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", refuse)
    for _ in range(2):
        memory.flush()
        scorer.clear_cache()
        assert np.allclose(scorer.score(HYPOTHESES, REFERENCES).scores, expected)
        scorer.score(["one more"], ["tea"])
    with caplog.at_level(logging.WARNING):
        memory.flush()
    assert caplog.text.count("No space left on device") == 1
    assert list(tmp_path.rglob("*.partial")) == []


def test_a_file_in_place_of_the_folder_is_an_error(load, tmp_path):
    (tmp_path / "file").write_text("")
    scorer = load("twmd", memory=EncoderMemory(folder=tmp_path / "file"))
    with pytest.raises(InputError, match="to be a folder for states of texts"):
        scorer.score(["tea"], ["tea"])
