"""Mean cosine and kernel alignment against their definitions on vectors and against published code's values."""

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cosine
from tests.functional.transport_rules import each_of_the_authors, uniform, vectors_of

from textmover.functional import mean_cosine, normalize_by_self, wordset_cka

KERNELS = {"mean_cosine": mean_cosine, "wordset_cka": wordset_cka}

pytestmark = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)


def normalised(kernel, x: torch.Tensor, y: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> float:
    value, own_x, own_y = (
        kernel((one @ other.T)[None], u, v) for one, other, u, v in ((x, y, a, b), (x, x, a, a), (y, y, b, b))
    )
    return normalize_by_self(value, own_x, own_y)[0].item()


@each_of_the_authors
def test_values_of_the_authors_code(kernel, case):
    x, y = vectors_of(case)
    expected = case["sbert" if kernel is mean_cosine else "wordset_cka"]
    assert normalised(kernel, x, y, *uniform(len(x), len(y))) == pytest.approx(expected, abs=1e-9)


def test_definition_on_weighted_vectors(kernel):
    rng = np.random.default_rng(0)
    x, y, a, b = rng.normal(size=(4, 6)), rng.normal(size=(5, 6)), rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(5))
    found = normalised(kernel, *map(torch.tensor, (x, y)), torch.tensor(a)[None], torch.tensor(b)[None])
    if kernel is mean_cosine:
        expected = 1 - cosine(a @ x, b @ y)
    else:
        first, second = (x.T * a) @ x, (y.T * b) @ y
        expected = np.sum(first * second) / (np.linalg.norm(first) * np.linalg.norm(second))
    assert found == pytest.approx(expected, abs=1e-13)


def test_loop_over_all_pairs(kernel, problem):
    given = problem(2, 4, 3, ragged=True)
    power = 1 if kernel is mean_cosine else 2
    for row in range(2):
        s, a, b = (tensor[row].tolist() for tensor in given[:3])
        expected = sum(a[i] * b[j] * s[i][j] ** power for i in range(4) for j in range(3))
        assert kernel(*given[:3])[row].item() == pytest.approx(expected, abs=1e-14)
