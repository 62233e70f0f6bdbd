"""What tests run in several processes.

python gloo_jobs.py FOLDER JOB RANK     the job with the arguments of FOLDER/arguments.pt
"""

import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import distributed

WORLD = 2


def join(rank: int, folder: Path, job: str, arguments: tuple[Any, ...]) -> None:
    """Entry of each process: joins the group, runs the job named, and leaves its result in ``folder``."""
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=WORLD, timeout=timedelta(seconds=60)
    )
    try:
        torch.save(globals()[job](rank, *arguments), folder / f"result{rank}.pt")
        distributed.barrier()  # nobody leaves while another is still talking
    finally:
        distributed.destroy_process_group()
    # On a busy machine, threads of gloo can outlive the interpreter's own end, which then aborts after all is done.
    os._exit(0)


def tracked_mean(rank: int, batches: list[list[tuple[torch.Tensor, torch.Tensor]]]) -> dict[str, torch.Tensor]:
    """Corpus mean after tracking this process's share of each batch."""
    from textmover.modules.tokens.statistics import CorpusMean

    mean = CorpusMean(batches[0][0][0].shape[-1], momentum=0.9)
    for shares in batches:
        mean.track(*shares[rank])
    return {"mean": mean.mean, "count": mean.count}


def gathered_bert_scores(
    rank: int, encoder: str, pairs: list[tuple[str, str]], idf: bool, repeats: bool
) -> dict[str, torch.Tensor]:
    """Precision, recall and F1 of all pairs after each process has scored its share."""
    from textmover.metrics import TextMoverBERTScore

    metric = TextMoverBERTScore(encoder, idf=idf, device="cpu")
    update_with_share(metric, rank, pairs, repeats)
    metric._update_count = max(1, metric._update_count)  # a process without segments is meant, and not warned of
    return metric.compute()


def values_after_failures(rank: int, encoder: str, preds: list[str], target: list[str]) -> dict[str, torch.Tensor]:
    """Values of five pairs, a call refused in between, and the last two batches of each process under `Running`."""
    from torchmetrics.wrappers import Running

    from textmover.metrics import TextMoverBERTScore, TextMoverScore

    found = {}
    for at_each_step in (False, True):
        options: dict[str, Any] = {"device": "cpu", "backend": "torch", "dist_sync_on_step": at_each_step}
        for metric in (TextMoverScore("twmd", encoder=encoder, **options), TextMoverBERTScore(encoder, **options)):
            metric(preds[rank:3:WORLD], target[rank:3:WORLD])
            try:
                metric([1], ["x"])
            except TypeError:
                metric(preds[4 - rank :: WORLD], target[4 - rank :: WORLD])
            value = metric.compute()
            found[f"{type(metric).__name__} {at_each_step}"] = value["f1"] if isinstance(value, dict) else value
    running = Running(TextMoverScore("twmd", encoder=encoder, device="cpu", backend="torch"), window=2)
    for row in (4, rank, 2 + rank):
        running.update(preds[row : row + 1], target[row : row + 1])
    return {**found, "running": running.compute()}


def update_with_share(metric: Any, rank: int, pairs: list[tuple[str, str]], repeats: bool) -> None:
    """Update a metric with a process's share of the pairs, dealt as distributed samplers do."""
    share = list(range(rank, len(pairs), WORLD))
    if repeats and rank >= len(pairs) % WORLD > 0:
        share.append(rank - len(pairs) % WORLD)  # samplers that keep the processes level start again from the front
    for start in range(0, len(share), 100):
        rows = share[start : start + 100]
        hypotheses, references = [pairs[row][0] for row in rows], [pairs[row][1] for row in rows]
        metric.update(hypotheses, references, positions=rows if repeats else None)


def joint_gradients(rank: int, rows: int) -> list[torch.Tensor]:
    """Values, loss and gradients of a batch that is spread over the processes, gradients averaged as strategies do."""
    from textmover.training.sharding import gather_values

    inputs, targets, layer = joint_problem(rows)
    scores = gather_values(layer(inputs[rank::WORLD]).squeeze(1), rows)
    loss = joint_loss(scores, gather_values(targets[rank::WORLD], rows))
    loss.backward()
    gradients = [one.grad for one in layer.parameters()]
    for gradient in gradients:
        distributed.all_reduce(gradient)
        gradient /= WORLD
    return [scores.detach(), loss.detach(), *gradients]


def joint_problem(rows: int) -> tuple[torch.Tensor, torch.Tensor, torch.nn.Module]:
    """Inputs, targets and a layer, the same everywhere."""
    generator = torch.Generator().manual_seed(0)
    inputs, targets, weights = (
        torch.randn(*shape, dtype=torch.float64, generator=generator) for shape in ((rows, 3), (rows,), (1, 3))
    )
    layer = torch.nn.Linear(3, 1, dtype=torch.float64)
    layer.load_state_dict({"weight": weights, "bias": torch.zeros(1)})
    return inputs, targets, layer


def joint_loss(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """No mean over rows: it depends on all of them at once."""
    x, y = scores - scores.mean(), targets - targets.mean()
    return 1 - (x * y).sum() / (x.norm() * y.norm()) + scores.square().mean()


def clipped_shares(rank: int, weight: torch.Tensor, bias: torch.Tensor) -> dict[str, torch.Tensor]:
    """Norm and gradients after clipping; a weight is shared out, a bias is whole and has a gradient in each process."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    from textmover.training.sharding import average_gradients, clip_norm

    mesh = init_device_mesh("cpu", (WORLD,))
    shared = torch.nn.Parameter(distribute_tensor(torch.zeros_like(weight), mesh, [Shard(0)]))
    shared.grad = distribute_tensor(weight, mesh, [Shard(0)])
    whole = torch.nn.Parameter(torch.zeros_like(bias))
    whole.grad = 2 * rank * bias  # their mean is the bias
    average_gradients([shared, whole])
    norm = clip_norm([shared, whole], 2.0)
    return {"norm": norm, "weight": shared.grad.full_tensor(), "bias": whole.grad}


if __name__ == "__main__":
    folder, job, rank = sys.argv[1:]
    join(int(rank), Path(folder), job, torch.load(Path(folder, "arguments.pt"), weights_only=False))
