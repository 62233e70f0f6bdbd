"""Explanations: their plans give the values of the metric, and their words are those of the texts."""

import json
import math

import numpy as np
import pytest
import torch

from textmover import Scorer
from textmover.modules.config import MetricConfig
from textmover.presets import PRESETS
from textmover.scoring.explain import explain, explain_fitted
from textmover.types import InputError

HYPOTHESIS = "the cat was reading a long letter, slowly"
REFERENCE = "a cat reads its very long letters ."
CORPUS = ["the cat was here .", "a long letter", "its very last paper", "slowly and far", "a reading"]
TRANSPORT = sorted(name for name, preset in PRESETS.items() if isinstance(preset.config, MetricConfig))


def scorer_of(tiny_metric, **fields) -> Scorer:
    scorer = Scorer(tiny_metric(**fields))
    return scorer.fit(CORPUS) if scorer.metric.statistics else scorer


def by_hand(found, scorer) -> float:
    """The score from the values of the plans, by the definitions of the family."""
    config, steps = scorer.metric.config, {one.name: one.value for one in found.steps}
    value = found.matches[0].value
    if len(found.matches) == 2:
        recall, precision = (one.value for one in found.matches)
        f = precision * recall / (config.alpha * precision + (1 - config.alpha) * recall)
        value = {"recall": recall, "precision": precision, "f": f}[config.score]
    own = [steps.get(f"{side} with itself") for side in ("reference", "hypothesis")]
    if config.matching == "sinkhorn-divergence":
        value -= sum(own) / 2
    elif config.normalize:
        value /= math.sqrt(own[0] * own[1])
    outputs = {"similarity": 1 - value, "inverse": 1 / (1 + value), "distance": value}
    return outputs[config.output] if found.matches[0].measure == "cost" else value


def parts_give_the_score(found, unsaid=False, within=1e-6):
    """What words add, and what stands beside them, is the score; both sides tell the same."""
    beside = sum(one.value for one in found.remainders)
    for side in ("hypothesis", "reference"):
        assert found.adds(side).sum() + beside == pytest.approx(found.score, abs=within)
        assert len(found.adds(side)) == len(found.closeness(side)) == len(getattr(found, side))
    assert found.by_words == pytest.approx(found.score - beside, abs=within)
    assert unsaid == ("unsaid" in [one.name for one in found.remainders])


@pytest.mark.parametrize("name", TRANSPORT)
def test_plans_give_the_score_of_every_preset(tiny_preset, name):
    scorer = Scorer(tiny_preset(name, CORPUS))
    found = explain_fitted(scorer, HYPOTHESIS, REFERENCE)
    assert found.score == pytest.approx(scorer.score_fitted([HYPOTHESIS], [[REFERENCE]]).scores[0], abs=1e-9)
    assert by_hand(found, scorer) == pytest.approx(found.score, abs=1e-6)
    assert found.steps[-1].name == "score"
    assert found.plan.sum() > 0
    parts_give_the_score(found)


@pytest.mark.parametrize(("normalize", "raw"), [(True, ["recall", "precision", "f"]), (False, [])])
def test_values_that_differ_from_those_of_tables_are_called_raw(tiny_metric, normalize, raw):
    scorer = scorer_of(tiny_metric, matching="twmd", normalize=normalize)
    found = explain_fitted(scorer, HYPOTHESIS, REFERENCE)
    assert [one.name for one in found.steps if one.how.startswith("raw: ")] == raw
    for name in ("recall", "precision", "f"):
        (shown,) = (one.value for one in found.steps if one.name == name)
        assert (shown == pytest.approx(found.components[name], abs=1e-6)) == (name not in raw)


OBJECTIVE = {"value": "objective", "temperature": 0.1}


