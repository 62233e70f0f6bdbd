"""LoRA: what trains, what stays, and that merging changes names and nothing else."""

import copy
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from labelled_runs import over, quiet_trainer, rated
from torch import nn

from runs import write_ratings
from textmover.checkpoints.loading import load_checkpoint
from textmover.modules.encoder.lora import LoraConfig, LowRankLinear, add_lora, has_lora, merge_lora, merged_state
from textmover.scoring import save_checkpoint
from textmover.training import RatingsModule
from textmover.training.optimization import OptimizerConfig, build_optimizer, layer_depths
from textmover.types import InputError

FIRST = ["the old dog ran to the river", "red cat", "we walk home"]
SECOND = ["the young dog ran to the sea", "green cat sat on the mat", "we walk home"]


@pytest.fixture(scope="module")
def roberta(random_encoder: Callable[..., Path]) -> Path:
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    return random_encoder("roberta", **sizes, max_position_embeddings=64, initializer_range=0.2)


@pytest.fixture(params=["tiny", "roberta"])
def metric(request, tiny_metric, roberta):
    """A metric on the tiny BERT or RoBERTa; what is drawn in a test, matrices and dropout, is the same in every run."""
    torch.manual_seed(0)  # one draw in sixty makes a network that enlarges rounding ten times
    return tiny_metric() if request.param == "tiny" else tiny_metric(encoder=str(roberta))


def scores(metric) -> torch.Tensor:
    return metric(metric.tokenize(FIRST), metric.tokenize(SECOND)).score


def train(metric, steps: int = 3) -> None:
    """A few steps that move the matrices far from zero."""
    config = OptimizerConfig(learning_rate=0.05)
    optimizer = build_optimizer(metric.encoder_parameters(), [], config)
    metric.train()
    for _ in range(steps):
        optimizer.zero_grad()
        scores(metric).square().sum().backward()
        optimizer.step()
    metric.eval()


# --- training ---------------------------------------------------------------------------------------------------------


def test_nothing_changes_before_the_first_step(metric):
    before = scores(metric)
    add_lora(metric.encoder, LoraConfig(dropout=0.5))
    torch.testing.assert_close(scores(metric), before, rtol=0, atol=1e-7)


def test_only_the_matrices_train(metric):
    before = {name: weight.clone() for name, weight in metric.state_dict().items()}
    add_lora(metric.encoder, LoraConfig(rank=4))
    trained = {name for name, one in metric.encoder.named_parameters() if one.requires_grad}
    assert trained == {name for name, _ in metric.encoder.named_parameters() if "lora_" in name}
    start = scores(metric)
    train(metric)
    assert (scores(metric) - start).abs().max() > 1e-3
    after = {name.replace(".base_layer", ""): weight for name, weight in metric.state_dict().items()}
    for name, weight in before.items():
        assert torch.equal(after[name], weight), name


def test_dropout_acts_in_training_alone(tiny_metric):
    encoder = tiny_metric().encoder
    add_lora(encoder, LoraConfig(dropout=0.5))
    layer = encoder.model.encoder.layer[0].attention.self.query
    nn.init.normal_(layer.lora_B["default"].weight)
    x = torch.randn(5, 32)
    assert torch.equal(layer.eval()(x), layer(x))
    assert not torch.equal(layer.train()(x), layer(x))


def with_peft(linear, config, layer):
    """The same layer of the package peft, with the same matrices."""
    import peft

    model = nn.ModuleDict({"layer": copy.deepcopy(linear)})
    options = {"r": config.rank, "lora_alpha": config.alpha, "target_modules": ["layer"]}
    peft.inject_adapter_in_model(peft.LoraConfig(**options), model)
    model["layer"].load_state_dict(layer.state_dict())
    return model["layer"]


@pytest.mark.parametrize("shape", [(3,), (5, 3), (2, 5, 3)])
@pytest.mark.parametrize("bias", [True, False])
def test_values_and_gradients_are_those_of_peft(shape, bias):
    torch.manual_seed(0)
    linear, config = nn.Linear(3, 4, bias=bias).double(), LoraConfig(rank=2, alpha=3.0)
    layer = LowRankLinear(copy.deepcopy(linear).requires_grad_(False), config)
    nn.init.normal_(layer.matrices[1])
    other = with_peft(linear, config, layer).double()
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    factors = torch.randn(*shape[:-1], 4, dtype=torch.float64)
    found = []
    for one in (layer, other):
        values = one(x)
        trained = [parameter for parameter in one.parameters() if parameter.requires_grad]
        found.append([values, *torch.autograd.grad((values * factors).sum(), [x, *trained])])
    assert len(found[0]) == len(found[1]) == 4
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(nn.functional.linear(x, layer.weight, layer.bias), layer(x), rtol=1e-12, atol=1e-12)
    assert torch.autograd.gradcheck(layer, (x,))


