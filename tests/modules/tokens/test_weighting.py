"""Which tokens take part and with what weight."""

from typing import get_args

import pytest
import torch

from textmover.modules.config import MetricConfig, SpecialTokens
from textmover.modules.tokens.weighting import TokenWeighting, needs_traits
from textmover.types import InputError, TokenEmbeddings, TokenTrait

# [CLS] a b [SEP] -, [CLS] [SEP] - - -, and a text that has a special token in its midst.
SPECIAL = torch.tensor([[1, 0, 0, 2, 0], [1, 2, 0, 0, 0], [1, 0, 2, 0, 2]], dtype=torch.int8)
MASK = torch.tensor([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0], [1, 1, 1, 1, 1]], dtype=torch.bool)
TOKENS = TokenEmbeddings(torch.zeros(3, 5, 2), MASK, SPECIAL, torch.zeros(3, 5, dtype=torch.long))


def weighting_of(reference: str = "first", hypothesis: str = "first", **fields) -> TokenWeighting:
    config = MetricConfig(reference_special_tokens=reference, hypothesis_special_tokens=hypothesis, **fields)
    return TokenWeighting(config, 10)


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
    _, matchable, weights, empty, unweighted, _ = weighting_of(**sides)(TOKENS, role)
    assert empty.tolist() == [False, True, False]
    assert not unweighted.any()
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
    assert weighting_of(reference, hypothesis).roles_differ == (reference != hypothesis)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_weights_have_the_dtype_of_the_vectors(dtype):
    tokens = TokenEmbeddings(TOKENS.vectors.to(dtype), MASK, SPECIAL, TOKENS.input_ids)
    assert weighting_of()(tokens, "reference").weights.dtype == dtype


# --- traits, units and weights ----------------------------------------------------------------------------------------

# [CLS] play ##ing , the play [SEP], and [CLS] , [SEP]
C, P, S = TokenTrait.CONTINUATION, TokenTrait.PUNCTUATION, TokenTrait.STOP_WORD
VECTORS = torch.randn(2, 7, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
TEXT = TokenEmbeddings(
    vectors=VECTORS,
    mask=torch.tensor([[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0, 0]], dtype=torch.bool),
    special=torch.tensor([[1, 0, 0, 0, 0, 0, 2], [1, 0, 2, 0, 0, 0, 0]], dtype=torch.int8),
    input_ids=torch.tensor([[1, 5, 6, 7, 8, 5, 2], [1, 7, 2, 0, 0, 0, 0]]),
    traits=torch.tensor([[0, 0, C, P, S, 0, 0], [0, P, 0, 0, 0, 0, 0]], dtype=torch.int8),
)


def unit(vector):
    return vector / vector.norm()


@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        ({"subwords": "first"}, [1, 3, 4, 5]),
        ({"punctuation": "drop"}, [1, 2, 4, 5]),
        ({"stop_words": "the"}, [1, 2, 3, 5]),
        ({"subwords": "first", "punctuation": "drop", "stop_words": "english"}, [1, 5]),
        ({}, [1, 2, 3, 4, 5]),
    ],
)
def test_tokens_are_dropped_by_trait(fields, kept):
    side = weighting_of("drop", **fields)(TEXT, "reference")
    assert side.mask[0].nonzero()[:, 0].tolist() == kept
    assert side.weights[0, kept].tolist() == pytest.approx([1 / len(kept)] * len(kept))
    # All of the second text is a punctuation mark.
    assert side.empty.tolist() == [False, fields.get("punctuation") == "drop"]
    assert needs_traits(MetricConfig(**fields)) == (len(kept) < 5)


def test_special_tokens_alone_make_no_text():
    side = weighting_of("keep", punctuation="drop")(TEXT, "reference")
    assert side.empty.tolist() == [False, True]
    assert side.mask[1].tolist() == [True, False, True, False, False, False, False]


def test_pieces_become_their_word():
    side = weighting_of("drop", subwords="mean")(TEXT, "reference")
    assert side.mask[0].sum() == 4
    torch.testing.assert_close(side.vectors[0, 0], unit((VECTORS[0, 1] + VECTORS[0, 2]) / 2))
    for word, piece in ((1, 3), (2, 4), (3, 5)):
        torch.testing.assert_close(side.vectors[0, word], unit(VECTORS[0, piece]))
    assert side.weights[0, :4].tolist() == pytest.approx([0.25] * 4)


def fitted(**fields) -> TokenWeighting:
    """Weights fitted on four documents: 1 and 2 in all of them, 5 in two, 7 in one."""
    weighting = weighting_of("keep", "keep", **fields)
    documents = torch.tensor([[1, 5, 2], [1, 5, 2], [1, 7, 2], [1, 9, 2]])
    for role in weighting.tables:
        weighting.table(role).add(documents, torch.ones_like(documents, dtype=torch.bool))
    return weighting


@pytest.mark.parametrize("formula", ["smooth", "plus-one"])
def test_idf_weighs_tokens(formula):
    side = fitted(weights="idf", idf=formula)(TEXT, "reference")
    ratio = torch.tensor([5 / 5, 5 / 3, 5 / 1, 5 / 2, 5 / 1, 5 / 3, 5 / 5], dtype=torch.float64)
    expected = ratio.log() if formula == "smooth" else (1 + ratio).log()
    torch.testing.assert_close(side.weights[0], expected / expected.sum(), rtol=1e-6, atol=0)


