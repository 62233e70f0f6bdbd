import copy
import math
import pickle
import re

import pytest
import torch
from torch import nn

from textmover.modules.encoder.lora import LoraConfig, add_lora
from textmover.training.optimization import (
    OptimizerConfig,
    build_optimizer,
    build_schedule,
    checkpoint_activations,
    layer_depths,
)
from textmover.types import InputError

TINY = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16, "vocab_size": 20}


def loss_of(metric: nn.Module) -> torch.Tensor:
    hypotheses = metric.tokenize(["the old dog ran to the river", "red cat"])
    references = metric.tokenize(["the young dog ran to the sea", "green cat sat on the mat"])
    return metric(hypotheses, references).score.square().sum()


# --- groups -----------------------------------------------------------------------------------------------------------


def test_groups_take_their_rates_and_only_matrices_decay():
    encoder = nn.Linear(3, 2)
    head = nn.Linear(1, 1, bias=False)
    config = OptimizerConfig(learning_rate=1e-4, head_learning_rate=1e-2, weight_decay=0.3)
    optimizer = build_optimizer(encoder.named_parameters(), head.named_parameters(), config)
    found = {
        group["name"]: (group["lr"], group["weight_decay"], len(group["params"])) for group in optimizer.param_groups
    }
    assert found == {"encoder": (1e-4, 0.3, 1), "encoder without decay": (1e-4, 0.0, 1), "head": (1e-2, 0.0, 1)}


def test_frozen_parameters_are_left_out():
    encoder = nn.Linear(3, 2)
    encoder.weight.requires_grad_(False)
    optimizer = build_optimizer(encoder.named_parameters(), [], OptimizerConfig())
    assert [group["name"] for group in optimizer.param_groups] == ["encoder without decay"]


def test_nothing_to_train_is_refused():
    with pytest.raises(InputError, match="frozen"):
        build_optimizer([], [], OptimizerConfig())


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("learning_rate", -1.0),
        ("weight_decay", float("inf")),
        ("beta1", 1.0),
        ("beta2", 1.0),
        ("beta2", -0.1),
        ("warmup", -0.1),
        ("final", 2.0),
        ("layer_decay", 0.0),
        ("layer_decay", 1.1),
        ("thaw", -0.1),
        ("thaw", math.nan),
        ("schedule", "square"),
    ],
)
def test_values_out_of_range_are_refused(field, value):
    with pytest.raises(InputError, match=field):
        OptimizerConfig(**{field: value})


@pytest.mark.parametrize("field", ["learning_rate", "head_learning_rate", "weight_decay", "beta1", "beta2"])
def test_every_field_reaches_the_optimizer(field):
    def groups(config):
        optimizer = build_optimizer(nn.Linear(2, 2).named_parameters(), nn.Linear(1, 1).named_parameters(), config)
        keys = ("lr", "weight_decay", "betas")
        return [{key: group[key] for key in keys} for group in optimizer.param_groups]

    assert groups(OptimizerConfig()) != groups(OptimizerConfig(**{field: 0.5}))


# --- depth ------------------------------------------------------------------------------------------------------------


def test_depth_of_the_tiny_encoder(tiny_metric):
    depths = layer_depths(tiny_metric().encoder)
    assert list(depths) == [name for name, _ in tiny_metric().encoder.named_parameters()]
    for name, depth in depths.items():
        block = re.search(r"encoder\.layer\.(\d+)\.", name)
        assert depth == (int(block[1]) + 1 if block else 0), name
    assert set(depths.values()) == {0, 1, 2, 3}


def test_blocks_above_the_layer_that_is_read_count_as_it(tiny_metric):
    whole = tiny_metric(layer=3).encoder
    whole.layers = (1, 2)
    depths = layer_depths(whole)
    assert {depth for name, depth in depths.items() if ".layer.2." in name} == {2}


