"""Power means against NumPy and closed forms; routing against a loop over tokens, its fixed point and its laws."""

import math

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

from textmover.functional.cost import unit_vectors
from textmover.functional.layer_aggregation import power_mean, routing

INFINITY = float("inf")
POWERS = (INFINITY, -INFINITY, 1.0, 2.0, 3.0, 4.0, 5.0, 0.5, 1.5, 2.5, 0.1, 0.0, -0.5, -1.0, -2.0, -3.0)
FINITE = tuple(power for power in POWERS if math.isfinite(power))
KERNELS = ("gaussian", "epanechnikov")


def random_layers(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def unit_layers(layers=5, tokens=7, dimensions=6, *, spread=1.0, seed=0):
    """Layers that share a direction, as those of an encoder do."""
    shared = random_layers(tokens, dimensions, seed=seed)
    return unit_vectors(shared + spread * random_layers(layers, tokens, dimensions, seed=seed + 1))


# --- power means ------------------------------------------------------------------------------------------------------


def by_definition(values, power: float) -> float:
    """Power mean of a list of numbers by the formula, in float64 and without care for overflow."""
    z = np.asarray(values, dtype=np.float64)
    if math.isinf(power):
        return z.max() if power > 0 else z.min()
    if power > 0 and power % 2 == 0:
        return np.mean(z**power) ** (1 / power)
    if power <= 0 and not (np.all(z > 0) or np.all(z < 0)):
        return 0.0
    if power == 0:
        return np.sign(z[0]) * np.exp(np.mean(np.log(np.abs(z))))
    mean = np.mean(np.sign(z) * np.abs(z) ** power)
    return np.sign(mean) * np.abs(mean) ** (1 / power)


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("signs", ["mixed", "positive", "negative"])
def test_definition(power, signs):
    layers = random_layers(5, 3, 4)
    if signs != "mixed":
        layers = layers.abs() * (1 if signs == "positive" else -1)
    found = power_mean(layers, power)
    assert found.shape == (3, 4)
    for row in range(3):
        for column in range(4):
            expected = by_definition(layers[:, row, column].numpy(), power)
            assert found[row, column].item() == pytest.approx(expected, rel=1e-12, abs=1e-15)


def test_large_powers_approach_the_extremes():
    layers = random_layers(5, 100).abs()
    for power, extreme in ((1000.0, layers.amax(0)), (-1000.0, layers.amin(0))):
        torch.testing.assert_close(power_mean(layers, power), extreme, rtol=2e-3, atol=0)


@pytest.mark.parametrize("power", POWERS)
def test_one_layer_and_equal_layers_are_their_own_mean(power):
    layer = random_layers(1, 20).abs() if power in (2.0, 4.0) else random_layers(1, 20)
    torch.testing.assert_close(power_mean(layer, power), layer[0], rtol=1e-13, atol=0)
    torch.testing.assert_close(power_mean(layer.expand(5, -1), power), layer[0], rtol=1e-13, atol=0)


@pytest.mark.parametrize("power", [0.0, -0.5, -1.0, -2.0, -3.0])
@pytest.mark.parametrize("values", [(1.0, -2.0), (1.0, 0.0), (0.0, -1.0), (0.0, 0.0)])
def test_powers_up_to_zero_need_values_of_one_sign(power, values):
    layers = torch.tensor(values)[:, None].requires_grad_()
    found = power_mean(layers, power)
    found.sum().backward()
    assert found.item() == 0
    assert (layers.grad == 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("power", [*POWERS, 100.0, 101.0, 99.5, -100.0, -101.0, 0.01, -0.01])
def test_values_and_gradients_are_finite_everywhere(power, dtype):
    tiny, huge = torch.finfo(dtype).tiny, torch.finfo(dtype).max ** 0.5 / 16
    special = [0.0, -0.0, 1.0, -1.0, 1e-30, -1e-30, 0.4, tiny, -tiny / 8, huge, -huge]
    layers = torch.cartesian_prod(*[torch.tensor(special, dtype=dtype)] * 3).T.requires_grad_()
    found = power_mean(layers, power)
    assert found.dtype == dtype
    assert found.isfinite().all()
    found.sum().backward()
    assert layers.grad.isfinite().all()


@pytest.mark.parametrize("power", [100.0, 101.0, -100.0, -101.0, 50.5])
@pytest.mark.parametrize("scale", [1e-30, 0.05, 1e30])
def test_large_powers_in_float32(power, scale):
    values = random_layers(5, 50).abs() + 0.1
    expected = scale * power_mean(values, power)
    found = power_mean((scale * values).float(), power)
    torch.testing.assert_close(found.double(), expected, rtol=1e-4 if scale > 1 else 1e-5, atol=0)


@pytest.mark.parametrize("power", [0.5, 0.1, 3.0])
def test_a_value_near_zero_weighs_what_the_formula_says(power):
    values = [1.0, 0.5, 1e-12]
    found = power_mean(torch.tensor(values)[:, None], power).item()
    assert found == pytest.approx(by_definition(values, power), rel=1e-5)


@pytest.mark.parametrize("power", FINITE)
def test_gradients_of_power_means(power):
    layers = random_layers(4, 6)
    if power <= 0:
        layers = layers.abs() * torch.tensor([1.0, -1.0]).repeat(3)
    assert gradcheck(lambda given: power_mean(given, power), layers.requires_grad_())


def test_the_gradient_of_an_extreme_goes_to_its_layer():
    layers = torch.tensor([[1.0], [3.0], [2.0]], requires_grad=True)
    power_mean(layers, INFINITY).sum().backward()
    assert layers.grad[:, 0].tolist() == [0, 1, 0]


@pytest.mark.usefixtures("without_shape_checks")
def test_bad_arguments_of_power_means_are_named():
    with pytest.raises(ValueError, match=r"Expected `vectors` to hold at least one layer, but got shape \[0, 3\]"):
        power_mean(torch.ones(0, 3), 1.0)
    with pytest.raises(ValueError, match="Expected `power` to be a number or infinite, but got nan"):
        power_mean(torch.ones(2, 3), float("nan"))
    with pytest.raises(TypeError, match=r"Expected `vectors` to be float32 or float64, but got torch\.bfloat16"):
        power_mean(torch.ones(2, 3, dtype=torch.bfloat16), 1.0)


# --- routing ----------------------------------------------------------------------------------------------------------


def one_token(layers, kernel: str, step: float, tolerance: float, max_iterations: int):
    """The algorithm for one token, ``layers [L, D]``, in plain NumPy; its vector and closeness."""

    def softmax(values):
        return np.exp(values - values.max()) / np.exp(values - values.max()).sum()

    def height(distance):
        return np.exp(-distance / 2) if kernel == "gaussian" else np.maximum(1 - distance, 0)

    def slope(distance):
        return -np.exp(-distance / 2) / 2 if kernel == "gaussian" else -1.0 * (distance < 1)

    vector, gamma = layers.mean(0), softmax(np.zeros(len(layers)))
    for _ in range(max_iterations):
        distance = ((vector - layers) ** 2).sum(1)
        weights = gamma * slope(distance)
        new = weights @ layers / weights.sum() if weights.any() else vector
        after = softmax(gamma + step * height(((new - layers) ** 2).sum(1)))
        move = max(np.linalg.norm(new - vector), np.abs(after - gamma).max())
        vector, gamma = new, after
        if move <= tolerance:
            break
    return vector, gamma


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    ("step", "tolerance", "max_iterations"), [(1.0, 0.0, 1), (1.0, 0.0, 4), (0.5, 1e-2, 20), (3.0, 1e-4, 20)]
)
def test_loop_over_tokens(kernel, step, tolerance, max_iterations):
    layers = unit_layers(spread=2.0)
    found = routing(layers, kernel=kernel, step=step, tolerance=tolerance, max_iterations=max_iterations)
    for token in range(layers.shape[1]):
        expected, _ = one_token(layers[:, token].numpy(), kernel, step, tolerance, max_iterations)
        np.testing.assert_allclose(found[token], expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("kernel", KERNELS)
def test_further_iterations_leave_the_result_where_it_is(kernel):
    layers = unit_layers(spread=0.5)
    tolerance = 1e-8
    found = routing(layers, kernel=kernel, tolerance=tolerance, max_iterations=200)
    further = routing(layers, kernel=kernel, tolerance=0.0, max_iterations=400)
    torch.testing.assert_close(found, further, rtol=0, atol=3 * tolerance)
    # The equations of the fixed point, with the closeness from the loop.
    for token in range(layers.shape[1]):
        z = layers[:, token].numpy()
        vector, gamma = one_token(z, kernel, 1.0, 0.0, 400)
        distance = ((vector - z) ** 2).sum(1)
        slope, height = (
            (np.exp(-distance / 2), np.exp(-distance / 2))
            if kernel == "gaussian"
            else (1.0 * (distance < 1), np.maximum(1 - distance, 0))
        )
        np.testing.assert_allclose(gamma * slope @ z / (gamma @ slope), found[token], rtol=0, atol=3 * tolerance)
        raised = np.exp(gamma + height)
        np.testing.assert_allclose(raised / raised.sum(), gamma, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS)
def test_equal_layers_give_that_vector(kernel):
    layer = unit_layers(1)
    torch.testing.assert_close(routing(layer, kernel=kernel), layer[0], rtol=0, atol=0)
    torch.testing.assert_close(routing(layer.expand(4, -1, -1), kernel=kernel), layer[0], rtol=0, atol=0)
    torch.testing.assert_close(routing(layer.expand(5, -1, -1), kernel=kernel), layer[0], rtol=0, atol=1e-15)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("tolerance", [1e-2, 1e-5])
def test_a_token_does_not_depend_on_its_batch_mates(kernel, tolerance):
    slow, quick = unit_layers(tokens=6, spread=3.0), unit_layers(1, tokens=6).expand(5, -1, -1)
    layers = torch.stack([slow, quick], dim=1)  # [layers, 2, 6, D]
    found = routing(layers, kernel=kernel, tolerance=tolerance, max_iterations=50)
    for row in range(2):
        for token in range(6):
            alone = routing(layers[:, row, token], kernel=kernel, tolerance=tolerance, max_iterations=50)
            torch.testing.assert_close(found[row, token], alone, rtol=0, atol=1e-14)


def test_an_outlying_layer_loses_weight():
    layers = torch.tensor([[1.0, 0.0], [0.8, 0.6], [-0.6, -0.8]], dtype=torch.float64)
    mean = layers.mean(0)
    for kernel in KERNELS:
        found = routing(layers, kernel=kernel)
        assert (found @ layers[2]).item() < (mean @ layers[2]).item()
    # The third layer is beyond the reach of this kernel from the first step on.
    assert routing(layers, kernel="epanechnikov", max_iterations=1).tolist() == pytest.approx([0.9, 0.3])


def test_no_layer_within_reach_leaves_the_mean():
    layers = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]], requires_grad=True)
    found = routing(layers, kernel="epanechnikov")
    found.square().sum().backward()
    assert found.tolist() == [0, 0]
    assert layers.grad.isfinite().all()
    far = 100 * torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    for kernel in KERNELS:
        assert torch.equal(routing(far, kernel=kernel), far.mean(0))


