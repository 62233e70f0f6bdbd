"""Where one metric of the family turns into another, and the Sinkhorn divergence."""

import ot
import pytest
import torch

from textmover.functional import (
    exact_transport,
    greedy_matching,
    lazy_emd,
    mean_cosine,
    pairwise_cost,
    pairwise_similarity,
    sinkhorn,
    trwmd,
    twmd,
    unit_vectors,
)

PATIENT = {"tolerance": 1e-6, "max_iterations": 100_000}


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return unit_vectors(torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64))


def falls_to_nothing(errors: list[torch.Tensor], bound: float) -> bool:
    """Whether errors of all problems shrink from step to step and end within a bound."""
    stacked = torch.stack(errors).abs()
    return bool((stacked.diff(dim=0) < 0).all() and (stacked[-1] < bound).all())


# --- as the temperature falls -----------------------------------------------------------------------------------------


@pytest.fixture
def given(problem):
    """Problems with equal weights and with others."""
    pair = (problem(3, 6, 5, uniform=uniform) for uniform in (True, False))
    return problem()._make(map(torch.cat, zip(*pair, strict=True)))


def test_cold_twmd_of_many_iterations_is_one_minus_exact_transport(given):
    exact = 1 - exact_transport(1 - given.similarity, given.a, given.b).transport
    found = [twmd(*given[:3], T, iterations=600) for T in (0.2, 0.05, 0.015)]
    for name in ("recall", "precision", "f"):
        assert falls_to_nothing([getattr(one, name) - exact for one in found], 3e-3)


def test_cold_sinkhorn_is_exact_transport_from_above(given):
    cost = 1 - given.similarity
    exact = torch.tensor([ot.emd2(*(t[row].numpy() for t in (given.a, given.b, cost))) for row in range(6)])
    found = [sinkhorn(cost, *given[1:3], epsilon, **PATIENT) for epsilon in (0.2, 0.05, 0.015)]
    for name, bound in (("transport", 3e-3), ("objective", 0.05)):
        errors = [getattr(one, name) - exact for one in found]
        assert falls_to_nothing(errors, bound)
        assert (torch.stack(errors) > -1e-5).all()


def test_greedy_matching_bounds_exact_transport(problem):
    given = problem(8, 6, 5)
    greedy = greedy_matching(*given)
    exact = 1 - exact_transport(1 - given.similarity, given.a, given.b).transport
    assert (exact <= torch.minimum(greedy.recall, greedy.precision) + 1e-14).all()


# --- the same number by several routes --------------------------------------------------------------------------------


def test_one_word_against_many_is_the_same_for_all(problem):
    given = problem(4, 1, 6)
    expected = (given.b * given.similarity[:, 0]).sum(dim=1)
    exact = 1 - exact_transport(1 - given.similarity, given.a, given.b).transport
    balanced = 1 - sinkhorn(1 - given.similarity, given.a, given.b, 0.1, **PATIENT).transport
    precision = greedy_matching(*given).precision
    for found in (exact, balanced, precision, trwmd(*given, 0.1).precision, twmd(*given[:3], 0.1).precision):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-13)


# --- the Sinkhorn divergence ------------------------------------------------------------------------------------------


def divergence(x, y, a, b, epsilon: float, kind: str) -> torch.Tensor:
    """OT(x, y) - (OT(x, x) + OT(y, y)) / 2 of regularised values."""

    def value(one, other, rows, columns) -> torch.Tensor:
        cost = pairwise_cost(one, other, pairwise_similarity(one, other), kind)
        return sinkhorn(cost, rows, columns, epsilon, tolerance=1e-11, max_iterations=2000).objective

    return value(x, y, a, b) - (value(x, x, a, a) + value(y, y, b, b)) / 2


@pytest.mark.parametrize("kind", ["cosine", "squared-euclidean", "euclidean"])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 5.0])
def test_the_sinkhorn_divergence_is_positive_and_zero_for_equal_texts(problem, kind, epsilon):
    given = problem(4, 6, 5, ragged=True)
    x, y = draw(4, 6, 8), draw(4, 5, 8, seed=1)
    assert (divergence(x, y, given.a, given.b, epsilon, kind) > 1e-4).all()
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    others = torch.cat([x[:, order], unit_vectors(x + 0.01), unit_vectors(x + 0.3)])
    weights = torch.cat([given.a[:, order], given.a, given.a])
    same, near, far = divergence(x.repeat(3, 1, 1), others, given.a.repeat(3, 1), weights, epsilon, kind).split(4)
    assert (same.abs() < 1e-10).all()
    assert ((near > 0) & (near < far)).all()


def test_the_sinkhorn_divergence_lies_between_transport_and_the_distance_of_means(problem):
    given = problem(4, 6, 5)
    x, y = draw(4, 6, 8), draw(4, 5, 8, seed=1)
    exact = exact_transport(1 - pairwise_similarity(x, y), given.a, given.b).transport
    cold = divergence(x, y, given.a, given.b, 0.01, "cosine")
    torch.testing.assert_close(cold, exact, rtol=0, atol=0.02)
    means = ((given.a[:, :, None] * x).sum(dim=1) - (given.b[:, :, None] * y).sum(dim=1)).square().sum(dim=1) / 2
    hot = divergence(x, y, given.a, given.b, 1e4, "cosine")  # with the cost 1 - cos = |x - y|^2 / 2
    torch.testing.assert_close(hot, means, rtol=0, atol=1e-4)


# --- defects ----------------------------------------------------------------------------------------------------------

FAMILY = {
    "twmd": lambda s, a, b, rows, columns: twmd(s, a, b, 0.1).f,
    "converged twmd": lambda s, a, b, rows, columns: twmd(s, a, b, 0.1, tolerance=1e-6, max_iterations=9).f,
    "trwmd": lambda s, a, b, rows, columns: trwmd(s, a, b, rows, columns, 0.1).f,
    "greedy": lambda *given: greedy_matching(*given).f,
    "lazy": lambda s, *sides: (
        lazy_emd(1 - s, *sides, 0.1, reference_penalty=1.0, hypothesis_penalty=2.0, iterations=9).f
    ),
    "mean cosine": lambda s, a, b, rows, columns: mean_cosine(s, a, b),
}


@pytest.mark.parametrize("where", ["similarity", "a", "b"])
@pytest.mark.parametrize("matching", FAMILY.values(), ids=FAMILY)
def test_nan_stays_one_and_in_its_own_row(problem, matching, where):
    given = problem(3, 4, 5)
    getattr(given, where)[1].view(-1)[0] = float("nan")
    assert matching(*given).isnan().tolist() == [False, True, False]
