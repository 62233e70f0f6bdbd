"""Adapters: an encoder stored as the low-rank difference from the pretrained one that its training started from.

What is stored does not depend on how the encoder was trained: all its weights or LoRA's factors. A matrix becomes the
factors of its difference, a vector its difference, and what training left alone takes no space. The rank is a mean: the
space of all matrices is dealt out so that it keeps the most of what training changed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from textmover.checkpoints.encoder_weights import encoder_prefix, split_state, trained_encoder
from textmover.checkpoints.files import CONFIG, check_entries
from textmover.modules.assembly import DIFFERENCE, untrained
from textmover.modules.encoder.encoder_identity import base_of, identity_of, weights_print
from textmover.safe_reading import read_json
from textmover.types import InputError, SegmentMetric, check_choice, check_whole

LEFT, RIGHT, WHOLE = "@left", "@right", "@difference"
"""Ends of the names under which a weight's factors, or its whole difference, are stored."""

ROWS = 8192  # rows of a matrix that are worked on at a time, since an embedding in float64 is large
SPREAD = 4  # largest rank of a single matrix, in mean ranks
NOTHING = 1e-12  # singular values below this share of the largest add nothing in float64


@dataclass(frozen=True)
class AdapterConfig:
    """Storage of an encoder's difference from its base.

    Attributes:
        rank: Rank of the differences, at least 1: the factors of all matrices together take no more space than if each
            had this rank. A single one gets up to :data:`SPREAD` times as much.
        dtype: Type of the stored numbers.

    Raises:
        InputError: If a value does not fit.
    """

    rank: int = 16
    dtype: Literal["float16", "float32"] = "float16"

    def __post_init__(self) -> None:
        check_whole("rank", self.rank)
        check_choice("dtype", self.dtype, ("float16", "float32"))


@dataclass(frozen=True)
class AdapterReport:
    """Figures of a stored adapter."""

    base: str  # name of the base encoder
    sha256: str  # hash of the base's weights
    rank: int  # of the differences, on the mean
    dtype: str  # of the stored numbers
    matrices: int  # that differ from the base
    vectors: int  # vectors and numbers that do
    error: float  # |D - stored D| / |D| (Frobenius) of all matrices' differences D together, 0 to 1
    largest_error: float  # of a single matrix; 1 where its change was not worth the space
    matrix: str | None  # that has it; ``None`` where no matrix differs
    size: int  # of all files of the folder, in bytes


def adapter_report(folder: Path | str) -> AdapterReport | None:
    """Read the report of an adapter's folder; ``None`` for a checkpoint with full weights.

    Args:
        folder: What :func:`~textmover.checkpoints.saving.save_checkpoint` wrote.
    """
    path = Path(folder) / CONFIG
    entries = read_json(path)
    if not isinstance(entries, dict) or "adapter" not in entries:
        return None
    measured = [one.name for one in fields(AdapterReport) if one.name not in ("base", "sha256", "size")]
    check_entries(path, entries, ["encoder.base.name", "encoder.base.sha256", *(f"adapter.{one}" for one in measured)])
    base, told = entries["encoder"]["base"], {name: entries["adapter"][name] for name in measured}
    size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
    return AdapterReport(base=base["name"], sha256=base["sha256"], size=size, **told)


def spread_ranks(values: Mapping[str, Tensor], sizes: Mapping[str, int], rank: int) -> dict[str, int]:
    """Ranks of matrices that keep the most of their squares in the space that an equal rank would take.

    ``values`` are the singular values of each matrix, the largest first; ``sizes`` what a rank of it takes, ``m + n``.
    """
    space = rank * sum(sizes.values())
    gains = [(float(one) ** 2 / sizes[name], name) for name, given in values.items() for one in given]
    ranks = dict.fromkeys(values, 0)
    for gain, name in sorted(gains, key=lambda one: -one[0]):
        if gain > 0 and sizes[name] <= space:
            space -= sizes[name]
            ranks[name] += 1
    return ranks