@pytest.mark.parametrize(
    ("fields", "extra"),
    [
        ({"matching": "twmd", **OBJECTIVE}, "entropy"),
        ({"matching": "twmd", **OBJECTIVE, "learn_temperature": True}, "entropy"),
        ({"matching": "trwmd", **OBJECTIVE}, "entropy"),
        ({"matching": "trwmd", "value": "objective", "hypothesis_special_tokens": "targets"}, "entropy"),
        ({"matching": "emd", "order_penalty": 0.2, "normalize": False}, "order"),
        ({"matching": "sinkhorn-divergence", "temperature": 0.1, "tolerance": 1e-7, "normalize": False}, "entropy"),
        ({"tolerance": 1e-7, "temperature": 0.1}, None),
        ({"matching": "bertscore", "alpha": 0.7, "score": "f"}, None),
        ({"matching": "lazy-emd", "hypothesis_penalty": 0.3, "reference_penalty": math.inf, "temperature": 0.05,
          "tolerance": 1e-7, "normalize": False}, None),
        ({"matching": "bertscore", "error_norm": 3.0}, None),
        ({"matching": "twmd", "temperature": 0.1, "error_norm": 3.0}, None),
        ({"matching": "trwmd", "error_norm": 1.5, "score": "precision"}, None),
        ({"matching": "twmd", "temperature": 0.1, "same_token_loss": 3.0, "error_norm": 2.0}, None),
        ({"subwords": "mean"}, None),
        ({"subwords": "first", "punctuation": "drop"}, None),
        ({"ngram": 2}, None),
        ({"ngram": "sentence"}, None),
        ({"matching": "emd", "cost": "euclidean", "output": "inverse", "normalize": False}, None),
    ],
)  # fmt: skip
def test_plans_of_other_settings_and_what_a_value_has_beside_them(tiny_metric, fields, extra):
    scorer = scorer_of(tiny_metric, **fields)
    found = explain_fitted(scorer, HYPOTHESIS, REFERENCE)
    if extra is not None:
        assert all(abs(one.extras[extra]) > 1e-4 for one in found.matches)
        assert extra in [one.name for one in found.remainders]
    assert by_hand(found, scorer) == pytest.approx(found.score, abs=1e-6)
    parts_give_the_score(found)


@pytest.mark.parametrize("norm", [3.0, 64.0])
def test_identical_texts_have_finite_parts_by_any_norm(tiny_metric, norm):
    """Tokens without weight, such as the last special one, have no loss."""
    found = explain_fitted(scorer_of(tiny_metric, matching="twmd", error_norm=norm), HYPOTHESIS, HYPOTHESIS)
    assert all(np.isfinite(one.rates).all() and np.abs(one.rates).max() < 100 for one in found.matches)
    parts_give_the_score(found)


def test_rescaling_and_calibration_are_said(tiny_metric):
    scorer = scorer_of(tiny_metric, rescale=True, calibrate=True)
    with torch.no_grad():
        scorer.metric.calibration.scale.fill_(2.0)
        scorer.metric.calibration.offset.fill_(-1.0)
    found = explain_fitted(scorer, HYPOTHESIS, REFERENCE)
    assert "baseline" in found.steps[-1].how
    assert found.steps[-1].how.endswith("2 * s - 1")
    base = scorer.metric.baseline.values[2].item()
    plain = by_hand(found, scorer)
    assert 2 * (plain - base) / (1 - base) - 1 == pytest.approx(found.score, abs=1e-5)
    assert {one.name: one.value for one in found.remainders} == pytest.approx(
        {"baseline": -2 * base / (1 - base), "offset": -1}
    )
    parts_give_the_score(found, within=1e-5)  # float32, drawn apart by rescaling


