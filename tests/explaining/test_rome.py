"""Explanations of RoMe: the plan gives its semantic feature, the edits its syntactic one."""

import json
import re

import numpy as np
import pytest
import torch

from textmover import Scorer
from textmover.modules.classifier import ClassifierConfig, TextClassifier
from textmover.rome.config import RomeConfig
from textmover.rome.metric import RomeMetric
from textmover.scoring.explain import explain
from textmover.types import ParsedText

HYPOTHESIS = "the cat was reading a long letter, slowly"
REFERENCE = "a cat reads its very long letter ."


def chain(text: str) -> ParsedText:
    """A parse in which every word hangs on the one before it."""
    found = list(re.finditer(r"\w+|[^\w\s]", text))
    words = tuple(one.group() for one in found)
    return ParsedText(
        words,
        tuple(map(str.lower, words)),
        tuple("NOUN" if one.isalnum() else "PUNCT" for one in words),
        ("",) * len(words),
        tuple(range(-1, len(words) - 1)),
        ("root", *("dep",) * (len(words) - 1))[: len(words)],
        tuple(one.span() for one in found),
    )


class ChainParser:
    identity = "chain"

    def __call__(self, texts):
        return [chain(text) for text in texts]


@pytest.fixture
def scorer_of(tiny_encoder, tiny_metric, monkeypatch):
    """Builds RoMe on the tiny encoder with a stand-in for the parser."""
    monkeypatch.setattr("textmover.rome.features.text_features.load_parser", lambda _: ChainParser())

    def build(**fields) -> Scorer:
        torch.manual_seed(0)
        metric = RomeMetric.from_config(
            RomeConfig(**{"encoder": str(tiny_encoder), "weights": "uniform", "delta": 0.3, **fields})
        )
        config = ClassifierConfig(("unacceptable", "acceptable"), "single")
        for part in metric.wanted_classifiers:
            metric.take_part(part, TextClassifier.untrained(tiny_metric(), config).eval())
        return Scorer(metric.eval())

    return build


@pytest.mark.parametrize("variant", ["paper", "code", "equations", "align", "emd"])
@pytest.mark.parametrize("balanced", [True, False])
def test_flow_and_distances_give_the_semantic_feature(scorer_of, variant, balanced):
    found = explain(scorer_of(variant=variant, balanced=balanced), HYPOTHESIS, REFERENCE)
    (match,) = found.matches
    assert match.plan.sum() == pytest.approx(1)
    assert 1 - match.value == pytest.approx(found.components["semantic"], abs=1e-6)
    assert found.pairs


@pytest.mark.parametrize("fields", [{}, {"change": 1.0, "ramp": 0.0}, {"theta": 0.3}, {"most_nodes": 3}])
def test_edits_give_the_syntactic_feature(scorer_of, fields):
    found = explain(scorer_of(**fields), HYPOTHESIS, REFERENCE)
    assert found.trees.similarity == pytest.approx(found.components["syntactic"], abs=1e-6)
    kinds = {one.kind for one in found.trees.edits}
    assert "kept" in kinds
    for one in found.trees.edits:
        sides = (one.reference is not None, one.hypothesis is not None)
        assert sides == {"deleted": (True, False), "inserted": (False, True)}.get(one.kind, (True, True))


def test_aligned_words_have_penalty_and_flow_and_the_others_are_named(scorer_of):
    scorer = scorer_of(variant="paper", delta=0.5)
    found = explain(scorer, HYPOTHESIS, REFERENCE)
    result = scorer.metric.semantic(
        *(scorer.metric.text_features(scorer.metric.tokenize([one])) for one in (HYPOTHESIS, REFERENCE))
    )
    aligned = {place: row for place, row in enumerate(result.alignment[0].tolist()) if row >= 0}
    assert {one.hypothesis: one.reference for one in found.pairs} == aligned
    for one in found.pairs:
        at = one.reference, one.hypothesis
        assert one.similarity > 0.5
        assert one.rate == pytest.approx(1 - one.similarity * one.penalty)
        assert 1 / np.e < one.penalty <= 1 + 1e-6
        assert one.mass == pytest.approx(found.plan[at])
    for side, taken in (("hypothesis", set(aligned)), ("reference", set(aligned.values()))):
        taking = {place for place, word in enumerate(getattr(found, side).words) if word.isalnum()}
        assert set(getattr(found, f"unmatched_{side}")) == taking - taken


