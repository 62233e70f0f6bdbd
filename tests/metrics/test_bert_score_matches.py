"""Kept matches: what is selected, and how it is weighed, against loops."""

import math
from collections import Counter

import pytest
import torch

from textmover.functional import f_score
from textmover.metrics.bert_score_matches import TokenMatches, idf_values, match_tokens
from textmover.scoring import Scorer
from textmover.types import InputError, SpecialToken, TokenTrait

# Pair by pair: tokens and similarities of the reference, then of the hypothesis. Segment 1 has two references.
PAIRS = [
    (([3, 4, 4], [0.9, 0.5, 0.1]), ([3, 9], [0.9, 0.2])),
    (([4], [0.3]), ([7, 7], [0.3, 0.4])),
    (([5, 4], [0.2, 0.8]), ([7, 7], [0.8, 0.6])),
    (([], []), ([3], [0.7])),
]
REFERENCES = [1, 2, 1]


def kept() -> TokenMatches:
    sides = [side for pair in PAIRS for side in pair]
    return TokenMatches(
        torch.tensor([value for _, values in sides for value in values]),
        torch.tensor([token for tokens, _ in sides for token in tokens], dtype=torch.int32),
        torch.tensor([len(tokens) for tokens, _ in sides]),
        torch.tensor(REFERENCES),
    )


def expected_values(alpha: float) -> torch.Tensor:
    frequency = Counter(token for (tokens, _), _ in PAIRS for token in set(tokens))

    def weighted(tokens, values) -> float:
        weights = [math.log((len(PAIRS) + 1) / (frequency[token] + 1)) for token in tokens]
        return sum(map(math.prod, zip(weights, values, strict=True))) / sum(weights)

    rows = []
    for reference, hypothesis in PAIRS:
        if not reference[0] or not hypothesis[0]:
            rows.append([0.0, 0.0, 0.0])
            continue
        recall, precision = weighted(*reference), weighted(*hypothesis)
        f = f_score(torch.tensor(precision), torch.tensor(recall), alpha).item()
        rows.append([recall, precision, f])
    return torch.tensor(rows, dtype=torch.float64)


@pytest.mark.parametrize("alpha", [0.5, 0.9])
def test_values_are_those_of_a_loop(alpha):
    values, unweighted = idf_values(kept(), alpha)
    assert values.dtype == torch.float64
    torch.testing.assert_close(values, expected_values(alpha), rtol=0, atol=1e-6)
    assert unweighted.tolist() == [False] * 4


def test_a_token_that_all_references_hold_weighs_nothing():
    one = TokenMatches(
        torch.tensor([0.9, 0.1, 0.6, 0.2]),
        torch.tensor([3, 5, 3, 3], dtype=torch.int32),
        torch.tensor([2, 0, 1, 1]),
        torch.tensor([1, 1]),
    )
    values, unweighted = idf_values(one, 0.5)
    assert values[1].tolist() == pytest.approx([0.6, 0.2, 0.3])  # uniform
    assert unweighted.tolist() == [False, True]


def test_rows_can_be_selected_in_any_order():
    one = kept()
    again = one.select(torch.tensor([2, 0]))
    assert again.references.tolist() == [1, 1]
    assert again.lengths.tolist() == [0, 1, 3, 2]
    assert again.tokens.tolist() == [3, 3, 4, 4, 3, 9]
    assert again.similarities.tolist() == pytest.approx([0.7, 0.9, 0.5, 0.1, 0.9, 0.2])
    assert [part.tolist() for part in one.select(torch.arange(3))] == [part.tolist() for part in one]
    assert [len(part) for part in one.select(torch.arange(0))] == [0, 0, 0, 0]


@pytest.mark.parametrize(("batch_tokens", "block"), [(None, 1 << 20), (1, 1), (12, 60)])
@pytest.mark.parametrize("threads", [1, 2])
def test_matches_depend_on_no_batch(tiny_metric, monkeypatch, caplog, batch_tokens, block, threads):
    from textmover.scoring.engine import engine
    from textmover.scoring.engine import text_features as text_work

    for module in (engine, text_work):
        monkeypatch.setattr(module, "worker_count", lambda _: threads)
    special = dict.fromkeys(("hypothesis_special_tokens", "reference_special_tokens"), "targets")
    model = tiny_metric(matching="bertscore", normalize=False, punctuation="drop", **special)
    scorer = Scorer(model, batch_tokens=batch_tokens)
    scorer._engine._block = block
    hypotheses = ["tea", "the small dog ran home , we said", "", "go home", "tea"]
    references = [["cold tea", "tea"], ["a dog ran"], ["tea", "", "water"], ["go home"], ["water", "tea"]]
    found = match_tokens(scorer, model, hypotheses, references)
    assert found.references.tolist() == [2, 1, 3, 1, 2]
    assert [one.message for one in caplog.records if "segment" in one.message] == [
        "1 segment had an empty or unreadable hypothesis or reference, "
        "and scored as texts with nothing in common: `score --format tsv` flags each."
    ]
    assert not any(one.is_inference() for one in found)
    start = 0
    pairs = [(one, other) for one, group in zip(hypotheses, references, strict=True) for other in group]
    for (hypothesis, reference), lengths in zip(pairs, found.lengths.view(-1, 2).tolist(), strict=True):
        sides = [model.text_features(model.tokenize([text])) for text in (reference, hypothesis)]
        with torch.no_grad():
            similarity = sides[0].vectors[0] @ sides[1].vectors[0].T
        for axis, (side, length) in enumerate(zip(sides, lengths, strict=True)):
            kept = (side.traits[0] & TokenTrait.PUNCTUATION) == 0
            chosen = kept & (side.special[0] == SpecialToken.NONE)
            stop = start + length
            assert found.tokens[start:stop].tolist() == side.input_ids[0, chosen].tolist()
            partners = (sides[1 - axis].traits[0] & TokenTrait.PUNCTUATION) == 0
            best = (similarity if axis == 0 else similarity.T)[:, partners].amax(dim=1)[chosen]
            torch.testing.assert_close(found.similarities[start:stop], best, rtol=0, atol=1e-6)
            start = stop
    assert start == len(found.tokens)


def test_texts_that_are_read_together_cannot_be_kept_one_by_one(tiny_metric):
    model = tiny_metric(matching="bertscore", normalize=False, centering="batch")
    with pytest.raises(InputError, match="reads them together"):
        match_tokens(Scorer(model), model, ["tea"], [["water"]])
