"""RoMe's semantic feature: by hand, its laws, bad texts, weights, and the paper's examples."""

import dataclasses

import pytest
import torch
from tests.rome.shared import EXAMPLES

from textmover.functional import Units
from textmover.rome.features.semantic import SEMANTICS, SemanticConfig, semantic_similarity, word_mask, word_weights
from textmover.rome.features.word_vectors import WordIdf, word_spans, word_vectors_of_spans
from textmover.types import InputError
from textmover.types.tokens import token_offsets


def random_words(batch=6, size=7, dimensions=3, seed=0, dtype=torch.float64):
    """Words of texts of different lengths, with weights that sum to 1."""
    generator = torch.Generator().manual_seed(seed)
    vectors = torch.randn(batch, size, dimensions, generator=generator, dtype=torch.float64)
    mask = torch.arange(size) < torch.tensor([max(1, size - row) for row in range(batch)])[:, None]
    weights = (torch.rand(batch, size, generator=generator, dtype=torch.float64) + 0.1) * mask
    vectors = vectors * mask[:, :, None]
    return Units(vectors.to(dtype), mask, (weights / weights.sum(dim=1, keepdim=True)).to(dtype))


def pair(seed=0, **kwargs):
    return random_words(seed=seed, **kwargs), random_words(size=5, seed=seed + 1, **kwargs)


LOW = {name: dataclasses.replace(one, threshold=0.2) for name, one in SEMANTICS.items()}
"""All named configurations, with a threshold that random vectors pass."""


# --- values -----------------------------------------------------------------------------------------------------------


def test_two_words_by_hand():
    """Cosines .8 and .9 on the diagonal; of the weights .5 and .25 can be moved along it."""
    reference = Units(torch.eye(3)[None, :2], torch.ones(1, 2, dtype=torch.bool), torch.tensor([[0.75, 0.25]]))
    vectors = torch.tensor([[[0.8, 0.0, 0.6], [0.0, 0.9, 0.19**0.5]]])
    hypothesis = Units(5 * vectors, reference.mask, torch.tensor([[0.5, 0.5]]))  # lengths do not matter
    found = semantic_similarity(reference, hypothesis)
    assert found.value.item() == pytest.approx(0.5 * 0.8 + 0.25 * 0.9, abs=1e-6)
    assert found.alignment.tolist() == [[0, 1]]
    torch.testing.assert_close(found.flow, torch.tensor([[[0.5, 0.25], [0.0, 0.25]]]))
    torch.testing.assert_close(found.distance, torch.tensor([[[0.2, 1.0], [1.0, 0.1]]]))
    assert not found.empty.any()


@pytest.mark.parametrize("name", ["paper", "code", "align", "emd"])
def test_a_text_and_itself(name):
    words = random_words(dimensions=5)
    found = semantic_similarity(words, words, SEMANTICS[name])
    torch.testing.assert_close(found.value, torch.ones(6).double(), rtol=0, atol=1e-12)
    for row in range(6):
        length = int(words.mask[row].sum())
        assert found.alignment[row].tolist() == [*range(length), *[-1] * (7 - length)]


def test_eq_3_as_printed_aligns_no_word_with_itself():
    words = random_words(1, 4, dimensions=4)
    words = words._replace(vectors=torch.eye(4).double()[None])
    assert semantic_similarity(words, words).value.item() == pytest.approx(1)
    # All others are 0.
    assert semantic_similarity(words, words, SEMANTICS["equations"]).value.item() == pytest.approx(1)
    close = words._replace(vectors=torch.eye(4).double()[None] + 1)  # but let others be somewhat alike
    assert semantic_similarity(close, close).value.item() == pytest.approx(1)
    assert semantic_similarity(close, close, SEMANTICS["equations"]).value.item() < 0.9


@pytest.mark.parametrize("name", LOW)
def test_the_value_is_carried_by_the_flow_and_in_bounds(name):
    reference, hypothesis = pair()
    found = semantic_similarity(reference, hypothesis, LOW[name])
    low, high = LOW[name].bounds
    assert (found.value >= low).all()
    assert (found.value <= high).all()
    assert found.value.std() > 0
    torch.testing.assert_close(found.value, 1 - (found.flow * found.distance).sum(dim=(1, 2)), rtol=0, atol=1e-12)
    torch.testing.assert_close(found.flow.sum(dim=2), reference.weights, rtol=0, atol=1e-12)
    torch.testing.assert_close(found.flow.sum(dim=1), hypothesis.weights, rtol=0, atol=1e-12)
    assert (found.alignment[~hypothesis.mask] == -1).all()


def test_plain_emd_goes_below_0_for_opposites():
    words = random_words(1, 1)
    found = semantic_similarity(words, words._replace(vectors=-words.vectors), SEMANTICS["emd"])
    assert found.value.item() == pytest.approx(-1)
    assert semantic_similarity(words, words._replace(vectors=-words.vectors)).value.item() == 0