def test_what_words_add_to_f_is_what_more_of_them_would_do(tiny_metric):
    """Euler: F is the sum of recall and precision, each times the slope of F in it, here by finite differences."""
    scorer = scorer_of(tiny_metric, matching="bertscore", alpha=0.7, normalize=False)
    found = explain_fitted(scorer, HYPOTHESIS, REFERENCE)
    recall, precision = (one.value for one in found.matches)

    def f(recall, precision):
        return precision * recall / (0.7 * precision + 0.3 * recall)

    slopes = [
        (f(recall + step, precision + other) - f(recall - step, precision - other)) / 2e-6
        for step, other in ((1e-6, 0), (0, 1e-6))
    ]
    expected = sum(slope * one.contributions for slope, one in zip(slopes, found.matches, strict=True))
    np.testing.assert_allclose(found.contributions, expected, atol=1e-8)
    assert found.remainders == ()


@pytest.mark.parametrize(("output", "sign"), [("similarity", 1), ("inverse", 1), ("distance", -1)])
def test_closer_words_add_more_and_cost_less(tiny_metric, output, sign):
    scorer = scorer_of(tiny_metric, matching="emd", output=output, normalize=False)
    same = explain_fitted(scorer, "a cat", "a cat")
    other = explain_fitted(scorer, "a cat", "a street")
    place = same.hypothesis.words.index("cat")
    assert sign * same.adds("hypothesis")[place] > sign * other.adds("hypothesis")[place]
    parts_give_the_score(other)


def test_what_a_plan_does_not_tell_stands_beside_the_words(tiny_metric):
    from textmover.modules.matching.matchings import Greedy

    class Squared(Greedy):
        def forward(self, *sides, **options):
            found = super().forward(*sides, **options)
            return found._replace(recall=found.recall**2, precision=found.precision**2, f=found.f**2)

    metric = tiny_metric(matching="bertscore", normalize=False)
    metric.matching = Squared(metric.config)
    found = explain_fitted(Scorer(metric), HYPOTHESIS, REFERENCE)
    parts_give_the_score(found, unsaid=True)


# --- words ------------------------------------------------------------------------------------------------------------


def test_words_are_pieces_together_and_stand_where_they_say(tiny_metric):
    text = "  The cat's reading,\n3.50  slowly!"
    found = explain_fitted(scorer_of(tiny_metric), text, "a cat").hypothesis
    assert found.words == ("[start]", "The", "cat", "'", "s", "reading", ",", "3", ".", "50", "slowly", "!", "[end]")
    assert [text[slice(*span)] for span in found.spans if span is not None] == list(found.words[1:-1])
    assert found.weights.sum() == pytest.approx(1)


def test_stretches_of_words_are_named_as_such(tiny_metric):
    found = explain_fitted(
        scorer_of(tiny_metric, ngram=2, hypothesis_special_tokens="drop"), "a cat reading .", "a cat"
    )
    assert found.hypothesis.words == ("a cat", "cat reading", "reading", "reading .")
    assert found.hypothesis.spans == ((0, 5), (2, 13), (6, 13), (6, 15))


def test_ideographs_and_emoji_are_words_of_their_own(embedded_metric):
    found = explain_fitted(Scorer(embedded_metric("twmd")), "猫が座る ok ☕", "a cat").hypothesis
    assert found.words[1:-1] == ("猫", "が", "座", "る", "ok", "☕")


def test_a_text_matched_with_itself_has_every_word_as_its_own_partner(tiny_metric):
    text = "a cat reads its very long letters ."
    for matching in ("twmd", "bertscore", "emd"):
        found = explain_fitted(scorer_of(tiny_metric, matching=matching, temperature=0.01, normalize=False), text, text)
        best = {one.hypothesis: one.reference for one in reversed(found.pairs)}  # the largest flows come first
        assert all(place == other for place, other in best.items())
        assert (found.unmatched_hypothesis, found.unmatched_reference) == ((), ())


