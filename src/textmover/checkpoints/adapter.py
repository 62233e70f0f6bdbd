"""Adapters: trained encoders stored as low-rank weight differences from their pretrained base.

The format does not depend on how the encoder was trained (all weights or LoRA). A changed matrix is stored as two
low-rank factors of its difference, a changed vector as its difference; unchanged weights take no space. The configured
rank is a mean: the storage budget is split between the matrices so that it keeps the most of what training changed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from textmover.checkpoints.checkpoint_files import CONFIG, check_entries
from textmover.checkpoints.encoder_state import encoder_prefix, split_state, trained_encoder
from textmover.modules.encoder.encoder_identity import base_of, identity_of, weights_fingerprint
from textmover.modules.encoder_parts import DIFFERENCE, untrained
from textmover.safe_reading import read_json
from textmover.types import InputError, SegmentMetric, check_choice, check_whole

LEFT, RIGHT, WHOLE = "@left", "@right", "@difference"
"""Suffixes of stored tensor names: left factor, right factor, full difference."""

ROWS = 8192  # matrix rows per chunk: a whole embedding matrix in float64 is large
MAX_RANK_FACTOR = 4  # maximum rank of one matrix, as a multiple of the configured rank
SINGULAR_TOLERANCE = 1e-12  # singular values below this fraction of the largest are dropped: rounding noise in float64


@dataclass(frozen=True)
class AdapterConfig:
    """Storage settings of an adapter.

    Attributes:
        rank: Mean rank of the differences, at least 1. All factors together take no more space than if each matrix had
            this rank; a single matrix gets at most :data:`MAX_RANK_FACTOR` times this rank.
        dtype: Data type of the stored tensors.

    Raises:
        InputError: If a value is invalid.
    """

    rank: int = 16
    dtype: Literal["float16", "float32"] = "float16"

    def __post_init__(self) -> None:
        check_whole("rank", self.rank)
        check_choice("dtype", self.dtype, ("float16", "float32"))


@dataclass(frozen=True)
class AdapterReport:
    """Rank, size and approximation error of a stored adapter."""

    base: str  # name of the base encoder
    sha256: str  # hash of the base's weights
    rank: int  # mean rank of the differences
    dtype: str  # data type of the stored tensors
    matrices: int  # number of matrices that differ from the base
    vectors: int  # number of vectors and scalars that differ from the base
    error: float  # relative error |D - stored D| / |D| (Frobenius) over the differences D of all matrices, 0 to 1
    largest_error: float  # largest relative error of one matrix; 1 if its difference is not stored
    matrix: str | None  # name of the matrix with the largest error; ``None`` if no matrix differs
    size: int  # total size of the folder's files in bytes


def adapter_report(folder: Path | str) -> AdapterReport | None:
    """Read the report of an adapter's folder; ``None`` for a checkpoint with full weights.

    Args:
        folder: Folder written by :func:`~textmover.checkpoints.saving.save_checkpoint`.
    """
    path = Path(folder) / CONFIG
    entries = read_json(path)
    if not isinstance(entries, dict) or "adapter" not in entries:
        return None
    keys = [one.name for one in fields(AdapterReport) if one.name not in ("base", "sha256", "size")]
    check_entries(path, entries, ["encoder.base.name", "encoder.base.sha256", *(f"adapter.{one}" for one in keys)])
    base, values = entries["encoder"]["base"], {name: entries["adapter"][name] for name in keys}
    size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
    return AdapterReport(base=base["name"], sha256=base["sha256"], size=size, **values)


def allocate_ranks(values: Mapping[str, Tensor], sizes: Mapping[str, int], rank: int) -> dict[str, int]:
    """Choose each matrix's rank to keep the most squared singular values within the space of an equal ``rank`` for all.

    ``values`` holds the singular values of each matrix in descending order; ``sizes`` the numbers stored per rank,
    ``m + n`` for an ``[m, n]`` matrix.
    """
    space = rank * sum(sizes.values())
    gains = [(float(one) ** 2 / sizes[name], name) for name, spectrum in values.items() for one in spectrum]
    ranks = dict.fromkeys(values, 0)
    for gain, name in sorted(gains, key=lambda one: -one[0]):
        if gain > 0 and sizes[name] <= space:
            space -= sizes[name]
            ranks[name] += 1
    return ranks


def _singular(matrix: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Return the ``most`` largest singular values in descending order and their vectors ``[min(m, n), r]``."""
    tall = matrix if matrix.shape[0] >= matrix.shape[1] else matrix.T
    squares, vectors = torch.linalg.eigh(tall.T @ tall)
    return squares[-most:].clamp(min=0).sqrt().flip(0), vectors[:, -most:].flip(1)


