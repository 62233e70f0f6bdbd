"""TWMD and TRWMD against published code's values, loops, exact transport and their laws."""

from functools import partial

import numpy as np
import pytest
import torch
from scipy.special import logsumexp, softmax
from tests.functional.transport_rules import TIGHT, each_of_the_authors, uniform, vectors_of

from textmover.functional import f_score, greedy_matching, mean_cosine, normalize_by_self, trwmd, twmd
from textmover.functional.tempered import LEAST_TEMPERATURE


def solved(problem, temperature, **options):
    """TWMD with the arguments of TRWMD."""
    return twmd(*problem[:3], temperature, **options)


def relaxed(problem, temperature, **options):
    return trwmd(*problem, temperature, **options)


def greedy(problem, temperature, **options):
    return greedy_matching(*problem, **options)


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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("temperature", [LEAST_TEMPERATURE, 0.1, 2.0])
def test_one_kernel_gives_values_and_gradients_of_the_log_domain(problem, temperature, dtype, monkeypatch):
    """Down to the least temperature, with cosines of -1 and 1, tokens without weight and a side without any."""
    one = problem(6, 5, 7, ragged=True).to(dtype)
    similarity, a, b = one.similarity.clone(), one.a.clone(), one.b.clone()
    similarity[0, 0], similarity[1, :, 2], similarity[2] = -1.0, 1.0, -1.0
    a[3], b[4], a[5, 0] = 0.0, 0.0, 0.0
    found = []
    for carries in (True, False):
        if not carries:
            monkeypatch.setattr("textmover.functional.tempered._kernel_fits_float32", lambda *_: False)
        inputs = [torch.tensor(temperature, dtype=dtype), *(part.clone() for part in (similarity, a, b))]
        learned = [part.requires_grad_() for part in inputs]
        values = torch.stack(twmd(*learned[1:], learned[0])[:3])
        gradients = torch.autograd.grad(values[:2].sum(), learned)
        weighted = [one.where(part > 0, 0.0) for one, part in zip(gradients[2:], (a, b), strict=True)]
        found.append([values, *gradients[:2], *weighted])
    assert found[0][0].detach().unique().numel() > 6
    bound = {torch.float32: 2e-6, torch.float64: 1e-13}[dtype]
    for first, second in zip(*found, strict=True):
        torch.testing.assert_close(first, second, rtol=100 * bound, atol=bound)


# --- outside oracles --------------------------------------------------------------------------------------------------


@each_of_the_authors
@pytest.mark.parametrize("name", ["twmd", "trwmd"])
def test_values_of_the_authors_code(case, name):
    x, y = vectors_of(case)

    def match(rows, columns, temperature, **options):
        a, b = uniform(len(rows), len(columns))
        block = (rows @ columns.T)[None]
        if name == "twmd":
            return twmd(block, a, b, temperature, **options)[:3]
        return trwmd(block, a, b, a > 0, b > 0, temperature)[:3]

    for setting, values in case[f"{name}_rpf"].items():
        options = dict(part.split("=") for part in setting.split(","))
        chosen = {"temperature": float(options.pop("T")), **{key: int(value) for key, value in options.items()}}
        triples = zip(*(match(*sides, **chosen) for sides in ((x, y), (x, x), (y, y))), strict=True)
        found = [normalize_by_self(*triple)[0].item() for triple in triples]
        assert found == pytest.approx(values, abs=1e-9), setting


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


@pytest.mark.parametrize("metric", [partial(solved, iterations=3), solved, relaxed, greedy])
def test_the_norm_of_losses_concerns_precision_alone(problem, metric):
    """Values of tokens are the rows of the plan that the exchanged sides have."""
    given = problem(ragged=True)
    plan = metric(given.transposed(), 0.1, with_plan=True).plan
    values = (plan * given.similarity.transpose(1, 2)).sum(dim=2) / given.b.where(given.b > 0, 1.0)
    power = (given.b * (1 - values) ** 4).sum(dim=1)
    found, plain = metric(given, 0.1, error_norm=4.0), metric(given, 0.1)
    torch.testing.assert_close(found.precision, 1 - power**0.25, rtol=0, atol=1e-12)
    assert torch.equal(found.recall, plain.recall)
    assert torch.equal(found.f, f_score(found.precision, found.recall))


def test_a_norm_needs_values_of_tokens(problem):
    for metric, options in ((solved, TIGHT), (solved, {"value": "objective"}), (relaxed, {"value": "objective"})):
        with pytest.raises(ValueError, match="Expected `error_norm` of 1 with a `tolerance`"):
            metric(problem(), 0.1, error_norm=3.0, **options)


@each_metric
def test_identical_texts_score_one_after_normalisation(problem, metric):
    if "tolerance" in metric.keywords:
        metric = partial(metric, tolerance=1e-3)
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
def test_values_are_within_the_similarities_and_f_is_their_harmonic_mean(problem, metric):
    given = problem(8, uniform=True)
    found = metric(given, 0.1)
    lowest, highest = given.similarity.amin(dim=(1, 2)), given.similarity.amax(dim=(1, 2))
    for value in found[:2]:
        assert ((lowest - 1e-12 <= value) & (value <= highest + 1e-12)).all()
    torch.testing.assert_close(found.f, f_score(found.precision, found.recall), rtol=0, atol=1e-10)


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


@pytest.mark.parametrize("metric", [*METRICS.values(), greedy], ids=[*METRICS, "greedy"])
def test_alpha_weighs_f_and_nothing_else(problem, metric):
    given = problem(ragged=True)
    given = given._replace(similarity=1 + given.similarity)
    plain = metric(given, 0.1)
    for alpha in (0.0, 0.3, 0.7, 1.0):
        found = metric(given, 0.1, alpha=alpha)
        assert torch.equal(found.recall, plain.recall)
        assert torch.equal(found.precision, plain.precision)
        torch.testing.assert_close(found.f, f_score(plain.precision, plain.recall, alpha), rtol=0, atol=1e-10)
        if alpha in (0.0, 1.0):
            torch.testing.assert_close(found.f, plain.recall if alpha else plain.precision, rtol=0, atol=1e-14)


# --- bad arguments and autocast ---------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("temperature", [0.1, 1.0])
def test_autocast_changes_no_value_without_a_plan(problem, temperature):
    given = problem(dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        found = twmd(*given[:3], temperature)
    assert torch.equal(found.f, twmd(*given[:3], temperature).f)