@pytest.mark.parametrize(
    ("kind", "fields", "lowest", "highest"),
    [
        ("roberta", {}, {"embeddings"}, set()),
        ("distilbert", {"dim": 8, "n_layers": 2, "n_heads": 2, "hidden_dim": 16}, {"embeddings"}, set()),
        ("mpnet", {}, {"embeddings", "relative_attention_bias"}, set()),
        ("electra", {"embedding_size": 4}, {"embeddings", "embeddings_project"}, set()),
        (
            "deberta-v2",
            {"relative_attention": True, "norm_rel_ebd": "layer_norm"},
            {"embeddings", "rel_embeddings"},
            {"LayerNorm"},
        ),
        ("modernbert", {"pad_token_id": 0}, {"embeddings"}, {"final_norm"}),
    ],
)
def test_depth_of_other_encoders(kind, fields, lowest, highest):
    from transformers import AutoConfig, AutoModel

    fields = {key: value for key, value in TINY.items() if not ("dim" in fields and key != "vocab_size")} | fields
    if kind == "modernbert":
        fields |= {"bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}
    model = AutoModel.from_config(AutoConfig.for_model(kind, **fields))
    model.pooler = None
    place = {0: set(), 2: set()}
    for name, depth in layer_depths(model).items():
        block = re.search(r"\blayers?\.(\d+)\.", name)
        if block:
            assert depth == int(block[1]) + 1, name
        else:
            place[depth].add(name.removeprefix("encoder.").split(".")[0])
    assert place == {0: lowest, 2: highest}


def test_an_encoder_without_blocks_has_no_depth():
    with pytest.raises(InputError, match="list of blocks, but Embedding has none: leave `layer_decay` at 1"):
        layer_depths(nn.Embedding(3, 2))


def test_only_matrices_decay_in_every_layer(tiny_metric):
    encoder = tiny_metric().encoder
    config = OptimizerConfig(weight_decay=0.3, layer_decay=0.9)
    optimizer = build_optimizer(encoder.named_parameters(), [], config, depths=layer_depths(encoder))
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(list(encoder.parameters()))
    assert len({group["name"] for group in optimizer.param_groups}) == 8
    for group in optimizer.param_groups:
        assert {parameter.ndim > 1 for parameter in group["params"]} == {group["weight_decay"] == 0.3}


def test_the_highest_layer_that_is_trained_takes_the_whole_rate(tiny_metric):
    encoder = tiny_metric().encoder
    encoder.model.encoder.layer[2].requires_grad_(False)
    config = OptimizerConfig(learning_rate=1.0, layer_decay=0.5)
    optimizer = build_optimizer(encoder.named_parameters(), [], config, depths=layer_depths(encoder))
    assert [group["lr"] for group in optimizer.param_groups] == [1.0, 1.0, 0.5, 0.5, 0.25, 0.25]


@pytest.mark.parametrize("fields", [{"layer_decay": 0.9}, {"thaw": 0.1}])
@pytest.mark.parametrize("depths", [None, {"another": 1}])
def test_depths_that_are_needed_and_not_known_are_asked_for(fields, depths):
    with pytest.raises(InputError, match="the depth of weight"):
        build_optimizer(nn.Linear(2, 2).named_parameters(), [], OptimizerConfig(**fields), depths=depths)


# --- schedule ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("warmup", [0.2, 0.0])
@pytest.mark.parametrize(
    ("schedule", "left"),
    [
        ("linear", lambda x: 0.1 + 0.9 * (1 - x)),
        ("cosine", lambda x: 0.1 + 0.9 * math.cos(math.pi / 2 * x) ** 2),
        ("constant", lambda x: 1.0),
    ],
)
def test_the_rate_rises_and_falls_as_its_formula(schedule, left, warmup):
    config = OptimizerConfig(warmup=warmup, final=0.1, schedule=schedule)
    factor = build_schedule(torch.optim.SGD([torch.zeros(1)], lr=1.0), 100, config).lr_lambdas[0]
    first = 100 * warmup
    for step in range(121):
        expected = step / first if step < first else left(min(1.0, (step - first) / (100 - first)))
        assert factor(step) == pytest.approx(expected, abs=1e-12)


# --- thaw -------------------------------------------------------------------------------------------------------------

THAW = OptimizerConfig(learning_rate=1e-2, weight_decay=0.5, warmup=0.0, schedule="constant", layer_decay=0.9, thaw=0.2)


def train(metric: nn.Module, steps: range, total: int, resume: dict | None = None) -> tuple[list[dict], dict]:
    """Weights of the encoder after each step, and what a resumed run needs."""
    encoder = metric.encoder
    optimizer = build_optimizer(
        metric.encoder_parameters(), metric.head_parameters(), THAW, depths=layer_depths(encoder)
    )
    schedule = build_schedule(optimizer, total, THAW)
    if resume is not None:
        metric.load_state_dict(resume["metric"])
        optimizer.load_state_dict(resume["optimizer"])
        schedule.load_state_dict(resume["schedule"])
    seen = []
    for _ in steps:
        optimizer.zero_grad()
        loss_of(metric).backward()
        optimizer.step()
        schedule.step()
        seen.append(copy.deepcopy(dict(encoder.named_parameters())))
    parts = {"metric": metric, "optimizer": optimizer, "schedule": schedule}
    return seen, {name: copy.deepcopy(one.state_dict()) for name, one in parts.items()}


def test_layers_start_to_move_one_by_one_from_the_top(tiny_metric):
    metric = tiny_metric()
    before = copy.deepcopy(dict(metric.encoder.named_parameters()))
    depths = layer_depths(metric.encoder)
    seen, _ = train(metric, range(10), 10)
    read = {name for name, one in metric.encoder.named_parameters() if one.grad is not None and one.grad.any()}
    assert {depths[name] for name in read} == {0, 1, 2, 3}
    for name in read:
        moved = [not torch.equal(before[name], after[name]) for after in seen]
        first = 2 * (3 - depths[name])  # a fifth of ten steps for every layer below the highest
        assert moved == [step >= first for step in range(10)], name


def test_the_head_moves_from_the_first_step_on(tiny_metric):
    metric = tiny_metric(calibrate=True)
    train(metric, range(1), 10)
    assert metric.calibration.offset.item() != 0


def test_a_resumed_run_thaws_as_an_unbroken_one(tiny_metric):
    unbroken, _ = train(tiny_metric(), range(10), 10)
    _, state = train(tiny_metric(), range(3), 10)
    resumed, _ = train(tiny_metric(), range(3, 10), 10, resume=state)
    for name, weight in unbroken[-1].items():
        assert torch.equal(weight, resumed[-1][name]), name


# --- gradient checkpointing -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "lora"),
    [({}, False), ({"layer": 2}, False), ({"aggregation": "scalar-mix", "last_layers": 3}, False), ({}, True)],
)
def test_gradient_checkpointing_changes_no_gradient(tiny_metric, fields, lora):
    found, counts = [], []
    for checkpointing in (False, True):
        metric = tiny_metric(**fields).train()
        encoder = metric.encoder.model
        torch.manual_seed(0)
        if lora:
            add_lora(metric.encoder, LoraConfig())
        if checkpointing:
            checkpoint_activations(metric.encoder)
        passes: list[int] = []
        encoder.encoder.layer[0].attention.register_forward_hook(lambda *_, to=passes: to.append(1))
        torch.manual_seed(0)  # dropout is on
        loss_of(metric).backward()
        counts.append(len(passes))
        found.append({name: one.grad for name, one in metric.named_parameters() if one.grad is not None})
    plain, again = found
    assert counts[1] == 2 * counts[0] > 0  # forward, and once more on the way back
    assert any(one.any() for one in plain.values())
    assert plain.keys() == again.keys()
    for name, gradient in plain.items():
        torch.testing.assert_close(again[name], gradient, rtol=1e-6, atol=1e-7)


def test_an_encoder_with_checkpointing_can_still_be_pickled_and_scores_the_same(tiny_metric):
    metric = tiny_metric()
    before = loss_of(metric)
    checkpoint_activations(metric.encoder)
    assert torch.equal(loss_of(pickle.loads(pickle.dumps(metric))), before)


def test_frozen_embeddings_do_not_stop_the_gradients(tiny_metric):
    metric = tiny_metric(freeze_layers=0).train()
    checkpoint_activations(metric.encoder)
    loss_of(metric).backward()
    moved = {name for name, one in metric.encoder.named_parameters() if one.grad is not None and one.grad.any()}
    assert {name for name in moved if "embeddings" in name} == set()
    assert {depth for name, depth in layer_depths(metric.encoder).items() if name in moved} == {1, 2, 3}


def test_what_has_no_blocks_cannot_checkpoint():
    with pytest.raises(InputError, match="supports gradient checkpointing, but Linear does not"):
        checkpoint_activations(nn.Linear(2, 2))
