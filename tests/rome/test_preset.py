"""RoMe as it comes along: the released parser and classifier on the embedded encoder."""

import functools
from unicodedata import normalize

import numpy as np
import pytest
from tests.rome.shared import EXAMPLES

from textmover import Scorer
from textmover.checkpoints import loading
from textmover.modules.encoder import known_encoders
from textmover.presets import build_metric, preset_config
from textmover.rome.features import text_features


@pytest.fixture(scope="module", autouse=True)
def read_once():
    """The parser and the classifier that come along are read once for all metrics here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loading, "load_classifier", functools.cache(loading.load_classifier))
        patch.setattr(text_features, "load_parser", functools.cache(text_features.load_parser))
        yield


@pytest.fixture(scope="module")
def scorer(embedded):
    return Scorer.from_pretrained("rome", backend="torch")


@pytest.fixture(scope="module")
def found(scorer):
    references, hypotheses = zip(*EXAMPLES.values(), strict=True)
    return scorer.score(hypotheses, references)


def test_the_papers_examples_come_in_its_order(found):
    paraphrase, passive, repetition, unrelated, repetitive = found.scores
    assert paraphrase > passive > 0.5
    assert max(repetition, unrelated, repetitive) < 0.1


@pytest.mark.parametrize("feature", ["semantic", "syntactic"])
def test_so_do_its_features(found, feature):
    values = found.components[feature]
    assert np.all(np.diff(values[:3]) < 0)
    assert values[3] < 0.2


def test_repeated_words_are_no_english(found):
    assert found.components["acceptability"][2] < 0.3 < 0.6 < found.components["acceptability"][0]


def test_the_signature_names_every_part(scorer):
    entries = scorer.signature.entries
    assert entries["metric"] == "rome"
    assert entries["parser"].startswith("en_textmover_parser-")
    assert entries["encoder"].startswith("all-MiniLM-L6-v2@")
    assert {"acceptability", "trees", "variant", "weights", "scorer"} <= set(entries)


def test_texts_of_any_kind_have_a_score(scorer):
    texts = ["", " ", "☕", "!?", "42", "word", "One. Two. Three.", "a " * 600]
    result = scorer.score(texts, ["A cat sat there."] * len(texts))
    assert np.isfinite(result.scores).all()
    assert result.scores[[0, 1, 3]].tolist() == [0, 0, 0]
    assert result.counts["empty"] >= 3
    assert result.counts["long"] == 1


def test_ways_to_write_the_same_letters_score_alike(scorer):
    texts = ["José ate a crêpe at the café in Zürich."], ["At the café in Zürich, José had a crêpe."]
    decomposed = [[normalize("NFD", text) for text in side] for side in texts]
    assert decomposed[0] != texts[0]
    assert scorer.score(*decomposed).scores == scorer.score(*texts).scores


def test_the_network_that_comes_along_joins_its_features(scorer, found):
    assert scorer.signature.entries["scorer"].startswith("rome@")
    references, hypotheses = zip(*EXAMPLES.values(), strict=True)
    mean = Scorer.from_pretrained("rome", scorer="mean", backend="torch").score(hypotheses, references)
    assert mean.scores == pytest.approx(np.mean(list(found.components.values()), axis=0), abs=1e-6)
    assert (found.scores[3:] < 0.1).all()  # of unrelated sentences, which the mean finds good English
    assert (mean.scores[3:] > 0.2).all()


def test_a_scorer_that_learned_from_other_parts_says_so(embedded, caplog):
    Scorer.from_pretrained("rome", change=1.0, variant="code")
    assert "The scorer rome was trained on features that differ in variant, trees" in caplog.text
    caplog.clear()
    Scorer.from_pretrained("rome", multi_reference="mean")
    Scorer.from_pretrained("rome", change=1.0, scorer="mean")
    assert "was trained on features that differ" not in caplog.text


def test_its_trees_stay_english(embedded, monkeypatch, caplog):
    """Also over an encoder of many languages, of which it says so."""
    monkeypatch.setitem(known_encoders.LANGUAGES, "all-MiniLM-L6-v2", "de en")
    metric = build_metric(preset_config("rome"))
    assert metric.languages == ("en",)
    assert metric.reader.metric.languages == ("de", "en")
    assert "RoMe's parser and scorer support only English" in caplog.text
    assert build_metric(preset_config("rome", parser="none", features=["semantic"], scorer="mean")).languages != ("en",)