def test_tf_idf_weighs_a_token_by_its_share_of_the_text():
    side = fitted(weights="tf-idf")(TEXT, "reference")
    idf = torch.tensor([0, 5 / 3, 5, 5 / 2, 5, 5 / 3, 1], dtype=torch.float64).clamp(min=1).log()
    expected = idf * torch.tensor([1, 2, 1, 1, 1, 2, 1]) / 7
    torch.testing.assert_close(side.weights[0], expected / expected.sum(), rtol=1e-6, atol=0)


def test_a_text_whose_weights_are_all_0_is_weighed_uniformly_and_marked():
    weighting = fitted(weights="idf")
    everywhere = TEXT.input_ids.clone()
    everywhere[0, :] = 1
    side = weighting(TokenEmbeddings(VECTORS, TEXT.mask, TEXT.special, everywhere), "reference")
    assert side.unweighted.tolist() == [True, False]
    assert side.weights[0].tolist() == pytest.approx([1 / 7] * 7)


@pytest.mark.parametrize("weights", ["idf", "tf-idf"])
def test_unfitted_idf_weights_are_an_error_with_the_way_out(weights):
    """They were uniform without a word, under a signature with idf, in loops that call the metric itself."""
    with pytest.raises(InputError, match=r"idf weights to be fitted.* call `fit\(texts\)`"):
        weighting_of(weights=weights)(TEXT, "reference")


@pytest.mark.parametrize("source", ["corpus", "references", "sides"])
def test_each_side_has_its_table_where_asked_for(source):
    weighting = weighting_of(weights="idf", idf_from=source)
    assert not weighting.table("reference").fitted
    assert set(weighting.tables) == ({"reference", "hypothesis"} if source == "sides" else {"reference"})
    assert weighting.roles_differ == (source == "sides")
    assert weighting.waits_for_call == (source != "corpus")
    for role in weighting.tables:
        weighting.table(role).add(torch.tensor([[1]]), torch.tensor([[True]]))
    assert weighting.table("reference").fitted
    assert not weighting.waits_for_call  # a corpus has been seen: calls leave it alone
    for role in weighting.tables:
        weighting.table(role).from_call.fill_(True)
    assert weighting.waits_for_call == (source != "corpus")


@pytest.mark.parametrize("n", [2, 3, 7, 9, "sentence"])
def test_ngrams_are_weighted_means_of_what_is_left(n):
    weighting = fitted(weights="idf", ngram=n, punctuation="drop")
    side = weighting(TEXT, "reference")
    kept = [0, 1, 2, 4, 5, 6]
    idf = torch.tensor([1, 5 / 3, 5, 5 / 2, 5, 5 / 3, 1], dtype=torch.float64).log()
    size = len(kept) if n == "sentence" else min(n, len(kept))
    stretches = [kept[start : start + size] for start in range(len(kept) - size + 1)]
    assert side.mask[0].sum() == len(stretches)
    total = sum(idf[stretch].sum() for stretch in stretches)
    for place, stretch in enumerate(stretches):
        mean = (idf[stretch, None] * VECTORS[0, stretch]).sum(dim=0)
        torch.testing.assert_close(side.vectors[0, place], unit(mean), rtol=1e-6, atol=1e-7)
        assert side.weights[0, place].item() == pytest.approx((idf[stretch].sum() / total).item())


def test_vectors_that_are_not_pooled_stay_as_they_are():
    assert torch.equal(weighting_of()(TEXT, "reference").vectors, VECTORS)


@pytest.mark.parametrize("fields", [{}, {"subwords": "mean"}, {"ngram": 2}, {"ngram": "sentence"}])
def test_a_batch_without_any_unit_keeps_one_empty_place(fields):
    nothing = TEXT.select(torch.tensor([1]))
    side = weighting_of("drop", punctuation="drop", **fields)(nothing, "reference")
    assert side.mask.shape[1] >= 1
    assert not side.mask.any()
    assert side.empty.tolist() == [True]
    no_tokens = TokenEmbeddings(
        torch.zeros(2, 0, 4), *(torch.zeros(2, 0, dtype=kind) for kind in (bool, torch.int8, int))
    )
    assert weighting_of("drop")(no_tokens, "reference").mask.tolist() == [[False]] * 2


def test_a_loss_between_the_same_tokens_counts_more():
    ids, unknown = torch.tensor([[7, 8, 1, 1]]), torch.tensor([[0, 0, 5, 6]])
    vectors = torch.tensor([[[1.0, 0.0], [0.8, 0.6], [0.0, 1.0], [0.0, 1.0]]])
    mask, special = torch.ones(1, 4, dtype=torch.bool), torch.zeros(1, 4, dtype=torch.int8)
    sides = [TokenEmbeddings(one, mask, special, ids, unknown=unknown) for one in (vectors, vectors.flip(2))]
    usual, weighting = weighting_of(), weighting_of(same_token_loss=2.0)
    plain = usual.similarity(*(usual(one, "reference") for one in sides))
    scaled = weighting.similarity(*(weighting(one, "reference") for one in sides))
    expected = plain.clone()
    expected[0, 1, 1] = 1 - 2 * (1 - 0.96)
    torch.testing.assert_close(scaled, expected)  # others differ by key, or share one and are already as far as others
    assert plain[0, 0, 0] == scaled[0, 0, 0] == 0
