"""Encoder weights sharded over processes with PyTorch's FSDP2, and values gathered from all processes.

Each process stores a shard of every encoder weight, with its gradient and optimiser state. The weights of a block are
gathered for its computation and freed after it. Temperature, calibration and heads are not sharded.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import torch
from pytorch_lightning.strategies import DeepSpeedStrategy, FSDPStrategy, ModelParallelStrategy
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, set_model_state_dict
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from textmover.checkpoints.lightning_checkpoints import read_run_checkpoint
from textmover.modules.encoder.encoder import Encoder
from textmover.types import InputError


class ShardedStrategy(ModelParallelStrategy):
    """Fully sharded data parallelism on GPUs or CPUs; checkpoints hold full weights in one file.

    ``--trainer.strategy fsdp`` selects this class.

    Args:
        timeout: How long processes wait for each other.
    """

    def __init__(self, timeout: timedelta = timedelta(minutes=30)) -> None:
        super().__init__(tensor_parallel_size=1, save_distributed_checkpoint=False, timeout=timeout)

    def setup_environment(self) -> None:
        """Shard over all processes of all machines."""
        self._data_parallel_size = self.num_nodes * self.num_processes
        super().setup_environment()

    def optimizer_state(self, optimizer: Any) -> dict[str, Any]:
        """Return the full optimiser state of a single process, so that any strategy can resume from it."""
        state: dict[str, Any] = getattr(optimizer, "_optimizer", optimizer).state_dict()
        full_state = {
            number: {name: _full(value).cpu() if isinstance(value, Tensor) else value for name, value in of.items()}
            for number, of in state["state"].items()
        }
        return {**state, "state": full_state}

    def load_checkpoint(self, checkpoint_path: Any, weights_only: bool | None = None) -> dict[str, Any]:
        """Load a checkpoint of full weights, written by any strategy, and keep this process's shard."""
        # Every process memory-maps the file: nothing is sent, and only its own shard stays in memory.
        checkpoint = read_run_checkpoint(checkpoint_path, resume=True, mmap=True)
        options = StateDictOptions(full_state_dict=True)
        share_again(self.model)  # type: ignore[arg-type]  # fitting statistics may have left weights gathered
        set_model_state_dict(self.model, checkpoint["state_dict"], options=options)  # type: ignore[arg-type]
        for optimizer, state in zip(self.optimizers, checkpoint.get("optimizer_states", []), strict=False):
            parameters = [one for group in optimizer.param_groups for one in group["params"]]
            shares = {
                number: {name: _shard_like(value, parameters[number]) for name, value in of.items()}
                for number, of in state["state"].items()
            }
            optimizer.load_state_dict({**state, "state": shares})
        return checkpoint


def sharding_mesh(strategy: Any) -> Any:
    """Return the device mesh over which a strategy shards weights; ``None`` if it does not shard."""
    if isinstance(strategy, (FSDPStrategy, DeepSpeedStrategy)):
        raise InputError(
            f"Expected a strategy that the training modules know, but got {type(strategy).__name__}: set "
            "`trainer.strategy` to fsdp, which shards by FSDP2, or to ddp."
        )
    if not isinstance(strategy, ModelParallelStrategy):
        return None
    if strategy.device_mesh["tensor_parallel"].size() > 1:
        raise InputError(
            "Expected `tensor_parallel_size` to be 1, since only weights of the encoder can be sharded, but got "
            f"{strategy.device_mesh['tensor_parallel'].size()}: set `trainer.strategy` to fsdp."
        )
    return strategy.device_mesh["data_parallel"]


def shard(encoder: Encoder, mesh: Any) -> None:
    """Shard an encoder's weights over the processes of a mesh, block by block, in place."""
    model: Any = encoder.model
    blocks: Iterable[nn.Module] = next(
        (one for one in model.modules() if isinstance(one, nn.ModuleList) and len(one) > 0), ()
    )
    for block in blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)


def is_sharded(encoder: nn.Module) -> bool:
    """Return whether an encoder's weights are sharded."""
    return any(isinstance(one, FSDPModule) for one in encoder.modules())


def keep_whole(encoder: nn.Module) -> None:
    """Gather the weights until :func:`share_again`, so that processes can run different numbers of batches."""
    for one in _sharded_modules(encoder):
        one.set_reshard_after_forward(False, recurse=False)
        one.unshard()