def _factors(matrix: Tensor, vectors: Tensor) -> tuple[Tensor, Tensor]:
    r"""Return factors ``[m, r]`` and ``[r, n]`` of the best rank-``r`` approximation (Eckart and Young 1936).

    Each factor is scaled by the square roots of the singular values, so that both fit into float16.
    """
    if matrix.shape[0] < matrix.shape[1]:
        left, right = _factors(matrix.T, vectors)
        return right.T, left.T
    left = matrix @ vectors
    values = left.norm(dim=0)
    mask = values > SINGULAR_TOLERANCE * values.max()
    root = values[mask].sqrt()
    return left[:, mask] / root, (vectors[:, mask] * root).T


def compress_difference(
    metric: SegmentMetric, state: Mapping[str, Tensor], entry: Mapping[str, Any], config: AdapterConfig
) -> tuple[dict[str, Tensor], dict[str, Any], dict[str, Any]]:
    """Convert a metric's state to adapter form: encoder weights become differences from the base, on the CPU.

    Returns:
        The state to write, and the ``encoder`` and ``adapter`` entries of ``config.json``.
    """
    before = untrained(trained_encoder(metric))
    base = base_of(before)
    assert base is not None
    trained, rest = split_state(metric, state)
    stored, measured = _differences(trained, before.state_dict(), config)
    after = apply_difference(before.state_dict(), stored)
    base = replace(base, weights=weights_fingerprint(before.state_dict()))
    encoder_entry = {
        **entry,
        "identity": identity_of(entry["identity"], base, weights_fingerprint(after)),
        "base": base.entry(),
        "stored": DIFFERENCE,
        "dtype": str(next(before.parameters()).dtype).removeprefix("torch."),
    }
    prefix = encoder_prefix(metric)
    new_state = {**rest, **{f"{prefix}{name}": one for name, one in stored.items()}}
    return new_state, encoder_entry, {"rank": config.rank, "dtype": config.dtype, **measured}


