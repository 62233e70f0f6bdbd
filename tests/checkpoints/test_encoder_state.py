"""Signatures tell trained weights from those of the encoder that they are named after."""

import shutil

import pytest
import torch

from textmover.checkpoints.encoder_state import encoder_prefix, name_weights
from textmover.modules import MetricConfig, MetricModel
from textmover.modules.encoder.lora import LoraConfig, add_lora
from textmover.scoring import Scorer, load_checkpoint, save_checkpoint, save_encoder
from textmover.types import InputError


def train(metric, amount: float = 0.01):
    with torch.no_grad():
        for one in metric.encoder.parameters():
            one.add_(amount)
    return metric


def encoder_of(metric) -> str:
    return metric.signature.entries["encoder"]


def test_trained_weights_have_a_name_of_their_own(tiny_metric):
    metric = tiny_metric()
    before = encoder_of(metric)
    name_weights(metric)
    assert encoder_of(metric) == before
    name_weights(train(metric))
    name, _, sha256 = encoder_of(metric).partition("@")
    assert f"tiny@{sha256}" == before
    assert name.startswith("tiny+")
    assert len(name) == len("tiny+") + 8
    other = train(tiny_metric(), 0.02)
    name_weights(other)
    assert encoder_of(other) not in (before, encoder_of(metric))


def test_weights_that_went_back_are_the_untrained_ones(tiny_metric):
    metric = tiny_metric()
    before, state = encoder_of(metric), {name: one.clone() for name, one in metric.state_dict().items()}
    name_weights(train(metric))
    metric.load_state_dict(state)
    name_weights(metric)
    assert encoder_of(metric) == before


def test_the_name_is_the_same_in_either_precision(tiny_metric):
    full, half = train(tiny_metric()), train(tiny_metric())
    name_weights(full)
    half.cast_encoder(torch.bfloat16)
    name_weights(half)
    assert encoder_of(full) == encoder_of(half)


def test_a_checkpoint_keeps_the_name_without_its_base(tiny_metric, tiny_encoder, tmp_path):
    """The print of the base is in the checkpoint, so what was never trained can be told from what was."""
    base = shutil.copytree(tiny_encoder, tmp_path / "tiny")
    metric = tiny_metric(encoder=str(base))
    plain = save_checkpoint(metric, tmp_path / "plain", card="")
    trained = save_checkpoint(train(metric), tmp_path / "trained", card="")
    shutil.rmtree(base)
    for folder, marked in ((plain, False), (trained, True)):
        loaded = load_checkpoint(folder)
        again = load_checkpoint(save_checkpoint(loaded, tmp_path / f"{folder.name}-again", card=""))
        assert encoder_of(again) == encoder_of(loaded)
        assert ("+" in encoder_of(again)) is marked
    assert encoder_of(load_checkpoint(trained)) == encoder_of(metric)


def test_weights_whose_base_is_gone_count_as_trained(tiny_metric, tiny_encoder, tmp_path):
    base = shutil.copytree(tiny_encoder, tmp_path / "tiny")
    metric = tiny_metric(encoder=str(base))
    shutil.rmtree(base)
    name_weights(metric)
    assert encoder_of(metric).startswith("tiny+")


def test_statistics_of_the_base_that_hang_on_tokens_alone_still_fit(tiny_metric, tmp_path):
    from textmover.checkpoints.statistics_files import load_statistics, save_statistics

    fields = {"weights": "idf", "centering": "corpus"}
    base, trained = tiny_metric(**fields), train(tiny_metric(**fields))
    base.fit(["a dog", "the house", "a small cat"])
    name_weights(trained)
    load_statistics(trained, save_statistics(base, tmp_path / "idf.safetensors", ["idf"]))
    with pytest.raises(InputError, match="encoder weights"):
        load_statistics(trained, save_statistics(base, tmp_path / "mean.safetensors", ["mean"]))


def test_static_vectors_have_no_weights_to_name(tmp_path):
    from textmover.modules import MetricConfig, MetricModel

    (tmp_path / "vectors.txt").write_text("a 1 0\ndog 0 1\n")
    metric = MetricModel.from_config(MetricConfig(encoder=str(tmp_path / "vectors.txt")))
    before = metric.signature
    name_weights(metric)
    assert metric.signature == before
    with pytest.raises(InputError, match="no weights to train"):
        encoder_prefix(metric)


# --- folders for transformers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["bert", "lora", "albert", "t5", "bart"])
def test_auto_model_reads_a_saved_encoder(tiny_encoder, random_encoder, tmp_path, kind):
    from transformers import AutoModel, AutoTokenizer

    source = tiny_encoder if kind in ("bert", "lora") else random_encoder(kind, vocab_size=500)
    metric = MetricModel.from_config(MetricConfig(encoder=str(source), layer=2, temperature=0.1)).eval()
    if kind == "lora":
        add_lora(metric.encoder, LoraConfig(rank=2))
    with torch.no_grad():
        for one in metric.encoder.parameters():
            one.add_(0.05)
    folder = save_encoder(metric, tmp_path / "saved")
    texts = ["the small cat sat", "tea"]
    read, tokenizer = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    read = read.get_encoder() if read.config.is_encoder_decoder else read
    batch = metric.tokenize(texts)
    theirs = tokenizer(texts, padding=True, return_tensors="pt")
    assert torch.equal(theirs["input_ids"], batch.input_ids)
    with torch.no_grad():
        found = read(theirs["input_ids"], theirs["attention_mask"], output_hidden_states=True).hidden_states[2]
        expected = metric.token_vectors(batch)
    atol = 1e-5 if kind == "lora" else 1e-6  # merging rounds
    torch.testing.assert_close(found[batch.mask], expected[batch.mask], rtol=0, atol=atol)
    if kind in ("bert", "lora", "albert"):
        assert read.config.num_hidden_layers == 2
    again = Scorer(MetricModel.from_config(MetricConfig(encoder=str(folder), layer=2, temperature=0.1)).eval())
    assert again.score(texts, texts[::-1]).scores == pytest.approx(
        Scorer(metric).score(texts, texts[::-1]).scores, abs=1e-6
    )


def test_a_folder_that_holds_files_and_vectors_without_weights_are_refused(tiny_metric, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="to be new or empty, but it holds files: give another name, or remove it"):
        save_encoder(tiny_metric(), tmp_path)
