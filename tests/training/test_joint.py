"""Two gloo processes against one: the same loss, the same gradients, the same corpus mean."""

import os
from pathlib import Path

import pytest
import torch
from torch import nn

from textmover.training.joint import joint_values


def test_one_process_has_all_values():
    values = torch.randn(4, requires_grad=True)
    assert joint_values(values, 4) is values


def loss_of(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """No mean over rows: it depends on all of them at once."""
    x, y = scores - scores.mean(), targets - targets.mean()
    return 1 - (x * y).sum() / (x.norm() * y.norm()) + scores.square().mean()


def work(rank: int, world: int, rows: int, folder: str) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", USE_LIBUV="0")
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=world)
    torch.manual_seed(0)
    inputs, targets = torch.randn(rows, 3, dtype=torch.float64), torch.randn(rows, dtype=torch.float64)
    layer = nn.Linear(3, 1).double()
    own = slice(rank, None, world)
    scores = joint_values(layer(inputs[own]).squeeze(1), rows)
    loss = loss_of(scores, joint_values(targets[own], rows))
    loss.backward()
    for parameter in layer.parameters():  # as distributed strategies do
        torch.distributed.all_reduce(parameter.grad)
        parameter.grad /= world
    torch.save([scores.detach(), loss.detach(), *(one.grad for one in layer.parameters())], f"{folder}/{rank}.pt")
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("rows", [8, 7])
def test_two_processes_have_the_loss_and_the_gradient_of_one(tmp_path: Path, rows: int) -> None:
    torch.multiprocessing.spawn(work, args=(2, rows, str(tmp_path)), nprocs=2)
    torch.manual_seed(0)
    inputs, targets = torch.randn(rows, 3, dtype=torch.float64), torch.randn(rows, dtype=torch.float64)
    layer = nn.Linear(3, 1).double()
    scores = layer(inputs).squeeze(1)
    loss = loss_of(scores, targets)
    loss.backward()
    expected = [scores.detach(), loss.detach(), *(one.grad for one in layer.parameters())]
    for rank in range(2):
        for found, wanted in zip(torch.load(tmp_path / f"{rank}.pt", weights_only=True), expected, strict=True):
            assert torch.allclose(found, wanted, atol=1e-12)