def share_again(encoder: nn.Module) -> None:
    """Shard the weights again after :func:`keep_whole` or after a forward pass without a backward pass."""
    for one in _sharded_modules(encoder):
        one.set_reshard_after_forward(True, recurse=False)
        one.reshard()


def average_gradients(parameters: Iterable[Tensor]) -> None:
    """Average the gradients of unsharded parameters over the processes; sharded ones are averaged already."""
    gradients = [one.grad for one in parameters if one.grad is not None and not isinstance(one, DTensor)]
    if not gradients:
        return
    flat = torch.cat([one.flatten() for one in gradients])
    torch.distributed.all_reduce(flat)
    flat /= torch.distributed.get_world_size()
    for gradient, mean in zip(gradients, torch.split(flat, [one.numel() for one in gradients]), strict=True):
        gradient.copy_(mean.view_as(gradient))


def clip_norm(parameters: Iterable[Tensor], most: float) -> Tensor:
    """Clip gradients in place by the joint norm over all processes; return the norm before clipping.

    Example:
        >>> weight = torch.zeros(2, requires_grad=True)
        >>> weight.grad = torch.tensor([3.0, 4.0])
        >>> clip_norm([weight], 1.0), weight.grad
        (tensor(5.), tensor([0.6000, 0.8000]))
    """
    updated = [one for one in parameters if one.grad is not None]
    # Full and sharded tensors cannot be reduced together.
    kinds = [[one for one in updated if isinstance(one, DTensor) is shared] for shared in (False, True)]
    gradients = [[one.grad for one in kind if one.grad is not None] for kind in kinds if kind]
    norms = [_full(nn.utils.get_total_norm(kind, foreach=True)) for kind in gradients]
    if not norms:
        return torch.zeros(())
    norm = torch.linalg.vector_norm(torch.stack(norms))
    for kind in kinds:
        if kind:
            nn.utils.clip_grads_with_norm_(kind, most, norm, foreach=True)
    return norm


def local(value: Tensor) -> Tensor:
    """Return this process's shard of a tensor; the full tensor if it is not sharded."""
    return value.to_local() if isinstance(value, DTensor) else value


def gathered(metric: Any, whole: Any) -> Any:
    """Return an unsharded metric with the weights of a sharded one; every process has to call it.

    ``whole`` is the unsharded copy in the first process and ``None`` in the others. These get the sharded metric back,
    which cannot run alone.
    """
    state = get_model_state_dict(metric, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    if whole is None:
        return metric
    whole.load_state_dict(state)
    return whole.to(metric.device)


def _sharded_modules(encoder: nn.Module) -> list[Any]:
    return [one for one in encoder.modules() if isinstance(one, FSDPModule)]


def _shard_like(value: Any, parameter: Tensor) -> Any:
    """Return this process's shard of a value that belongs to a parameter, such as a running mean of gradients."""
    if isinstance(parameter, DTensor) and isinstance(value, Tensor) and value.shape == parameter.shape:
        return distribute_tensor(value.to(parameter.device), parameter.device_mesh, parameter.placements)
    return value


def _full(value: Tensor) -> Tensor:
    return value.full_tensor() if isinstance(value, DTensor) else value


def gather_values(values: Tensor, joint: int) -> Tensor:
    """Return the values of the whole batch, of which this process has every ``world``-th row starting at its rank.

    A loss of these values is the same in every process. Rows of other processes are constants, and the gradient of the
    process's own rows is multiplied by ``world``. Distributed strategies average gradients over processes. The average
    thus equals the gradient of a single process with the whole batch of ``joint`` rows.
    """
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return values
    world, rank = torch.distributed.get_world_size(), torch.distributed.get_rank()
    if world == 1:
        return values
    most = -(-joint // world)
    padded = values.new_zeros(most, *values.shape[1:])
    padded[: len(values)] = values.detach()
    gathered = [torch.empty_like(padded) for _ in range(world)]
    torch.distributed.all_gather(gathered, padded)
    gathered[rank] = torch.cat([world * values - (world - 1) * values.detach(), padded[len(values) :]])
    return torch.stack(gathered, dim=1).flatten(0, 1)[:joint]
