"""What each aggregation of layers makes of hidden states, against NumPy."""

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

from textmover.functional.cost import unit_vectors
from textmover.functional.layer_aggregation import routing
from textmover.modules.encoder.layer_aggregation import PowerMeans, Routing, ScalarMix, SideBySide, SingleLayer

INFINITY = float("inf")
LAYERS = (2, 3, 4)
SEVERAL = {
    "means": lambda: PowerMeans(LAYERS, (-INFINITY, 1, INFINITY)),
    "mix": lambda: ScalarMix(LAYERS),
    "side by side": lambda: SideBySide(LAYERS),
    "routing": lambda: Routing(LAYERS),
}


@pytest.fixture
def hidden_states():
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(2, 5, 4, generator=generator, dtype=torch.float64) for _ in LAYERS]


def unit(hidden_states) -> np.ndarray:
    states = torch.stack(list(hidden_states)).numpy()
    return states / np.linalg.norm(states, axis=-1, keepdims=True)


@pytest.fixture(params=SEVERAL)
def several(request):
    return SEVERAL[request.param]()


def test_a_single_layer_is_given_as_it_is(hidden_states):
    module = SingleLayer((6,))
    assert module(hidden_states[:1]) is hidden_states[0]
    assert (module.needed, module.width_factor) == ((6,), 1)
    assert module.signature_entries() == {"layer": "6"}


def test_power_means_are_minimum_mean_and_maximum_of_unit_vectors(hidden_states):
    layers = unit(hidden_states)
    expected = np.concatenate([layers.min(0), layers.mean(0), layers.max(0)], axis=-1)
    found = PowerMeans(LAYERS, (-INFINITY, 1, INFINITY))(hidden_states)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-15)


def test_powers_stand_in_the_order_given(hidden_states):
    layers = unit(hidden_states)
    module = PowerMeans(LAYERS, [3, 2])
    expected = np.concatenate([np.cbrt((layers**3).mean(0)), np.sqrt((layers**2).mean(0))], axis=-1)
    np.testing.assert_allclose(module(hidden_states), expected, rtol=0, atol=1e-14)
    assert module.width_factor == 2


def test_a_mix_starts_as_the_mean_and_follows_its_weights(hidden_states):
    layers = unit(hidden_states)
    module = ScalarMix(LAYERS).double()
    np.testing.assert_allclose(module(hidden_states).detach(), layers.mean(0), rtol=0, atol=1e-15)
    logits = np.array([0.5, -1.0, 2.0])
    with torch.no_grad():
        module.logits.copy_(torch.tensor(logits))
    weights = np.exp(logits) / np.exp(logits).sum()
    beside = SideBySide(LAYERS).double()
    beside.load_state_dict(module.state_dict())
    vectors = beside(hidden_states).detach().numpy()
    assert vectors.shape[-1] == beside.width_factor * layers.shape[-1]
    cosines = np.einsum("lbid,lbjd->lbij", layers, layers)
    np.testing.assert_allclose(vectors @ vectors.swapaxes(1, 2), np.tensordot(weights, cosines, 1), rtol=0, atol=1e-14)
    np.testing.assert_allclose(module(hidden_states).detach(), np.tensordot(weights, layers, 1), rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    "options", [{"kernel": "epanechnikov"}, {"step": 0.2}, {"tolerance": 0.1}, {"max_iterations": 2}], ids=str
)
def test_every_option_of_routing_has_an_effect(hidden_states, options):
    module, plain = Routing(LAYERS, **options), Routing(LAYERS)
    assert (module(hidden_states) - plain(hidden_states)).abs().max() > 1e-4
    assert module.signature_entries() != plain.signature_entries()
    expected = routing(torch.stack([unit_vectors(state) for state in hidden_states]), **options)
    assert torch.equal(module(hidden_states), expected)


def test_shape_and_needed_layers(several, hidden_states):
    assert several.needed == LAYERS
    assert several(hidden_states).shape == (2, 5, 4 * several.width_factor)


def test_the_length_of_a_hidden_state_does_not_matter(several, hidden_states):
    scaled = [factor * state for factor, state in zip((0.1, 7.0, 300.0), hidden_states, strict=True)]
    torch.testing.assert_close(several(scaled), several(hidden_states), rtol=0, atol=1e-13)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_low_precision_is_cast_up(several, hidden_states, dtype):
    states = [state.to(dtype) for state in hidden_states]
    wide = torch.promote_types(dtype, torch.float32)
    found = several(states)
    assert found.dtype == wide
    assert torch.equal(found, several([state.to(wide) for state in states]))


def test_autocast_changes_nothing(several, hidden_states):
    states = [state.float() for state in hidden_states]
    with torch.autocast("cpu", torch.bfloat16):
        found = several(states)
    assert found.dtype == torch.float32
    assert torch.equal(found, several(states))


def test_a_token_does_not_depend_on_its_batch_mates(several, hidden_states):
    found = several(hidden_states)
    for row in range(2):
        alone = several([state[row : row + 1, :3] for state in hidden_states])
        torch.testing.assert_close(found[row : row + 1, :3], alone, rtol=0, atol=1e-14)


def test_padding_of_zeros_stays_finite(several):
    states = [torch.zeros(1, 2, 4, requires_grad=True) for _ in LAYERS]
    found = several(states)
    found.sum().backward()
    assert (found == 0).all()
    assert all(state.grad.isfinite().all() for state in states)


def test_gradients(several, hidden_states):
    several.double()
    if isinstance(several, Routing):
        several.options |= {"tolerance": 0.0, "max_iterations": 4}
    states = [state[:1, :2].clone().requires_grad_() for state in hidden_states]
    assert gradcheck(lambda *given: several(given[: len(LAYERS)]), (*states, *several.parameters()))


def test_parameters(several):
    names = [name for name, _ in several.named_parameters()]
    assert names == (["logits"] if isinstance(several, ScalarMix) else [])


def test_signatures():
    found = [module.signature_entries() for module in (PowerMeans(range(2, 7), (-INFINITY, 1, INFINITY)), Routing([3]))]
    assert found[0] == {"layers": "2-6", "powers": "-inf,1,inf"}
    assert found[1] == {"layers": "3", "routing": "gaussian,step1,to1e-05,max20"}
    mix = ScalarMix([0, 4, 5, 6, 8, 9])
    assert mix.signature_entries()["layers"] == "0,4-6,8,9"
    assert mix.signature_entries()["mix"] == ",".join(["0.166667"] * 6)
    assert SideBySide([6, 12]).signature_entries() == {"layers": "6,12", "side-by-side": "0.5,0.5"}
    with torch.no_grad():
        mix.logits[0] = 100
    assert mix.signature_entries()["mix"].startswith("1,")
