"""What two processes that share the weights out leave, one process reads; they clip as one."""

import pytest
import torch
from pytorch_lightning.strategies import DDPStrategy, FSDPStrategy
from test_strategies import arguments_of, assert_same_weights

from gloo_jobs import joint_loss, joint_problem
from textmover.training.sharding import clip_norm, gather_values, sharding_mesh
from textmover.types import InputError


@pytest.mark.long
def test_either_goes_on_from_the_checkpoint_of_the_other(train_py, tmp_path, steady_encoder):
    """Ten steps by two processes and the rest by one, and the other way round, end as a run of one process alone."""
    ends = {}
    for name, first, then in (("alone", 1, None), ("back", 2, 1), ("forth", 1, 2)):
        folder = tmp_path / name
        stop = {} if then is None else {"trainer__max_steps": 10}
        schedule = {"schedule": "constant", "warmup": 0.0, "learning_rate": 2e-3}
        changes = {"model__init_args__optimizer": schedule, **stop}
        ended = train_py(*arguments_of(folder, steady_encoder, first, **changes))
        assert ended.returncode == 0, ended.stderr
        if then is not None:
            resume = tmp_path / f"{name}.ckpt"
            resume.write_bytes((folder / "checkpoints" / "resume.ckpt").read_bytes())
            assert torch.load(resume, weights_only=True)["global_step"] == 10
            changes = {"model__init_args__optimizer": schedule}
            ended = train_py(*arguments_of(folder, steady_encoder, then, **changes), "--ckpt_path", str(resume))
            assert ended.returncode == 0, ended.stderr
        ends[name] = torch.load(folder / "checkpoints" / "resume.ckpt", weights_only=True)
    for name in ("back", "forth"):
        assert ends[name]["global_step"] == ends["alone"]["global_step"] == 20
        assert_same_weights(ends["alone"]["state_dict"], ends[name]["state_dict"])


@pytest.mark.long
def test_the_norm_is_that_of_all_shares(in_two_processes, tmp_path):
    """Two processes, each with half of a weight, clip as one that has all of it."""
    weight, bias = (torch.arange(1.0, 9).reshape(4, 2), torch.tensor([3.0]))
    expected = [torch.nn.Parameter(torch.zeros_like(one)) for one in (weight, bias)]
    for parameter, gradient in zip(expected, (weight, bias), strict=True):
        parameter.grad = gradient.clone()
    norm = torch.nn.utils.clip_grad_norm_(expected, 2.0)
    for found in in_two_processes("clipped_shares", weight, bias):
        assert torch.allclose(found["norm"], norm)
        assert torch.allclose(found["weight"], expected[0].grad)
        assert torch.allclose(found["bias"], expected[1].grad)


@pytest.mark.parametrize("most", [0.5, 100.0])
def test_one_process_clips_as_torch_does(most):
    mine, theirs = ([torch.nn.Parameter(torch.zeros(3)), torch.nn.Parameter(torch.zeros(2, 2))] for _ in range(2))
    for one, other in zip(mine, theirs, strict=True):
        one.grad = torch.randn_like(one)
        other.grad = one.grad.clone()
    mine.append(torch.nn.Parameter(torch.zeros(2)))  # without a gradient
    assert clip_norm(mine, most) == torch.nn.utils.clip_grad_norm_(theirs, most)
    for one, other in zip(mine, theirs, strict=False):
        assert torch.equal(one.grad, other.grad)


def test_nothing_to_clip_has_no_norm():
    assert clip_norm([torch.nn.Parameter(torch.zeros(2))], 1.0) == 0


def test_strategies_that_shard_otherwise_are_refused():
    with pytest.raises(InputError, match=r"`trainer\.strategy` to fsdp"):
        sharding_mesh(FSDPStrategy())
    assert sharding_mesh(DDPStrategy()) is None


# --- values of all processes ------------------------------------------------------------------------------------------


def test_one_process_has_all_values():
    values = torch.randn(4, requires_grad=True)
    assert gather_values(values, 4) is values


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
