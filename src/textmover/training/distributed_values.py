"""Values of a batch that is spread over several processes, as if one process had computed them all."""

from __future__ import annotations

import torch
from torch import Tensor


def joint_values(values: Tensor, joint: int) -> Tensor:
    """The values of the whole batch, of which this process has every ``world``-th row from its rank on.

    A loss of what is returned is the same in every process, and the mean over the processes of its gradients, which
    distributed strategies take, is the gradient of that loss in a single process with the whole batch: the rows of the
    other processes are constants here, and the gradient of the own rows is ``world`` times as large.

    Args:
        values: Own rows ``[b, …]``, with gradients.
        joint: Rows of the whole batch, ``B``.

    Returns:
        All rows ``[B, …]``; ``values`` itself where there is one process only.
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