def apply_difference(before: Mapping[str, Tensor], stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Add an adapter's stored differences to the base weights, in float64."""
    weights = {name: tensor.detach().cpu() for name, tensor in before.items()}
    for name in stored:
        weight, separator, end = name.rpartition("@")
        if weight not in weights or f"{separator}{end}" not in (LEFT, RIGHT, WHOLE):
            raise InputError(f"Expected the adapter to change weights of its base, but got {name}: export it again.")
    for weight, old in weights.items():
        left, right, whole = (stored.get(f"{weight}{end}") for end in (LEFT, RIGHT, WHOLE))
        if left is None and right is None and whole is None:
            continue
        try:
            weights[weight] = _add_difference(old, left, right, whole)
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            shapes = [tuple(one.shape) for one in (left, right, whole) if one is not None]
            raise InputError(
                f"Expected tensors of the adapter for {weight} to fit its shape {tuple(old.shape)} in the base, but "
                f"got {shapes}: export it again."
            ) from error
    return weights


def restore_state(metric: SegmentMetric, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the full state of a metric that holds its base encoder, from that of :func:`compress_difference`."""
    stored, rest = split_state(metric, state)
    weights = apply_difference(trained_encoder(metric).state_dict(), stored)
    prefix = encoder_prefix(metric)
    return {**rest, **{f"{prefix}{name}": one for name, one in weights.items()}}


def _add_difference(old: Tensor, left: Tensor | None, right: Tensor | None, whole: Tensor | None) -> Tensor:
    if whole is not None:
        return (old.double() + whole.double().reshape(old.shape)).to(old.dtype)
    rows = old.flatten(1)
    if left is None or right is None or (len(left), right.shape[-1]) != tuple(rows.shape):
        raise ValueError("one factor without the other, or of another size")
    # Compute in float64 so that all processors round to the same weights.
    chunks = [
        (chunk.double() + factor.double() @ right.double()).to(old.dtype)
        for chunk, factor in zip(torch.split(rows, ROWS), torch.split(left, ROWS), strict=True)
    ]
    return torch.cat(chunks).reshape(old.shape)


def _differences(
    trained: Mapping[str, Tensor], before: Mapping[str, Tensor], config: AdapterConfig
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors to store for each changed weight, and the approximation errors."""
    if trained.keys() != before.keys():
        name = sorted(trained.keys() ^ before.keys())[0]
        raise InputError(
            f"Expected the encoder and its base to have the same weight names, but only one has {name}: merge or "
            "remove what training added."
        )
    changed = {
        name: difference
        for name, new in trained.items()
        if (difference := _difference(name, new, before[name].cpu())) is not None
    }
    matrices = {name: one.flatten(1) for name, one in changed.items() if one.ndim >= 2}
    svd = {name: _singular(one, MAX_RANK_FACTOR * config.rank) for name, one in matrices.items()}
    sizes = {name: sum(one.shape) for name, one in matrices.items()}
    ranks = allocate_ranks({name: values for name, (values, _) in svd.items()}, sizes, config.rank)
    dtype = getattr(torch, config.dtype)
    stored: dict[str, Tensor] = {}
    norms: dict[str, tuple[float, float]] = {}
    for name, difference in changed.items():
        tensors = {f"{name}{WHOLE}": difference}
        rank = ranks.get(name, 0)
        if name in matrices and rank * sizes[name] < difference.numel():
            names = (f"{name}{LEFT}", f"{name}{RIGHT}")
            tensors = dict(zip(names, _factors(matrices[name], svd[name][1][:, :rank]), strict=True)) if rank else {}
        tensors = {key: one.to(dtype).contiguous() for key, one in tensors.items()}
        if not all(bool(one.isfinite().all()) for one in tensors.values()):
            raise InputError(
                f"Expected the difference of {name} to fit into {config.dtype}, but it is too large: choose float32."
            )
        stored.update(tensors)
        if name in matrices:
            rest = apply_difference({name: torch.zeros_like(difference)}, tensors)[name] - difference
            norms[name] = float(rest.norm()), float(difference.norm())
    return stored, _error_summary(norms, len(changed) - len(matrices))


def _difference(name: str, new: Tensor, old: Tensor) -> Tensor | None:
    """Return how training changed a weight, in float64; ``None`` if it is unchanged."""
    if new.shape != old.shape or not (new.is_floating_point() or torch.equal(new, old)):
        raise InputError(
            f"Expected {name} to have the shape {tuple(old.shape)} of its base, but got {tuple(new.shape)}: save the "
            "metric in full."
        )
    if torch.equal(new, old):
        return None
    difference = new.double() - old.double()
    if not bool(difference.isfinite().all()):
        raise InputError(f"Expected finite weights, but {name} holds NaN or infinity: take an earlier checkpoint.")
    return difference


def _error_summary(norms: Mapping[str, tuple[float, float]], vectors: int) -> dict[str, Any]:
    """Summarize approximation errors from each matrix's norms: of the residual and of the full difference."""
    errors = {name: rest / whole for name, (rest, whole) in norms.items()}
    worst = max(errors, key=lambda name: errors[name], default=None)
    rest, whole = (math.hypot(*(pair[side] for pair in norms.values())) for side in (0, 1))
    return {
        "matrices": len(errors),
        "vectors": vectors,
        "error": rest / whole if whole else 0.0,
        "largest_error": 0.0 if worst is None else errors[worst],
        "matrix": worst,
    }