def test_the_largest_flows_come_first_and_repetitions_are_unmatched(tiny_metric):
    scorer = scorer_of(tiny_metric, matching="bertscore", normalize=False, layer=0, hypothesis_special_tokens="drop",
                       reference_special_tokens="drop")  # fmt: skip
    found = explain_fitted(scorer, "cat cat dog", "cat tree")
    words, others = found.hypothesis.words, found.reference.words
    assert {others[one.reference] for one in found.pairs if words[one.hypothesis] == "cat"} == {"cat"}
    assert "cat" in [words[place] for place in found.unmatched_hypothesis]
    assert all(one.mass > 0 for one in found.pairs)


def test_aggregation_to_words_keeps_mass_and_largest_cosine(tiny_metric):
    metric = tiny_metric(matching="emd", normalize=False)
    found = explain_fitted(Scorer(metric), HYPOTHESIS, REFERENCE)
    sides = [metric.text_features(metric.tokenize([one])) for one in (HYPOTHESIS, REFERENCE)]
    plan = metric.match(*sides, with_plan=True).plan
    assert found.plan.sum() == pytest.approx(float(plan.sum()))
    np.testing.assert_allclose(found.plan.sum(axis=0), found.hypothesis.weights, atol=1e-6)
    np.testing.assert_allclose(found.plan.sum(axis=1), found.reference.weights, atol=1e-6)
    cosines = (sides[1].vectors[0] @ sides[0].vectors[0].T).detach()
    row, column = found.reference.words.index("reads"), found.hypothesis.words.index("reading")

    def pieces(text, word):
        begin, places = text.index(word), metric.tokenizer.offsets([text])[0].tolist()
        return [place for place, (start, end) in enumerate(places) if begin <= start < min(end, begin + len(word))]

    rows, columns = pieces(REFERENCE, "reads"), pieces(HYPOTHESIS, "reading")
    assert found.similarity[row, column] == pytest.approx(float(cosines[rows][:, columns].max()), abs=1e-6)


# --- doors ------------------------------------------------------------------------------------------------------------


def test_the_best_of_several_references_is_explained(tiny_metric):
    scorer = scorer_of(tiny_metric)
    references = ["the dog", HYPOTHESIS, "rain"]
    found = explain(scorer, HYPOTHESIS, references)
    assert found.chosen == 1
    assert found.reference.text == HYPOTHESIS
    alone = [scorer.score([HYPOTHESIS], [[one]]).scores[0] for one in references]
    assert found.reference_scores == pytest.approx(alone, abs=1e-6)
    assert found.segment_score == max(found.reference_scores) == found.score
    distance = scorer_of(tiny_metric, matching="emd", output="distance", normalize=False)
    assert explain(distance, HYPOTHESIS, references).chosen == 1
    mean = scorer_of(tiny_metric, multi_reference="mean")
    found = explain(mean, HYPOTHESIS, references)
    assert found.segment_score == pytest.approx(np.mean(found.reference_scores))


def test_an_empty_side_has_no_plan(tiny_metric):
    found = explain(scorer_of(tiny_metric), "", REFERENCE)
    assert found.flags == ("empty",)
    assert (found.plan, found.pairs, found.score) == (None, (), 0)
    assert found.contributions.shape == found.similarity.shape
    rescaled = explain(scorer_of(tiny_metric, rescale=True), "", REFERENCE)
    assert [one.name for one in rescaled.remainders] == ["empty"]
    parts_give_the_score(rescaled)
    assert [found.reference.words[place] for place in found.unmatched_reference] == REFERENCE.split()
    both = explain(scorer_of(tiny_metric, hypothesis_special_tokens="drop"), " ", " ")
    assert both.flags == ("empty",)


def test_a_text_that_was_cut_is_flagged_and_explained_as_far_as_it_was_read(tiny_metric):
    found = explain(scorer_of(tiny_metric, max_length=6), "one two three four five six seven", "one two")
    assert found.flags == ("truncated",)
    assert found.hypothesis.words == ("[start]", "one", "two", "three", "four", "[end]")


