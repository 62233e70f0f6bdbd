"""Mean cosine and kernel alignment against their definitions on vectors and against published code's values."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cosine
from torch.autograd import gradcheck

from textmover.functional import mean_cosine, normalize_by_self, wordset_cka

KERNELS = {"mean_cosine": mean_cosine, "wordset_cka": wordset_cka}
CASES = json.loads((Path(__file__).parent / "data" / "twmd_family.json").read_text())["cases"]

pytestmark = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)


def uniform(size: int) -> torch.Tensor:
    return torch.full((1, size), 1 / size, dtype=torch.float64)


def normalised(kernel, x: torch.Tensor, y: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> float:
    value, own_x, own_y = (
        kernel((one @ other.T)[None], u, v) for one, other, u, v in ((x, y, a, b), (x, x, a, a), (y, y, b, b))
    )
    return normalize_by_self(value, own_x, own_y)[0].item()


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_values_of_the_authors_code(kernel, case):
    x, y = (torch.tensor(case[side], dtype=torch.float64) for side in ("reference", "candidate"))
    expected = case["sbert" if kernel is mean_cosine else "wordset_cka"]
    assert normalised(kernel, x, y, uniform(len(x)), uniform(len(y))) == pytest.approx(expected, abs=1e-9)


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


def test_sides_can_be_exchanged(kernel, problem):
    given = problem(ragged=True)
    torch.testing.assert_close(kernel(*given[:3]), kernel(*given.transposed()[:3]), rtol=0, atol=1e-15)


def test_order_of_tokens_does_not_matter(kernel, problem):
    given = problem()
    torch.testing.assert_close(kernel(*given[:3]), kernel(*given.permuted()[:3]), rtol=0, atol=1e-15)


def test_a_token_may_be_split_into_two_halves(kernel, problem):
    given = problem()
    similarity = torch.cat([given.similarity, given.similarity[:, :1]], dim=1)
    a = torch.cat([given.a[:, :1] / 2, given.a[:, 1:], given.a[:, :1] / 2], dim=1)
    torch.testing.assert_close(kernel(similarity, a, given.b), kernel(*given[:3]), rtol=0, atol=1e-15)


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-12), (torch.float32, 1e-6)])
def test_padding_moves_nothing_and_gets_no_gradient(kernel, problem, dtype, bound):
    given = problem(ragged=True, dtype=dtype)
    padded = given.padded(3, 2)
    similarity = padded.similarity.clone().requires_grad_()
    found = kernel(similarity, padded.a, padded.b)
    torch.testing.assert_close(found, kernel(*given[:3]), rtol=0, atol=bound)
    found.sum().backward()
    assert (similarity.grad[~(padded.reference_mask[:, :, None] & padded.hypothesis_mask[:, None, :])] == 0).all()


def test_batch_is_a_loop_of_singles(kernel, problem):
    given = problem(ragged=True)
    singles = torch.cat([kernel(*single[:3]) for single in given.singles()])
    torch.testing.assert_close(kernel(*given[:3]), singles, rtol=0, atol=1e-14)


def test_empty_side_gives_zero(kernel, problem):
    given = problem()
    similarity = given.similarity.clone().requires_grad_()
    found = kernel(similarity, torch.zeros_like(given.a), given.b)
    found.sum().backward()
    assert (found == 0).all()
    assert (similarity.grad == 0).all()


def test_gradients(kernel, problem):
    given = problem(2, 3, 2)
    logits = [weights.log().requires_grad_() for weights in (given.a, given.b)]
    assert gradcheck(
        lambda s, la, lb: kernel(s, la.softmax(1), lb.softmax(1)), (given.similarity.requires_grad_(), *logits)
    )


def test_autocast_changes_nothing(kernel, problem):
    given = problem(dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        found = kernel(*given[:3])
    assert found.dtype == torch.float32
    assert torch.equal(found, kernel(*given[:3]))


@pytest.mark.usefixtures("without_shape_checks")
def test_bad_arguments_are_named(kernel, problem):
    given = problem()
    with pytest.raises(TypeError, match=r"Expected `similarity` to be float32 or float64, but got torch\.bfloat16"):
        kernel(*given.to(torch.bfloat16)[:3])
    with pytest.raises(TypeError, match=r"Expected `b` to be torch\.float64"):
        kernel(given.similarity, given.a, given.b.float())
    with pytest.raises(ValueError, match=r"Expected `similarity` to have shape \[B, M, N\]"):
        kernel(given.similarity[0], given.a, given.b)
    with pytest.raises(ValueError, match=r"Expected `a` to have shape \[4, 6\], but got \[4, 5\]"):
        kernel(given.similarity, given.b, given.b)
