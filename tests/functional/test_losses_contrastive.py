"""The contrastive loss against cross entropies, sentence-transformers and loops, and texts that occur twice."""

import math

import pytest
import torch
from torch.nn.functional import cross_entropy

from textmover.functional.losses import contrastive_loss, shared_texts
from textmover.types import InputError


def draw(count: int = 6, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.rand(count, count, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(dtype)


def by_hand(similarities, temperature, positives, exclude):
    """The formula pair by pair."""
    e = (similarities / temperature).exp().tolist()
    size, lost, count = range(len(e)), 0.0, 0
    for i in size:
        for j in size:
            if positives[i, j]:
                row = sum(e[i][n] for n in size if not (positives[i, n] or exclude[i, n]))
                column = sum(e[n][j] for n in size if not (positives[n, j] or exclude[n, j]))
                lost -= (math.log(e[i][j] / (e[i][j] + row)) + math.log(e[i][j] / (e[i][j] + column))) / 2
                count += 1
    return lost / count


@pytest.mark.parametrize("temperature", [0.05, 1.0])
def test_of_distinct_texts_it_is_the_mean_of_two_cross_entropies(temperature):
    similarities = draw()
    logits, own = similarities / temperature, torch.arange(len(similarities))
    expected = (cross_entropy(logits, own) + cross_entropy(logits.T, own)) / 2
    torch.testing.assert_close(contrastive_loss(similarities, temperature), expected, rtol=1e-12, atol=0)


def test_of_distinct_texts_it_is_that_of_sentence_transformers():
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    generator = torch.Generator().manual_seed(1)
    one, other = (torch.randn(8, 5, generator=generator, dtype=torch.float64) for _ in range(2))
    ways = {"directions": ("query_to_doc", "doc_to_query"), "partition_mode": "per_direction"}
    reference = MultipleNegativesRankingLoss(model=None, scale=20.0, **ways)
    cosines = torch.cosine_similarity(one[:, None], other[None], dim=2)
    expected = reference.compute_loss_from_embeddings([one, other], None)
    torch.testing.assert_close(contrastive_loss(cosines, 1 / 20), expected.double(), rtol=1e-6, atol=0)


def test_masks_do_what_the_formula_says():
    similarities = draw()
    positives, exclude = torch.eye(6).bool(), torch.zeros(6, 6).bool()
    positives[0, 3] = positives[4, 1] = exclude[0, 1] = exclude[2, 5] = exclude[1, 1] = True
    found = contrastive_loss(similarities, 0.3, positives, exclude)
    assert found.item() == pytest.approx(by_hand(similarities, 0.3, positives, exclude), rel=1e-12)


def test_a_text_that_occurs_twice_is_no_negative():
    similarities = draw().requires_grad_()
    exclude = shared_texts(torch.tensor([0, 2, 4, 6, 0, 10]), torch.tensor([1, 3, 5, 7, 9, 11]))
    (slope,) = torch.autograd.grad(contrastive_loss(similarities, exclude=exclude), similarities)
    assert slope[0, 4] == slope[4, 0] == 0
    pushed = ~exclude
    assert (slope[pushed] > 0).all()
    assert (slope.diagonal() < 0).all()


def test_shared_texts_are_found_on_either_side():
    hypotheses, references = torch.tensor([0, 2, 4, 6, 3]), torch.tensor([1, 1, 0, 7, 8])
    texts = [{int(one), int(other)} for one, other in zip(hypotheses, references, strict=True)]
    expected = torch.tensor([[bool(one & other) for other in texts] for one in texts])
    assert torch.equal(shared_texts(hypotheses, references), expected)
    assert expected.sum() == 5 + 4  # 0 shares with 1 (reference) and with 2 (across)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("positives", "exclude"),
    [
        (None, torch.ones(4, 4).bool()),  # no negatives
        (torch.zeros(4, 4).bool(), None),  # no positives
        (torch.ones(4, 4).bool(), None),  # nothing but positives
    ],
)
def test_without_positives_or_negatives_it_is_zero_without_a_gradient(dtype, positives, exclude):
    similarities = draw(4, dtype).requires_grad_()
    found = contrastive_loss(similarities, 0.05, positives, exclude)
    (slope,) = torch.autograd.grad(found, similarities)
    assert found.item() == 0
    assert (slope == 0).all()


@pytest.mark.parametrize("level", [0.0, 1.0, -1e4])
def test_equal_similarities_cost_the_logarithm_of_the_batch(level):
    similarities = torch.full((5, 5), level, requires_grad=True)
    found = contrastive_loss(similarities)
    (slope,) = torch.autograd.grad(found, similarities)
    assert found.item() == pytest.approx(math.log(5), abs=0.02 if level else 1e-6)
    assert slope.isfinite().all()


def test_gradients():
    positives, exclude = torch.eye(4).bool(), torch.zeros(4, 4).bool()
    positives[0, 2] = exclude[1, 3] = True
    similarities = draw(4).requires_grad_()
    assert torch.autograd.gradcheck(lambda given: contrastive_loss(given, 0.4, positives, exclude), similarities)


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.inf, math.nan])
def test_temperatures_that_are_none_are_refused(temperature):
    with pytest.raises(InputError, match="Expected `temperature` to be a positive finite number"):
        contrastive_loss(draw(), temperature)