def test_weights_that_are_fitted_on_a_call_are_fitted_on_the_pair(tiny_metric):
    scorer = Scorer(tiny_metric(weights="idf", idf_from="sides"))
    found = explain(scorer, "a cat", ["a dog", "a cat and a dog"])
    assert found.score == pytest.approx(scorer.score(["a cat"], [["a dog", "a cat and a dog"]]).scores[0])


def test_everything_is_plain_json(tiny_metric):
    found = explain(scorer_of(tiny_metric), HYPOTHESIS, REFERENCE)
    read = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert read["score"] == found.score
    assert read["hypothesis"]["words"] == list(found.hypothesis.words)
    plan, rates = (np.array(read["matches"][0][name]) for name in ("plan", "rates"))
    assert float((plan * rates).sum()) == pytest.approx(read["matches"][0]["value"])
    assert read["pairs"][0].keys() == {"reference", "hypothesis", "similarity", "mass", "rate", "penalty"}


@pytest.mark.parametrize(
    ("fields", "hypothesis", "references", "message"),
    [
        ({"centering": "batch"}, "a", "b", "reads each text by itself"),
        ({"multi_reference": "all"}, "a", ["b", "c"], "one reference to explain"),
        ({}, "a\ud800", "b", "Unicode"),
        ({}, "a", [], "at least one reference"),
        ({}, "a " * 5001, "b " * 5001, "a paragraph at a time"),
        ({"centering": "corpus"}, "a", "b", "statistics"),
        ({}, ["a"], "b", "to be a text"),
        *(({}, "a", one, f"strings, but got {type(one).__name__}") for one in ({"a": 1}, {"a"}, 3, b"a")),
        ({}, "a", None, "^Expected references, but they are missing: give"),
    ],
)
def test_what_cannot_be_explained_is_refused(tiny_metric, fields, hypothesis, references, message):
    with pytest.raises((InputError, TypeError), match=message):
        explain(Scorer(tiny_metric(**fields)), hypothesis, references)


def test_words_of_static_vectors(tmp_path):
    from textmover.presets import build_metric, preset_config

    path = tmp_path / "words.txt"
    path.write_text("cat 1 0 0\ndog 0.8 0.6 0\nsat 0 1 0\nwell 0 0 1\nknown 0.1 0 1\n", encoding="utf-8")
    scorer = Scorer(build_metric(preset_config("wmd", encoder=str(path))))
    found = explain(scorer, "a well-known cat", "the dog sat")
    assert found.hypothesis.words == ("a", "well-known", "cat")
    assert found.hypothesis.spans == ((0, 1), (2, 12), (13, 16))
    assert by_hand(found, scorer) == pytest.approx(found.score, abs=1e-6)


@pytest.mark.parametrize(
    ("hypothesis", "reference", "alone", "other"),
    [
        (
            "There sat a cat on the mat.",
            "A cat was sitting on the mat yesterday, quietly.",
            set(),
            {"yesterday", "quietly"},
        ),
        ("There sat a small cat, purring.", "A little cat sat there.", {",", "purring"}, set()),
        ("good", "bad", set(), set()),
        ("", "a b", set(), {"a", "b"}),
    ],
)
def test_words_without_a_counterpart_are_those_that_nothing_is_like(
    embedded_metric, hypothesis, reference, alone, other
):
    found = Scorer(embedded_metric("twmd")).explain(hypothesis, reference)
    said = [
        {getattr(found, side).words[place] for place in found.unmatched(side)} for side in ("hypothesis", "reference")
    ]
    assert alone <= said[0]
    assert other <= said[1]
    assert not {".", "[start]", "[end]"} & (said[0] | said[1])


def test_a_word_has_as_many_counterparts_as_it_stands_there(embedded_metric):
    found = Scorer(embedded_metric("bertscore-f1")).explain("the cat and the cat and the cat", "the cat")
    words = [found.hypothesis.words[place] for place in found.unmatched("hypothesis")]
    assert sorted(words) == ["and", "and", "cat", "cat", "the", "the"]
    assert found.unmatched("reference") == ()