def test_zero_vectors_stay_zero():
    layers = torch.zeros(3, 2, 4, requires_grad=True)
    for kernel in KERNELS:
        found = routing(layers, kernel=kernel)
        found.sum().backward()
        assert (found == 0).all()
    assert layers.grad.isfinite().all()


def test_a_step_of_zero_leaves_all_layers_equally_close():
    layers = unit_layers(spread=0.3)
    torch.testing.assert_close(routing(layers, kernel="epanechnikov", step=0.0), layers.mean(0), rtol=0, atol=1e-15)


@pytest.mark.parametrize("kernel", KERNELS)
def test_gradients_of_routing(kernel):
    layers = unit_layers(3, 2, 4, spread=0.5).requires_grad_()
    assert gradcheck(lambda given: routing(given, kernel=kernel, tolerance=0.0, max_iterations=4), layers)


@pytest.mark.parametrize("kernel", KERNELS)
def test_gradients_stay_finite_in_float32(kernel):
    layers = unit_layers(spread=3.0).float().requires_grad_()
    found = routing(layers, kernel=kernel, step=10.0, max_iterations=100)
    found.sum().backward()
    assert found.dtype == torch.float32
    assert layers.grad.isfinite().all()


@pytest.mark.usefixtures("without_shape_checks")
def test_bad_arguments_of_routing_are_named():
    layers = torch.ones(2, 3)
    with pytest.raises(ValueError, match="Expected `kernel` to be one of 'gaussian', 'epanechnikov', but got 'cosine'"):
        routing(layers, kernel="cosine")
    for name in ("step", "tolerance"):
        for bad in (-1.0, float("inf"), float("nan")):
            with pytest.raises(ValueError, match=f"Expected `{name}` to be a finite number of at least 0, but got"):
                routing(layers, **{name: bad})
    with pytest.raises(ValueError, match="Expected `max_iterations` to be at least 1, but got 0"):
        routing(layers, max_iterations=0)
    with pytest.raises(ValueError, match="Expected `vectors` to hold at least one layer"):
        routing(layers[:0])
    with pytest.raises(TypeError, match=r"Expected `vectors` to be float32 or float64, but got torch\.float16"):
        routing(layers.half())