def test_words_stand_where_they_say_with_a_parser_and_without(scorer_of):
    for fields in ({}, {"parser": "none", "features": ("semantic", "acceptability")}):
        found = explain(scorer_of(**fields), HYPOTHESIS, REFERENCE)
        for side in (found.hypothesis, found.reference):
            assert tuple(side.text[slice(*span)] for span in side.spans) == side.words
            assert side.weights.sum() == pytest.approx(1)
    assert found.trees is None


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "mean of semantic, syntactic, acceptability"),
        ({"scorer": "new-monotone"}, "network new-monotone (3-8-8-1) of semantic, syntactic, acceptability, in which"),
        ({"features": ("semantic",)}, "semantic"),
        ({"calibrate": True}, "on the human scale: 1 * s + 0"),
    ],
)
def test_it_is_said_how_the_scorer_joins_features(scorer_of, fields, said):
    scorer = scorer_of(**fields)
    found = explain(scorer, HYPOTHESIS, REFERENCE)
    assert said in found.steps[-1].how
    assert found.steps[-1].value == found.score
    assert [one.name for one in found.steps[:-1]] == list(scorer.metric.config.features)
    beside = sum(one.value for one in found.remainders)
    for side in ("hypothesis", "reference"):
        assert found.adds(side).sum() + beside == pytest.approx(found.score, abs=1e-6)
    if scorer.metric.scorer is None and not fields.get("calibrate"):
        assert found.by_words == pytest.approx(found.components["semantic"] / len(scorer.metric.config.features))
        assert found.score == pytest.approx(np.mean([one.value for one in found.steps[:-1]]), abs=1e-6)


def test_features_of_a_network_have_their_shapley_values(scorer_of):
    """By the definition: the mean over all orders of what a feature adds to those before it."""
    from itertools import permutations

    from textmover.explaining.shares import feature_shares

    scorer = scorer_of(scorer="new-monotone")
    found = explain(scorer, HYPOTHESIS, REFERENCE)
    names = scorer.metric.config.features
    shares = feature_shares(scorer.metric, found.components)

    def network(present):
        row = [found.components[name] if name in present else 0.0 for name in names]
        return float(scorer.metric.scorer(torch.tensor([row])).detach())

    for name in names:
        added = [
            network(order[: order.index(name) + 1]) - network(order[: order.index(name)])
            for order in permutations(names)
        ]
        assert shares[name] == pytest.approx(np.mean(added), abs=1e-6)
    assert shares["network"] == pytest.approx(network(()))
    assert found.by_words == pytest.approx(shares["semantic"], abs=1e-6)


@pytest.mark.parametrize("text", ["", "  ", "!?", "☕"])
def test_texts_without_words_have_no_plan(scorer_of, text):
    found = explain(scorer_of(), text, REFERENCE)
    assert found.flags == (("empty", "unknown") if text == "☕" else ("empty",))
    assert (found.score, found.plan, found.pairs, found.unmatched_hypothesis) == (0, None, (), ())
    assert "no words" in found.steps[-1].how
    json.dumps(found.to_dict(), allow_nan=False)


def test_everything_is_plain_json(scorer_of):
    read = json.loads(json.dumps(explain(scorer_of(), HYPOTHESIS, REFERENCE).to_dict(), allow_nan=False))
    assert read["trees"]["hypothesis"]["words"] == list(chain(HYPOTHESIS).words)
    assert sum(one["cost"] for one in read["trees"]["edits"]) == pytest.approx(read["trees"]["distance"])
    assert read["pairs"][0]["penalty"] is not None
