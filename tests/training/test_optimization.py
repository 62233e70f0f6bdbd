import itertools

import pytest
import torch
from torch import nn

from textmover.training.optimization import OptimizerConfig, build_optimizer, warmup_then_linear_decay
from textmover.types import InputError


def test_groups_take_their_rates_and_only_matrices_decay():
    encoder = nn.Linear(3, 2)
    head = nn.Linear(1, 1, bias=False)
    config = OptimizerConfig(learning_rate=1e-4, head_learning_rate=1e-2, weight_decay=0.3)
    optimizer = build_optimizer(encoder.named_parameters(), head.named_parameters(), config)
    found = {
        group["name"]: (group["lr"], group["weight_decay"], len(group["params"])) for group in optimizer.param_groups
    }
    assert found == {
        "encoder": (1e-4, 0.3, 1),
        "encoder without decay": (1e-4, 0.0, 1),
        "head": (1e-2, 0.0, 1),
    }


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
    [("learning_rate", -1.0), ("weight_decay", float("inf")), ("beta1", 1.5), ("warmup", -0.1), ("final", 2.0)],
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


def test_the_rate_rises_falls_and_ends_at_its_final_share():
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    schedule = warmup_then_linear_decay(optimizer, 100, OptimizerConfig(warmup=0.1, final=0.2))
    factor = schedule.lr_lambdas[0]
    rates = [factor(step) for step in range(101)]
    assert rates[0] == 0
    assert max(rates) == rates[10] == 1
    assert rates[100] == pytest.approx(0.2)
    assert all(one <= other for one, other in itertools.pairwise(rates[:11]))
    assert all(one >= other for one, other in itertools.pairwise(rates[10:]))


def test_without_warm_up_the_first_step_takes_the_peak():
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    assert warmup_then_linear_decay(optimizer, 10, OptimizerConfig(warmup=0)).lr_lambdas[0](0) == 1