def test_every_field_has_an_effect():
    reference, hypothesis = pair()
    base = SemanticConfig(threshold=0.2)
    value = semantic_similarity(reference, hypothesis, base).value
    for change in (
        {"align": False},
        {"position": "near"},
        {"position": "literal"},
        {"penalty": "code"},
        {"penalty": "none"},
        {"threshold": 0.9},
    ):
        other = semantic_similarity(reference, hypothesis, dataclasses.replace(base, **change)).value
        assert not torch.allclose(other, value), change


def test_unknown_fields_are_refused():
    with pytest.raises(InputError, match=r"`position` to be one of 'penalty', 'near', 'literal', but got 'far'\."):
        SemanticConfig(position="far")
    with pytest.raises(InputError, match=r"`penalty` to be one of 'paper', 'code', 'none', but got 'soft'\."):
        SemanticConfig(penalty="soft")
    with pytest.raises(InputError, match=r"`threshold` to be between 0 and 1, but got -0\.1\."):
        SemanticConfig(threshold=-0.1)


# --- laws -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LOW)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_batch_mates_and_padding_change_nothing(name, dtype):
    reference, hypothesis = pair(dtype=dtype)
    found = semantic_similarity(reference, hypothesis, LOW[name])
    for row in range(6):
        sides = []
        for words in (reference, hypothesis):
            length = int(words.mask[row].sum())
            sides.append(Units(*(part[row : row + 1, :length] for part in words)))
        alone = semantic_similarity(*sides, LOW[name])
        torch.testing.assert_close(alone.value[0], found.value[row], rtol=0, atol=1e-6)
        assert alone.alignment[0].tolist() == found.alignment[row, : sides[1].mask.shape[1]].tolist()


@pytest.mark.parametrize("name", LOW)
def test_words_that_take_no_part_do_not_count(name):
    """They may stand between the others: a punctuation mark moves no position."""
    reference, hypothesis = pair()
    expected = semantic_similarity(reference, hypothesis, LOW[name])
    gap = torch.tensor([0, 1, 1, 2, 3, 4])
    mask = hypothesis.mask[:, gap].clone()
    mask[:, 1] = False
    wide = Units(hypothesis.vectors[:, gap], mask, hypothesis.weights[:, gap])  # its weight is not 0
    found = semantic_similarity(reference, wide, LOW[name])
    torch.testing.assert_close(found.value, expected.value, rtol=0, atol=1e-12)
    torch.testing.assert_close(found.alignment[:, [0, 2, 3, 4, 5]], expected.alignment)
    assert (found.alignment[:, 1] == -1).all()


def test_without_normalised_weights_a_part_of_the_reference_is_at_no_distance():
    whole = random_words(1, 6, dimensions=8)._replace(weights=torch.ones(1, 6).double())
    part = Units(*(one[:, :4] for one in whole))
    free = semantic_similarity(whole, part, SEMANTICS["align"])
    assert free.value.item() == pytest.approx(1)
    shared = [side._replace(weights=side.weights / side.weights.sum()) for side in (whole, part)]
    assert semantic_similarity(*shared, SEMANTICS["align"]).value.item() == pytest.approx(4 / 6)


@pytest.mark.parametrize("name", LOW)
def test_gradients_reach_vectors_and_weights(name):
    reference, hypothesis = pair()
    leaves = [side.vectors.clone().requires_grad_() for side in (reference, hypothesis)]
    weights = reference.weights.clone().requires_grad_()
    found = semantic_similarity(
        Units(leaves[0], reference.mask, weights), hypothesis._replace(vectors=leaves[1]), LOW[name]
    )
    found.value.sum().backward()
    for leaf in (*leaves, weights):
        assert leaf.grad.isfinite().all()
        assert (leaf.grad != 0).any()
    assert not found.flow.requires_grad
    assert not found.distance.requires_grad


# --- bad texts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SEMANTICS)
@pytest.mark.parametrize("side", ["reference", "hypothesis", "both"])
def test_a_text_without_words_has_value_0_and_the_flag(name, side):
    sides = list(pair())
    for place, which in enumerate(("reference", "hypothesis")):
        if side in (which, "both"):
            mask = sides[place].mask.clone()
            mask[2] = False
            sides[place] = sides[place]._replace(mask=mask)
    leaf = sides[0].vectors.clone().requires_grad_()
    found = semantic_similarity(sides[0]._replace(vectors=leaf), sides[1], SEMANTICS[name])
    assert found.empty.tolist() == [False, False, True, False, False, False]
    assert found.value[2] == 0
    assert (found.alignment[2] == -1).all()
    assert (found.flow[2] == 0).all()
    found.value.sum().backward()
    assert leaf.grad.isfinite().all()


