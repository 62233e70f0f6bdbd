"""Statistics that come along: the mean, for presets on the embedded encoder alone, and the frequencies of words."""

import json
import logging
from importlib import resources
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from textmover.checkpoints import shipped
from textmover.modules.encoder.source import EMBEDDED_SHA256
from textmover.rome.features.word_vectors import WordIdf
from textmover.scoring import Scorer, load_metric, save_checkpoint

NAME = "sentence-transformers/all-MiniLM-L6-v2"
FILE = Path(str(resources.files(shipped).joinpath(shipped.EMBEDDED_MEANS)))
HYPOTHESES, REFERENCES = ["the dog ran home"], ["a dog runs home"]


@pytest.fixture
def known(monkeypatch, tiny_encoder, tiny_metric):
    """The tiny encoder taken for the embedded one, with means of its own width."""
    digest = tiny_metric().encoder_identity.rpartition("@")[2]
    monkeypatch.setattr(shipped, "EMBEDDED_SHA256", digest.ljust(64, "0"))
    means = {f"layer.{layer}": torch.full((32,), 0.1 * layer) for layer in range(4)} | {"tokens": torch.tensor(7)}
    monkeypatch.setattr("textmover.checkpoints.shipped.load", lambda _: means)
    return str(tiny_encoder)


def test_the_file_holds_a_mean_for_each_layer_and_where_it_is_from():
    with safe_open(str(FILE), framework="pt") as content:
        about = content.metadata()
        shapes = {name: tuple(content.get_slice(name).get_shape()) for name in content.keys()}  # noqa: SIM118
        tokens = int(content.get_tensor("tokens"))
    assert shapes == {**{f"layer.{layer}": (384,) for layer in range(7)}, "tokens": ()}
    assert about["sha256"] == EMBEDDED_SHA256
    corpora = json.loads(about["corpora"])
    assert sum(one["tokens"] for one in corpora.values()) == tokens == int(about["tokens"])
    assert sum(one["sentences"] for one in corpora.values()) == int(about["sentences"])
    assert max(one["tokens"] for one in corpora.values()) < tokens / 2  # no kind of text outweighs the rest
    assert any("CC BY-SA 4.0" in name for name in corpora)


@pytest.mark.parametrize("layer", [0, 2, 3])
def test_a_preset_on_the_known_encoder_needs_no_fit(known, layer, caplog):
    with caplog.at_level(logging.INFO, "textmover"):
        metric = load_metric("trwmd-b", encoder=known, layer=layer)
    assert metric.statistics["mean"].mean.tolist() == pytest.approx([0.1 * layer] * 32)
    assert int(metric.statistics["mean"].count) == 7
    assert f"shipped for layer {layer} of tiny@" in caplog.text
    assert Scorer(metric).score(HYPOTHESES, REFERENCES).scores.shape == (1,)


def test_it_is_taken_only_where_it_belongs(known, tiny_metric, tmp_path):
    assert load_metric("twmd-b", encoder=known, shipped=False).needs_fit
    assert load_metric("twmd-b", encoder=known, aggregation="scalar-mix", last_layers=1).needs_fit
    assert load_metric("twmd", encoder=known).statistics == {}
    folder = save_checkpoint(tiny_metric(), tmp_path / "saved", card="")
    assert load_metric(folder, centering="corpus").needs_fit  # its encoder may have been trained


def test_another_encoder_has_none(tiny_encoder):
    assert load_metric("twmd-b", encoder=str(tiny_encoder)).needs_fit


def test_a_fit_of_ones_own_replaces_it(known):
    scorer = Scorer.from_pretrained("twmd-b", encoder=known)
    before = scorer.signature.entries["centering"]
    assert scorer.fit(REFERENCES).signature.entries["centering"] != before


def test_training_fits_its_own_mean(known):
    from textmover.training import RatingsModule

    assert RatingsModule("twmd-b", overrides={"encoder": known}).metric.needs_fit


# --- the embedded encoder ---------------------------------------------------------------------------------------------


def test_the_embedded_encoder_needs_no_fit_and_the_signature_names_the_mean(embedded):
    scorer = Scorer.from_pretrained("twmd-b", encoder=NAME)
    mean = scorer.metric.statistics["mean"]
    with safe_open(str(FILE), framework="pt") as content:
        assert torch.equal(mean.mean, content.get_tensor("layer.6"))
    found = scorer.score(["A cat sat there."], ["There sat a cat."])
    assert 0.5 < found.mean < 1
    assert found.signature.entries["centering"] == f"corpus@{mean.fingerprint}"


@pytest.mark.long
def test_the_shipped_mean_is_close_to_that_of_each_kind_of_text(embedded, shared_folder, load_script):
    folder = shared_folder / "data" / "english_sentences"
    shipped_mean = load_metric("twmd-b", encoder=NAME).statistics["mean"].mean
    for name in ("ud_ewt_sentences.txt", "wmt_newstest_english.tsv", "tatoeba_laser_eng.txt"):
        own = load_metric("twmd-b", encoder=NAME)
        own.fit(load_script("benchmarks/fit_shipped.py").draw(folder / name, "sentence", "1000", 1))
        assert torch.cosine_similarity(shipped_mean, own.statistics["mean"].mean, dim=0) > 0.8


# --- words ------------------------------------------------------------------------------------------------------------


class Metric:
    """Stands in for a metric with one table."""

    def __init__(self, table, fits_on_call=False):
        self.statistics, self.fits_on_call = {"idf": table}, fits_on_call


def test_frequent_words_weigh_less_than_rare_ones():
    table = WordIdf()
    assert shipped.fill_idf(Metric(table))
    the, house, archipelago, unknown = table(table.ids([["The", "house", "council", "qwertz"]]))[0].tolist()
    assert 0 < the < house < archipelago < unknown
    assert table.informative


def test_tables_that_are_fitted_or_wait_for_a_call_stay_as_they_are():
    table = WordIdf()
    assert not shipped.fill_idf(Metric(table, fits_on_call=True))
    table.add_words([["a"], ["b"]])
    before = table.fingerprint
    assert not shipped.fill_idf(Metric(table))
    assert table.fingerprint == before
    assert not shipped.fill_idf(Metric(None))


def test_the_file_says_what_it_was_counted_on():
    with resources.as_file(resources.files(shipped).joinpath(shipped.WORDS)) as path:
        with safe_open(path, "pt") as file:
            about, words = file.metadata(), bytes(file.get_tensor("words").numpy()).decode().split("\n")
            counts, documents = file.get_tensor("counts"), int(file.get_tensor("documents"))
        assert path.stat().st_size < 300_000
    assert sum(json.loads(about["corpora"]).values()) == documents
    assert len(words) == int(about["words"]) == len(counts) - 1
    assert int(counts[:-1].min()) == int(about["fewest"])
    assert words[int(counts.argmax())] in {".", "the"}


def test_all_words_are_kept_where_one_text_is_enough():
    texts = [["a", "b"], ["a", "c"]]
    whole = WordIdf()
    whole.add_words(texts)
    assert whole.most_frequent(1).fingerprint == whole.fingerprint
    assert whole.most_frequent(3)(whole.most_frequent(3).ids([["a"]])).tolist() == [[pytest.approx(1.0)]]