def _singular(matrix: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """The largest singular values of a matrix, in falling order, and their vectors ``[min(m, n), r]``."""
    short = matrix if matrix.shape[0] >= matrix.shape[1] else matrix.T
    squares, vectors = torch.linalg.eigh(short.T @ short)
    return squares[-most:].clamp(min=0).sqrt().flip(0), vectors[:, -most:].flip(1)


def _factors(matrix: Tensor, vectors: Tensor) -> tuple[Tensor, Tensor]:
    r"""The factors ``[m, r]`` and ``[r, n]`` of the nearest matrix of a rank (Eckart and Young 1936).

    Balanced by the roots of the singular values, both stay within float16.
    """
    if matrix.shape[0] < matrix.shape[1]:
        left, right = _factors(matrix.T, vectors)
        return right.T, left.T
    left = matrix @ vectors
    values = left.norm(dim=0)
    kept = values > NOTHING * values.max()
    root = values[kept].sqrt()
    return left[:, kept] / root, (vectors[:, kept] * root).T


def as_adapter(
    metric: SegmentMetric, state: Mapping[str, Tensor], entry: Mapping[str, Any], config: AdapterConfig
) -> tuple[dict[str, Tensor], dict[str, Any], dict[str, Any]]:
    """A metric's state on the CPU with its encoder as the difference from its base.

    Returns:
        The state to write, the ``encoder`` entry of ``config.json`` that goes with it, and the ``adapter`` entry.
    """
    before = untrained(trained_encoder(metric))
    base = base_of(before)
    if base is None:
        raise RuntimeError("Expected the untrained encoder to know what it is, but it does not.")
    trained, rest = split_state(metric, state)
    stored, measured = _differences(trained, before.state_dict(), config)
    after = restore(before.state_dict(), stored)
    base = replace(base, weights=weights_print(before.state_dict()))
    told = {
        **entry,
        "identity": identity_of(entry["identity"], base, weights_print(after)),
        "base": base.entry(),
        "stored": DIFFERENCE,
        "dtype": str(next(before.parameters()).dtype).removeprefix("torch."),
    }
    prefix = encoder_prefix(metric)
    whole = {**rest, **{f"{prefix}{name}": one for name, one in stored.items()}}
    return whole, told, {"rank": config.rank, "dtype": config.dtype, **measured}


def restore(before: Mapping[str, Tensor], stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights from those of the base and what an adapter stores, summed in float64."""
    found = {name: tensor.detach().cpu() for name, tensor in before.items()}
    for name in stored:
        weight, at, end = name.rpartition("@")
        if weight not in found or f"{at}{end}" not in (LEFT, RIGHT, WHOLE):
            raise InputError(f"Expected an adapter of weights that its base has, but got {name}: export it again.")
    for weight, old in found.items():
        left, right, whole = (stored.get(f"{weight}{end}") for end in (LEFT, RIGHT, WHOLE))
        if left is None and right is None and whole is None:
            continue
        try:
            found[weight] = _added(old, left, right, whole)
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            shapes = [tuple(one.shape) for one in (left, right, whole) if one is not None]
            raise InputError(
                f"Expected what the adapter holds of {weight} to fit the base's shape {tuple(old.shape)}, but got "
                f"{shapes}: export it again."
            ) from error
    return found


def restore_state(metric: SegmentMetric, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The whole state of a metric with the weights of its base, from what :func:`as_adapter` made of it."""
    stored, rest = split_state(metric, state)
    weights = restore(trained_encoder(metric).state_dict(), stored)
    prefix = encoder_prefix(metric)
    return {**rest, **{f"{prefix}{name}": one for name, one in weights.items()}}


def _added(old: Tensor, left: Tensor | None, right: Tensor | None, whole: Tensor | None) -> Tensor:
    if whole is not None:
        return (old.double() + whole.double().reshape(old.shape)).to(old.dtype)
    rows = old.flatten(1)
    if left is None or right is None or (len(left), right.shape[-1]) != tuple(rows.shape):
        raise ValueError("one factor without the other, or of another size")
    # float64 throughout, so that other processors round to the same weights.
    parts = [
        (part.double() + factor.double() @ right.double()).to(old.dtype)
        for part, factor in zip(torch.split(rows, ROWS), torch.split(left, ROWS), strict=True)
    ]
    return torch.cat(parts).reshape(old.shape)


def _differences(
    trained: Mapping[str, Tensor], before: Mapping[str, Tensor], config: AdapterConfig
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Stored matrices of each weight that differs, and their accuracy."""
    if trained.keys() != before.keys():
        other = sorted(trained.keys() ^ before.keys())[0]
        raise InputError(
            f"Expected an encoder with the weights of its base, but they differ by {other}: merge or remove what "
            "training added to it."
        )
    changed = {
        name: difference
        for name, new in trained.items()
        if (difference := _difference(name, new, before[name].cpu())) is not None
    }
    matrices = {name: one.flatten(1) for name, one in changed.items() if one.ndim >= 2}
    found = {name: _singular(one, SPREAD * config.rank) for name, one in matrices.items()}
    sizes = {name: sum(one.shape) for name, one in matrices.items()}
    ranks = spread_ranks({name: values for name, (values, _) in found.items()}, sizes, config.rank)
    dtype = getattr(torch, config.dtype)
    stored: dict[str, Tensor] = {}
    lost: dict[str, tuple[float, float]] = {}
    for name, difference in changed.items():
        kept = {f"{name}{WHOLE}": difference}
        rank = ranks.get(name, 0)
        if name in matrices and rank * sizes[name] < difference.numel():
            ends = (f"{name}{LEFT}", f"{name}{RIGHT}")
            kept = dict(zip(ends, _factors(matrices[name], found[name][1][:, :rank]), strict=True)) if rank else {}
        kept = {key: one.to(dtype).contiguous() for key, one in kept.items()}
        if not all(bool(one.isfinite().all()) for one in kept.values()):
            raise InputError(
                f"Expected the difference of {name} to fit into {config.dtype}, but it is too large: choose float32."
            )
        stored.update(kept)
        if name in matrices:
            rest = restore({name: torch.zeros_like(difference)}, kept)[name] - difference
            lost[name] = float(rest.norm()), float(difference.norm())
    return stored, _measured(lost, len(changed) - len(matrices))


def _difference(name: str, new: Tensor, old: Tensor) -> Tensor | None:
    """Change of a weight by training, in float64; ``None`` if there is none."""
    if new.shape != old.shape or not (new.is_floating_point() or torch.equal(new, old)):
        raise InputError(
            f"Expected {name} to have the shape {tuple(old.shape)} of its base, but got {tuple(new.shape)}: save the "
            "metric in full."
        )
    if torch.equal(new, old):
        return None
    difference = new.double() - old.double()
    if not bool(difference.isfinite().all()):
        raise InputError(f"Expected finite weights, but {name} holds others: take an earlier checkpoint.")
    return difference


def _measured(lost: Mapping[str, tuple[float, float]], vectors: int) -> dict[str, Any]:
    """Accuracy of stored matrices, from the norms of the loss and of the original."""
    errors = {name: rest / whole for name, (rest, whole) in lost.items()}
    worst = max(errors, key=lambda name: errors[name], default=None)
    rest, whole = (math.hypot(*(pair[side] for pair in lost.values())) for side in (0, 1))
    return {
        "matrices": len(errors),
        "vectors": vectors,
        "error": rest / whole if whole else 0.0,
        "largest_error": 0.0 if worst is None else errors[worst],
        "matrix": worst,
    }
