"""Which tokens take part and with what weight."""

from typing import get_args

import pytest
import torch

from textmover.modules.config import SpecialTokens
from textmover.modules.weighting import TokenWeighting
from textmover.types import TokenEmbeddings

# [CLS] a b [SEP] -, [CLS] [SEP] - - -, and a text that has a special token in its midst.
SPECIAL = torch.tensor([[1, 0, 0, 2, 0], [1, 2, 0, 0, 0], [1, 0, 2, 0, 2]], dtype=torch.int8)
MASK = torch.tensor([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0], [1, 1, 1, 1, 1]], dtype=torch.bool)
TOKENS = TokenEmbeddings(torch.zeros(3, 5, 2), MASK, SPECIAL, torch.zeros(3, 5, dtype=torch.long))

EXPECTED = {  # who may be matched, and who has weight
    "keep": ([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0], [1, 1, 1, 1, 1]],) * 2,
    "drop": ([[0, 1, 1, 0, 0], [0, 0, 0, 0, 0], [0, 1, 0, 1, 0]],) * 2,
    "first": ([[1, 1, 1, 0, 0], [1, 0, 0, 0, 0], [1, 1, 0, 1, 0]],) * 2,
    "targets": (
        [[1, 1, 1, 1, 0], [1, 1, 0, 0, 0], [1, 1, 1, 1, 1]],
        [[0, 1, 1, 0, 0], [0, 0, 0, 0, 0], [0, 1, 0, 1, 0]],
    ),
}


def test_every_choice_is_tested():
    assert set(EXPECTED) == set(get_args(SpecialTokens))


@pytest.mark.parametrize("role", ["reference", "hypothesis"])
@pytest.mark.parametrize("choice", EXPECTED)
def test_choices_select_and_weigh(choice, role):
    sides = {"reference": "keep", "hypothesis": "keep", role: choice}
    weighting = TokenWeighting(sides["reference"], sides["hypothesis"])
    matchable, weights = weighting(TOKENS, role)
    may_match, has_weight = (torch.tensor(table, dtype=torch.bool) for table in EXPECTED[choice])
    assert torch.equal(matchable, may_match)
    assert torch.equal(weights > 0, has_weight)
    totals = has_weight.any(dim=1).float()
    torch.testing.assert_close(weights.sum(dim=1), totals)
    for row, kept in zip(weights, has_weight, strict=True):
        assert len(set(row[kept].tolist())) <= 1  # uniform


@pytest.mark.parametrize("reference", EXPECTED)
@pytest.mark.parametrize("hypothesis", EXPECTED)
def test_roles_differ_where_their_choices_do(reference, hypothesis):
    assert TokenWeighting(reference, hypothesis).roles_differ == (reference != hypothesis)


def test_a_text_is_empty_without_an_ordinary_token():
    assert TokenWeighting.is_empty(TOKENS).tolist() == [False, True, False]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_weights_have_the_dtype_of_the_vectors(dtype):
    tokens = TokenEmbeddings(TOKENS.vectors.to(dtype), MASK, SPECIAL, TOKENS.input_ids)
    assert TokenWeighting("first", "first")(tokens, "reference")[1].dtype == dtype