def test_a_weight_and_a_bias_that_are_trained_as_well_get_gradients():
    torch.manual_seed(0)
    layer, x = LowRankLinear(nn.Linear(3, 4), LoraConfig(rank=2)).double(), torch.randn(2, 5, 3, dtype=torch.float64)
    nn.init.normal_(layer.matrices[1])
    base, (down, up) = layer.base_layer, layer.matrices
    plain = x @ base.weight.T + base.bias + layer.scaling * x @ down.T @ up.T
    expected = torch.autograd.grad(plain.square().sum(), [base.weight, base.bias])
    found = torch.autograd.grad(layer(x).square().sum(), [base.weight, base.bias])
    for ours, wanted in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, wanted)


def test_under_autocast_the_values_are_those_of_bfloat16():
    torch.manual_seed(0)
    layer = LowRankLinear(nn.Linear(64, 32).requires_grad_(False), LoraConfig())
    nn.init.normal_(layer.matrices[1], std=0.1)
    x = torch.randn(5, 64, requires_grad=True)
    expected = layer(x)
    wanted = torch.autograd.grad(expected.sum(), [x, *layer.matrices])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        values = layer(x)
        gradients = torch.autograd.grad(values.float().sum(), [x, *layer.matrices])
    assert values.dtype == torch.bfloat16
    assert [one.dtype for one in gradients] == [torch.float32] * 3
    torch.testing.assert_close(values.float(), expected, rtol=0.05, atol=0.05)
    for ours, theirs in zip(gradients, wanted, strict=True):
        assert torch.nn.functional.cosine_similarity(ours.flatten(), theirs.flatten(), dim=0) > 0.999


def test_the_state_has_the_names_of_peft(tiny_metric):
    metric = tiny_metric()
    layer = metric.encoder.model.encoder.layer[0].attention.self.query
    add_lora(metric.encoder, LoraConfig(rank=2))
    ours = metric.encoder.model.encoder.layer[0].attention.self.query
    assert with_peft(layer, LoraConfig(rank=2), ours).state_dict().keys() == ours.state_dict().keys()


@pytest.mark.parametrize(
    ("targets", "expected"),
    [
        ("attention", {"query", "key", "value", "attention.output.dense"}),
        ("all", {"query", "key", "value", "attention.output.dense", "intermediate.dense", "2.output.dense"}),
        (["query", "value"], {"query", "value"}),
        (["intermediate.dense"], {"intermediate.dense"}),
    ],
)
def test_targets_say_which_layers_get_matrices(tiny_metric, targets, expected):
    encoder = tiny_metric().encoder
    add_lora(encoder, LoraConfig(targets=targets))
    names = [name for name, module in encoder.named_modules() if hasattr(module, "lora_A")]
    in_each = 6 if targets == "all" else len(expected)
    assert len(names) == 3 * in_each
    for end in expected:
        assert any(name.endswith(end) for name in names), end


def test_frozen_layers_get_none(tiny_metric):
    encoder = tiny_metric(freeze_layers=2).encoder
    add_lora(encoder, LoraConfig(targets="all"))
    depths = layer_depths(encoder)
    assert {depths[name] for name, one in encoder.named_parameters() if "lora_" in name} == {3}


def test_layers_decay_with_lora_too(tiny_metric):
    encoder = tiny_metric().encoder
    add_lora(encoder, LoraConfig())
    config = OptimizerConfig(learning_rate=1.0, layer_decay=0.5)
    optimizer = build_optimizer(encoder.named_parameters(), [], config, depths=layer_depths(encoder))
    assert [group["lr"] for group in optimizer.param_groups] == [1.0, 0.5, 0.25]


# --- merging ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("targets", ["attention", "all"])
def test_merged_and_unmerged_score_the_same_under_plain_names(metric, targets):
    plain, trainable = metric.state_dict().keys(), [one.requires_grad for one in metric.parameters()]
    add_lora(metric.encoder, LoraConfig(rank=4, dropout=0.3, targets=targets))
    train(metric)
    with torch.no_grad():
        expected = scores(metric)
        states = metric.encoder(metric.tokenize(FIRST))
        merge_lora(metric.encoder)
        torch.testing.assert_close(scores(metric), expected, rtol=0, atol=1e-6)
        torch.testing.assert_close(metric.encoder(metric.tokenize(FIRST)), states, rtol=0, atol=5e-6)
    assert metric.state_dict().keys() == plain
    assert [one.requires_grad for one in metric.parameters()] == trainable
    assert not has_lora(metric.encoder)
    assert not any(isinstance(module, LowRankLinear) for module in metric.modules())


def test_a_metric_with_matrices_is_saved_merged_and_stays_as_it_is(metric, tmp_path):
    add_lora(metric.encoder, LoraConfig(rank=4))
    train(metric)
    expected, names = scores(metric), metric.state_dict().keys()
    loaded = load_checkpoint(save_checkpoint(metric, tmp_path / "metric", card="# Unmerged"))
    torch.testing.assert_close(scores(loaded), expected, rtol=0, atol=1e-6)
    assert not has_lora(loaded.encoder)
    assert has_lora(metric.encoder)
    assert metric.state_dict().keys() == names
    merge_lora(metric.encoder)
    save_checkpoint(metric, tmp_path / "metric", card="", overwrite=True)
    assert str(load_checkpoint(tmp_path / "metric").signature) == str(loaded.signature)


