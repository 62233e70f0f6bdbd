"""TWMD and TRWMD against published code's values, loops, exact transport and their laws."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import ot
import pytest
import torch
from scipy.special import logsumexp, softmax
from torch.autograd import gradcheck

from textmover.functional import f_score, greedy_matching, mean_cosine, normalize_by_self, trwmd, twmd

CASES = json.loads((Path(__file__).parent / "data" / "twmd_family.json").read_text())["cases"]
TIGHT = {"tolerance": 1e-12, "max_iterations": 100_000}


def solved(problem, temperature, **options):
    """TWMD with the arguments of TRWMD."""
    return twmd(*problem[:3], temperature, **options)


def relaxed(problem, temperature, **options):
    return trwmd(*problem, temperature, **options)


METRICS = {
    f"{name}, {value}": partial(function, value=value, **options)
    for name, function, options in (
        ("twmd k=1", solved, {}),
        ("twmd k=3", solved, {"iterations": 3}),
        ("twmd to a tolerance", solved, TIGHT),
        ("trwmd", relaxed, {}),
    )
    for value in ("transport", "objective")
}
each_metric = pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
each_value = pytest.mark.parametrize("value", ["transport", "objective"])


def assert_same(found, expected, bound: float = 1e-12) -> None:
    for name in ("recall", "precision", "f"):
        torch.testing.assert_close(getattr(found, name), getattr(expected, name), rtol=0, atol=bound, msg=name)


# --- outside oracles --------------------------------------------------------------------------------------------------


def expected_values():
    for index, case in enumerate(CASES):
        for name in ("twmd", "trwmd"):
            for setting, values in case[f"{name}_rpf"].items():
                options = dict(part.split("=") for part in setting.split(","))
                iterations = {"iterations": int(options["iterations"])} if "iterations" in options else {}
                yield pytest.param(index, name, float(options["T"]), iterations, values, id=f"{index}-{name}-{setting}")


@pytest.mark.parametrize(("index", "name", "temperature", "iterations", "values"), list(expected_values()))
def test_values_of_the_authors_code(index, name, temperature, iterations, values):
    x, y = (torch.tensor(CASES[index][side], dtype=torch.float64) for side in ("reference", "candidate"))

    def match(rows, columns):
        a, b = (torch.full((1, len(side)), 1 / len(side), dtype=torch.float64) for side in (rows, columns))
        block = (rows @ columns.T)[None]
        if name == "twmd":
            return twmd(block, a, b, temperature, **iterations)
        return trwmd(block, a, b, a > 0, b > 0, temperature)

    triples = zip(match(x, y)[:3], match(x, x)[:3], match(y, y)[:3], strict=True)
    found = [normalize_by_self(*triple)[0].item() for triple in triples]
    assert found == pytest.approx(values, abs=1e-9)


def test_trwmd_is_a_loop_of_softmaxes(problem):
    given = problem(3, ragged=True)
    found, objective = trwmd(*given, 0.1), trwmd(*given, 0.1, value="objective")
    for row, single in enumerate(given.singles()):
        s, a, b = (tensor[0].numpy() for tensor in single[:3])
        recall = (a * (softmax(s / 0.1, axis=1) * s).sum(axis=1)).sum()
        precision = (b * (softmax(s / 0.1, axis=0) * s).sum(axis=0)).sum()
        assert found.recall[row].item() == pytest.approx(recall, abs=1e-14)
        assert found.precision[row].item() == pytest.approx(precision, abs=1e-14)
        assert found.f[row].item() == pytest.approx(2 * recall * precision / (recall + precision), abs=1e-13)
        recall = (a * 0.1 * (logsumexp(s / 0.1, axis=1) - np.log(s.shape[1]))).sum()
        precision = (b * 0.1 * (logsumexp(s / 0.1, axis=0) - np.log(s.shape[0]))).sum()
        assert objective.recall[row].item() == pytest.approx(recall, abs=1e-14)
        assert objective.precision[row].item() == pytest.approx(precision, abs=1e-14)


@pytest.mark.parametrize("iterations", [1, 2, 5])
def test_twmd_is_alternate_scaling_that_ends_on_the_rows(problem, iterations):
    given = problem(3, ragged=True)
    found = twmd(*given[:3], 0.2, iterations=iterations, with_plan=True)
    for row, single in enumerate(given.singles()):
        s, a, b = (tensor[0].numpy() for tensor in single[:3])
        values = []
        for kernel, rows, columns in ((np.exp(s / 0.2), a, b), (np.exp(s.T / 0.2), b, a)):
            u = rows
            for _ in range(iterations):
                v = columns / (kernel.T @ u)
                u = rows / (kernel @ v)
            values.append((u[:, None] * kernel * v, kernel))
        (recall_plan, _), (precision_plan, _) = values
        assert found.recall[row].item() == pytest.approx((recall_plan * s).sum(), abs=1e-13)
        assert found.precision[row].item() == pytest.approx((precision_plan * s.T).sum(), abs=1e-13)
        np.testing.assert_allclose(found.plan[row, : len(a), : len(b)], recall_plan, atol=1e-13)


@each_value
def test_the_objective_is_the_transport_less_the_relative_entropy(problem, value):
    s, a, b, *_ = given = problem(3)
    found = twmd(*given[:3], 0.1, iterations=2, value=value, with_plan=True)
    expected = (found.plan * s).sum(dim=(1, 2))
    if value == "objective":
        expected -= 0.1 * (found.plan * (found.plan / (a[:, :, None] * b[:, None, :])).log()).sum(dim=(1, 2))
    torch.testing.assert_close(found.recall, expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("uniform", [pytest.param(True, marks=pytest.mark.long), False])
def test_cold_and_converged_twmd_is_exact_transport(problem, uniform):
    given = problem(3, 6, 6, uniform=uniform)
    exact = [-ot.emd2(*(t[row].numpy() for t in (given.a, given.b, -given.similarity))) for row in range(3)]
    found = twmd(*given[:3], 0.01, tolerance=1e-4, max_iterations=100_000)
    assert found.converged.all()
    assert (found.recall.numpy() < np.array(exact) + 2e-4).all()
    np.testing.assert_allclose(found.recall, exact, atol=2e-3)


# --- limits and closed forms ------------------------------------------------------------------------------------------


def test_cold_trwmd_is_greedy_matching(problem):
    given = problem(ragged=True)
    for value, bound in (("transport", 1e-10), ("objective", 1e-3)):
        assert_same(trwmd(*given, 1e-4, value=value), greedy_matching(*given), bound)


@each_metric
def test_hot_metrics_are_the_mean_cosine(problem, metric):
    given = problem(uniform=True)
    found, expected = metric(given, 1e7), mean_cosine(*given[:3])
    for name in ("recall", "precision"):
        torch.testing.assert_close(getattr(found, name), expected, rtol=0, atol=1e-7)


@each_metric
def test_identical_texts_score_one_after_normalisation(problem, metric):
    if "tolerance" in metric.keywords:
        metric = partial(metric, tolerance=1e-6)
    given = problem(uniform=True)
    generator = torch.Generator().manual_seed(0)
    x = torch.nn.functional.normalize(torch.randn(4, 6, 8, dtype=torch.float64, generator=generator), dim=-1)
    own = metric(given._replace(similarity=x @ x.mT, b=given.a, hypothesis_mask=given.reference_mask), 0.1)
    for value in own[:3]:
        ones = normalize_by_self(value, value, value)[0]
        torch.testing.assert_close(ones, torch.ones_like(ones), rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", [name for name in METRICS if "transport" in name])
def test_a_cold_permutation_scores_one(problem, name):
    given = problem(1, 4, 4, uniform=True)
    identity = torch.eye(4, dtype=torch.float64)[torch.tensor([2, 0, 3, 1])][None]
    for value in METRICS[name](given._replace(similarity=identity), 0.01)[:3]:
        assert value.item() == pytest.approx(1, abs=1e-12)


@each_metric
def test_one_token_on_each_side_gives_its_cosine(problem, metric):
    given = problem(1, 1, 1)
    for value in metric(given._replace(similarity=torch.full((1, 1, 1), 0.3, dtype=torch.float64)), 0.1)[:3]:
        assert value.item() == pytest.approx(0.3, abs=1e-15)


# --- laws -------------------------------------------------------------------------------------------------------------


@each_metric
def test_recall_of_one_direction_is_precision_of_the_other(problem, metric):
    given = problem(ragged=True)
    forward, backward = metric(given, 0.1), metric(given.transposed(), 0.1)
    assert_same(backward._replace(recall=backward.precision, precision=backward.recall), forward, bound=1e-11)


@each_metric
def test_values_are_within_the_similarities_and_f_is_their_harmonic_mean(problem, metric):
    given = problem(8, uniform=True)
    found = metric(given, 0.1)
    lowest, highest = given.similarity.amin(dim=(1, 2)), given.similarity.amax(dim=(1, 2))
    for value in found[:2]:
        assert ((lowest - 1e-12 <= value) & (value <= highest + 1e-12)).all()
    torch.testing.assert_close(found.f, f_score(found.precision, found.recall), rtol=0, atol=1e-10)


@each_metric
@pytest.mark.parametrize("shift", [-0.2, 0.5])
def test_a_shift_of_all_similarities_shifts_recall_and_precision(problem, metric, shift):
    given = problem(ragged=True)
    moved = metric(given._replace(similarity=given.similarity + shift), 0.1)
    for found, before in zip(moved[:2], metric(given, 0.1)[:2], strict=True):
        torch.testing.assert_close(found, before + shift, rtol=0, atol=1e-12)


@each_metric
def test_similarity_and_temperature_scale_together(problem, metric):
    given = problem(ragged=True)
    scaled = metric(given._replace(similarity=0.3 * given.similarity), 0.03)
    for found, before in zip(scaled[:3], metric(given, 0.1)[:3], strict=True):
        torch.testing.assert_close(found, 0.3 * before, rtol=0, atol=1e-11)


@each_metric
def test_order_of_tokens_does_not_matter(problem, metric):
    given = problem(ragged=True)
    assert_same(metric(given.permuted(), 0.1), metric(given, 0.1))


@pytest.mark.parametrize("name", [name for name in METRICS if name.startswith("twmd")])
def test_a_token_may_be_split_into_two_halves(problem, name):
    given = problem()
    split = given._replace(
        similarity=torch.cat([given.similarity, given.similarity[:, :1]], dim=1),
        a=torch.cat([given.a[:, :1] / 2, given.a[:, 1:], given.a[:, :1] / 2], dim=1),
    )
    assert_same(METRICS[name](split, 0.1), METRICS[name](given, 0.1))


@each_metric
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-12), (torch.float32, 1e-6)])
def test_padding_moves_nothing_and_gets_no_gradient(problem, metric, dtype, bound):
    if dtype == torch.float32 and "tolerance" in metric.keywords:
        metric = partial(metric, tolerance=1e-5)
    given = problem(ragged=True, dtype=dtype)
    padded = given.padded(3, 2, fill=5.0)
    leaves = [tensor.clone().requires_grad_() for tensor in padded[:3]]
    found = metric(padded._replace(similarity=leaves[0], a=leaves[1], b=leaves[2]), 0.1)
    assert_same(found, metric(given, 0.1), bound)
    sum(value.sum() for value in found[:3]).backward()
    assert (leaves[0].grad[~(padded.reference_mask[:, :, None] & padded.hypothesis_mask[:, None, :])] == 0).all()
    assert all(leaf.grad.isfinite().all() for leaf in leaves)


@each_metric
def test_batch_is_a_loop_of_singles(problem, metric):
    given = problem(ragged=True)
    singles = [metric(single, 0.1) for single in given.singles()]
    for index, value in enumerate(metric(given, 0.1)[:3]):
        torch.testing.assert_close(value, torch.cat([single[index] for single in singles]), rtol=0, atol=1e-12)


def test_a_token_of_weight_zero_is_seen_by_trwmd_where_its_mask_is_true_and_never_by_twmd(problem):
    given = problem(2)
    b = given.b.clone()
    b[:, 0] = 0
    b = b / b.sum(dim=1, keepdim=True)
    without = given._replace(similarity=given.similarity[:, :, 1:], b=b[:, 1:], hypothesis_mask=b[:, 1:] > 0)
    kept, masked = given._replace(b=b), given._replace(b=b, hypothesis_mask=b > 0)
    assert_same(solved(kept, 0.1), solved(without, 0.1), bound=1e-14)
    assert_same(relaxed(masked, 0.1), relaxed(without, 0.1), bound=1e-14)
    assert (relaxed(kept, 0.1).recall - relaxed(without, 0.1).recall).abs().min() > 1e-3


@each_metric
@pytest.mark.parametrize("side", ["reference", "hypothesis", "both"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_an_empty_side_gives_zero_with_finite_gradients(problem, metric, side, dtype):
    if dtype == torch.float32 and "tolerance" in metric.keywords:
        metric = partial(metric, tolerance=1e-5)
    given = problem(3, dtype=dtype)
    a, b, rows, columns = (tensor.clone() for tensor in given[1:])
    if side != "hypothesis":
        a[0], rows[0] = 0, False
    if side != "reference":
        b[0], columns[0] = 0, False
    leaves = [tensor.requires_grad_() for tensor in (given.similarity.clone(), a, b)]
    temperature = torch.tensor(0.1, dtype=dtype, requires_grad=True)
    found = metric(type(given)(*leaves, rows, columns), temperature, with_plan=True)
    sum(value.sum() for value in found[:3]).backward()
    assert [value[0].item() for value in found[:3]] == [0, 0, 0]
    assert (found.plan[0] == 0).all()
    for leaf in (*leaves, temperature):
        assert leaf.grad.isfinite().all()
    rest = metric(type(given)(*(tensor[1:] for tensor in given)), 0.1)
    assert_same(type(found)(*(value[1:] for value in found[:3])), rest, 1e-13 if dtype == torch.float64 else 1e-6)


@each_metric
def test_the_plan_sends_the_weights_of_the_reference(problem, metric):
    given = problem(ragged=True)
    found = metric(given, 0.1, with_plan=True)
    torch.testing.assert_close(found.plan.sum(dim=2), given.a, rtol=0, atol=1e-14)
    if metric.keywords["value"] == "transport":
        torch.testing.assert_close((found.plan * given.similarity).sum(dim=(1, 2)), found.recall, rtol=0, atol=1e-14)
    assert metric(given, 0.1).plan is None


def test_only_a_tolerance_lets_the_result_speak_of_convergence(problem):
    given = problem()
    assert solved(given, 0.1).converged is None
    assert relaxed(given, 0.1).converged is None
    found = solved(given, 0.1, **TIGHT)
    assert found.converged.all()
    assert torch.equal(found.recall, found.precision)
    assert torch.equal(found.recall, found.f)
    assert not solved(given, 0.01, tolerance=1e-12, max_iterations=2).converged.any()


@each_metric
@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.7, 1.0])
def test_alpha_weighs_f_and_nothing_else(problem, metric, alpha):
    given = problem(ragged=True)
    given = given._replace(similarity=1 + given.similarity)
    found, plain = metric(given, 0.1, alpha=alpha), metric(given, 0.1)
    assert torch.equal(found.recall, plain.recall)
    assert torch.equal(found.precision, plain.precision)
    torch.testing.assert_close(found.f, f_score(plain.precision, plain.recall, alpha), rtol=0, atol=1e-10)
    if alpha in (0.0, 1.0):
        torch.testing.assert_close(found.f, plain.recall if alpha else plain.precision, rtol=0, atol=1e-14)


# --- gradients --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "metric",
    [
        pytest.param(metric, marks=pytest.mark.slow if "tolerance" in name else (), id=name)
        for name, metric in METRICS.items()
    ],
)
def test_gradients_of_similarity_weights_and_temperature(problem, metric):
    given = problem(2, 3, 4)
    inputs = (
        given.similarity.requires_grad_(),
        *(weights.log().requires_grad_() for weights in (given.a, given.b)),
        torch.tensor(0.1, dtype=torch.float64, requires_grad=True),
    )
    assert gradcheck(
        lambda s, la, lb, t: metric(given._replace(similarity=s, a=la.softmax(1), b=lb.softmax(1)), t)[:3], inputs
    )


@each_metric
def test_a_learned_temperature_gives_the_values_of_the_number(problem, metric):
    given = problem()
    assert_same(metric(given, torch.tensor(0.1, dtype=torch.float64)), metric(given, 0.1), bound=1e-14)


# --- bad arguments and autocast ---------------------------------------------------------------------------------------


@each_metric
def test_autocast_changes_nothing(problem, metric):
    if "tolerance" in metric.keywords:
        metric = partial(metric, tolerance=1e-5)
    given = problem(dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        found = metric(given, 0.1)
    for value, before in zip(found[:3], metric(given, 0.1)[:3], strict=True):
        assert value.dtype == torch.float32
        assert torch.equal(value, before)


@pytest.mark.usefixtures("without_shape_checks")
@pytest.mark.parametrize("metric", [solved, relaxed])
def test_bad_arguments_are_named(problem, metric):
    given = problem()
    for temperature in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="Expected `temperature` to be a positive finite number, but got"):
            metric(given, temperature)
    with pytest.raises(ValueError, match="Expected `value` to be 'transport' or 'objective', but got 'plan'"):
        metric(given, 0.1, value="plan")
    with pytest.raises(ValueError, match=r"Expected `alpha` to be between 0 and 1, but got -0\.5"):
        metric(given, 0.1, alpha=-0.5)
    with pytest.raises(TypeError, match=r"Expected `similarity` to be float32 or float64, but got torch\.bfloat16"):
        metric(given.to(torch.bfloat16), 0.1)
    with pytest.raises(TypeError, match=r"Expected `b` to be torch\.float64"):
        metric(given._replace(b=given.b.float()), 0.1)
    with pytest.raises(ValueError, match=r"Expected `a` to have shape \[4, 6\], but got \[4, 5\]"):
        metric(given._replace(a=given.b), 0.1)