@pytest.mark.parametrize("name", SEMANTICS)
def test_batches_without_any_word(name):
    reference, hypothesis = pair()
    nothing = Units(*(part[:, :0] for part in reference))
    for one, other in ((nothing, hypothesis), (reference, nothing), (nothing, nothing)):
        found = semantic_similarity(one, other, SEMANTICS[name])
        assert found.empty.all()
        assert found.value.tolist() == [0] * 6
    none = semantic_similarity(*(Units(*(part[:0] for part in side)) for side in (reference, hypothesis)))
    assert none.value.shape == (0,)


# --- weights ----------------------------------------------------------------------------------------------------------

WORDS = [["The", "the", "cat", "!"], ["dog"], []]
MASK = torch.tensor([[True, True, True, False], [True, False, False, False], [False] * 4])


@pytest.fixture(scope="module")
def idf():
    idf = WordIdf("smooth")
    idf.add_words([["the", "cat"], ["the", "dog"], ["the"]])
    return idf


def test_weights_are_uniform_until_they_are_fitted():
    expected = torch.tensor([[1 / 3, 1 / 3, 1 / 3, 0], [1, 0, 0, 0], [0, 0, 0, 0]])
    for weighting, idf in (("tf-idf", None), ("tf-idf", WordIdf()), ("idf", None), ("uniform", None)):
        weights, unweighted = word_weights(WORDS, MASK, idf, weighting=weighting)
        torch.testing.assert_close(weights, expected)
        assert not unweighted.any()
    assert word_weights(WORDS, MASK, normalize=False)[0].tolist() == MASK.float().tolist()


def test_tf_idf_by_hand():
    idf = WordIdf("plus-one")
    idf.add_words([["the", "cat"], ["the", "dog"], ["the"]])
    the, cat = torch.log1p(torch.tensor([4 / 4, 4 / 2])).tolist()
    raw = word_weights(WORDS, MASK, idf, normalize=False)[0]
    torch.testing.assert_close(raw[0], torch.tensor([2 / 3 * the, 2 / 3 * the, cat / 3, 0]))
    torch.testing.assert_close(raw[1], torch.tensor([cat, 0, 0, 0]))
    torch.testing.assert_close(word_weights(WORDS, MASK, idf)[0][0], raw[0] / raw[0].sum())
    once = word_weights(WORDS, MASK, idf, weighting="idf", normalize=False)[0]
    torch.testing.assert_close(once[0], torch.tensor([the, the, cat, 0]))


def test_uniform_weights_stand_in_where_all_are_0(idf):
    words = [["the", "The"], ["the", "cat"], []]
    mask = torch.tensor([[True, True], [True, True], [False, False]])
    weights, unweighted = word_weights(words, mask, idf)
    assert unweighted.tolist() == [True, False, False]
    assert weights.tolist() == [[0.5, 0.5], [0, 1], [0, 0]]


def test_an_unknown_weighting_is_refused():
    with pytest.raises(InputError, match=r"`weighting` to be one of 'uniform', 'idf', 'tf-idf', but got 'bm25'\."):
        word_weights(WORDS, MASK, weighting="bm25")


# --- texts ------------------------------------------------------------------------------------------------------------


def word_units(metric, texts, idf=None):
    batch, offsets = metric.tokenize(texts), token_offsets(metric.tokenizer, texts)
    spans = word_spans(batch, offsets)
    with torch.no_grad():
        vectors, mask = word_vectors_of_spans(metric.token_vectors(batch), batch, offsets, spans)
    words = [[text[start:end] for start, end in places] for text, places in zip(texts, spans, strict=True)]
    mask = word_mask(mask, words)
    return Units(vectors, mask, word_weights(words, mask, idf)[0])


@pytest.fixture(scope="module")
def examples(embedded_metric):
    metric = embedded_metric("twmd", subwords="mean")
    references, hypotheses = zip(*EXAMPLES.values(), strict=True)
    return word_units(metric, references), word_units(metric, hypotheses)


@pytest.mark.parametrize("penalty", ["paper", "code", "none"])
def test_the_examples_of_the_paper_are_in_its_order(examples, penalty):
    config = SemanticConfig(penalty=penalty)
    values = dict(zip(EXAMPLES, semantic_similarity(*examples, config).value.tolist(), strict=True))
    worst = max(values["unrelated"], values["repetitive"])
    assert values["paraphrase"] > values["passive"] > values["repetition"] > worst
    assert values["paraphrase"] == pytest.approx(0.83, abs=0.05)  # as in the paper


def test_the_factor_of_the_authors_code_loses_the_passive(examples):
    values = semantic_similarity(*examples, SemanticConfig(position="near")).value
    assert values[1] < values[2]