def test_a_merged_encoder_trains_whole_and_can_get_lora_again(tiny_metric):
    metric = tiny_metric(freeze_layers=1)
    trained = {name for name, one in metric.named_parameters() if one.requires_grad}
    add_lora(metric.encoder, LoraConfig())
    merge_lora(metric.encoder)
    assert {name for name, one in metric.named_parameters() if one.requires_grad} == trained
    add_lora(metric.encoder, LoraConfig())
    assert has_lora(metric.encoder)


def test_a_state_with_matrices_becomes_the_one_of_the_merged_metric(metric):
    config = LoraConfig(rank=2, alpha=5.0, targets="all")
    add_lora(metric.encoder, config)
    train(metric)
    found = merged_state({f"metric.{name}": weight for name, weight in metric.state_dict().items()}, config)
    merge_lora(metric.encoder)
    expected = metric.state_dict()
    assert found.keys() == {f"metric.{name}" for name in expected}
    for name, weight in expected.items():
        assert torch.equal(found[f"metric.{name}"], weight), name


def test_a_state_without_lora_stays_as_it_is(tiny_metric):
    state = tiny_metric().state_dict()
    found = merged_state(state, LoraConfig())
    assert found.keys() == state.keys()
    assert all(found[name] is state[name] for name in state)


def test_copies_and_pickles_are_independent_and_merge(metric):
    add_lora(metric.encoder, LoraConfig())
    train(metric)
    before = scores(metric)
    copied, pickled = copy.deepcopy(metric), pickle.loads(pickle.dumps(metric))
    model = metric.encoder.copied_model()
    train(metric)
    for other in (copied, pickled):
        assert torch.equal(scores(other), before)
        merge_lora(other.encoder)
        torch.testing.assert_close(scores(other), before, rtol=0, atol=1e-6)
    assert not torch.equal(scores(metric), before)
    metric.encoder.model = model
    assert torch.equal(scores(metric), before)


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"rank": 0}, "`rank` to be a whole number from 1 to 65,536, but got 0"),
        ({"rank": 2.5}, "`rank` to be a whole number from 1 to 65,536, but got 2.5"),
        ({"alpha": 0.0}, "`alpha` to be a positive finite number, but got 0.0"),
        ({"dropout": 1.0}, "`dropout` to be at least 0 and below 1, but got 1.0"),
        ({"targets": "query"}, "'attention', 'all' or a list of names, but got 'query': put a single name into a list"),
        ({"targets": []}, "'attention', 'all' or a list of names, but got \\[\\]"),
    ],
)
def test_values_out_of_range_are_refused(fields, message):
    with pytest.raises(InputError, match=message):
        LoraConfig(**fields)


def test_names_that_no_layer_has_list_those_that_there_are(tiny_metric):
    with pytest.raises(InputError, match=r"but got q_proj: choose among attention\.output\.dense"):
        add_lora(tiny_metric().encoder, LoraConfig(targets=["query", "q_proj"]))


def test_an_encoder_that_is_frozen_whole_is_refused(tiny_metric):
    with pytest.raises(InputError, match="none that is trained fits: lower `freeze_layers`"):
        add_lora(tiny_metric(freeze_layers=3).encoder, LoraConfig())


def test_lora_is_added_once_and_merged_once(tiny_metric):
    encoder = tiny_metric().encoder
    with pytest.raises(InputError, match="there is nothing to merge"):
        merge_lora(encoder)
    add_lora(encoder, LoraConfig())
    with pytest.raises(InputError, match="Expected an encoder without LoRA"):
        add_lora(encoder, LoraConfig())


def test_what_is_no_encoder_is_refused():
    with pytest.raises(InputError, match="but got Embedding"):
        add_lora(nn.Embedding(3, 2), LoraConfig())


def test_a_state_of_another_rank_or_with_a_matrix_missing_is_refused(tiny_metric):
    encoder = tiny_metric().encoder
    add_lora(encoder, LoraConfig(rank=4))
    state = encoder.state_dict()
    with pytest.raises(InputError, match=r"Expected LoRA matrices of rank 8, but .* has rank 4"):
        merged_state(state, LoraConfig(rank=8))
    for part in ("lora_A", "lora_B", "base_layer.weight"):
        lost = next(name for name in state if part in name)
        rest = {name: weight for name, weight in state.items() if name != lost}
        with pytest.raises(InputError, match="one of the three is missing"):
            merged_state(rest, LoraConfig(rank=4))


def test_a_merged_module_is_not_fitted_again_as_a_whole(tmp_path, tiny_encoder):
    data = rated(write_ratings(tmp_path / "ratings.tsv", 60))
    module = over(tiny_encoder, RatingsModule, lora=LoraConfig(rank=2))
    quiet_trainer(max_steps=1, limit_val_batches=0).fit(module, data)
    module.finish()
    quiet_trainer().validate(module, data, verbose=False)
    with pytest.raises(InputError, match="LoRA matrices to train, but `finish` has merged them"):
        quiet_trainer(max_steps=1, limit_val_batches=0).fit(module, data)
