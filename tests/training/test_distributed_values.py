import pytest
import torch

from gloo_jobs import joint_loss, joint_problem
from textmover.training.sharding import joint_values


def test_one_process_has_all_values():
    values = torch.randn(4, requires_grad=True)
    assert joint_values(values, 4) is values


@pytest.mark.parametrize("rows", [pytest.param(8, marks=pytest.mark.long), 7])
def test_two_processes_have_the_loss_and_the_gradient_of_one(in_two_processes, rows):
    inputs, targets, layer = joint_problem(rows)
    scores = layer(inputs).squeeze(1)
    loss = joint_loss(scores, targets)
    loss.backward()
    expected = [scores.detach(), loss.detach(), *(one.grad for one in layer.parameters())]
    for results in in_two_processes("joint_gradients", rows):
        for found, wanted in zip(results, expected, strict=True):
            assert torch.allclose(found, wanted, atol=1e-12)
