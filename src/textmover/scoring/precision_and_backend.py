"""Arithmetic of the encoder while scoring, and the back-end that runs it; the layers behind it always use float32.

``exact`` is float32 within :data:`~textmover.scoring.backends.preparation.EXACT_BOUND` of torch, ``fast`` is bfloat16
if the hardware supports it, ``int8`` uses 8-bit products on the CPU (8-bit weights with AMX), and ``auto`` selects the
fastest of them within :data:`AUTO_BOUND`. ``backend="auto"`` selects the fastest installed back-end.
"""

from __future__ import annotations

import copy
import logging
from pathlib import Path
from typing import Literal

import torch

from textmover.modules.score_deviation import probe_scores
from textmover.scoring.backends import names
from textmover.scoring.backends.names import EXPORTED, BackendError, UnfitError, check_backend
from textmover.scoring.backends.preparation import set_backend
from textmover.types import InputError, SegmentMetric

logger = logging.getLogger(__name__)

Precision = Literal["exact", "fast", "int8", "auto"]

AUTO_BOUND = 0.01  # maximum deviation of uncalibrated scores of the probe pairs that `auto` accepts

_WIDE = {
    "exact": ("openvino", "torch", "onnxruntime"),
    "fast": ("openvino", "torch"),
    "int8": ("openvino", "onnxruntime"),
}

ORDERS = {"": {**_WIDE, "int8": ("onnxruntime", "openvino")}, "AVX-512": dict(_WIDE), "AMX": dict(_WIDE)}
"""Back-ends on the CPU by instruction set and precision, fastest first as measured."""

CAN = {
    "exact": ("torch", "torch-compile", "openvino", "onnxruntime"),
    "fast": ("torch", "torch-compile", "openvino"),
    "int8": ("openvino", "onnxruntime"),
}
"""Back-ends that support a precision."""

_LOGGED: set[str] = set()  # reasons already logged in this process: a broken package fails for every metric


def _processor() -> str:
    """Return the widest instruction set of the CPU that affects which back-end is fastest."""
    if torch.cpu._is_amx_tile_supported():
        return "AMX"
    return "AVX-512" if torch.backends.cpu.get_cpu_capability() == "AVX512" else ""


def has_bfloat16(device: torch.device) -> bool:
    """Return whether a device has hardware support for bfloat16 matrix products."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type == "cpu":
        # CPU flags; not all supported versions of torch have a public name for them.
        return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
    return False


def has_int8(device: torch.device) -> bool:
    """Return whether a CPU has instructions for 8-bit dot products."""
    return device.type == "cpu" and bool(torch.cpu._is_vnni_supported() or torch.cpu._is_amx_tile_supported())


def apply_precision(
    metric: SegmentMetric, precision: Precision, backend: str = "auto", checkpoint: Path | None = None
) -> SegmentMetric:
    """Set a metric's arithmetic and back-end, in place; ``auto`` may return a copy instead of casting its weights."""
    check_backend(backend, metric.device)
    if precision == "auto":
        return _fastest_close(metric, backend, checkpoint)
    if backend != "auto" and backend not in CAN[precision]:  # checked before the hardware
        raise InputError(
            f"Expected a back-end with precision {precision!r}, but {backend!r} has none: choose "
            f"{' or '.join(map(repr, CAN[precision]))}, or another precision."
        )
    if precision == "fast" and not has_bfloat16(metric.device):
        logger.warning("No bfloat16 arithmetic on this %s: precision 'fast' runs in float32.", metric.device.type)
        precision = "exact"
    _run_on_first(metric, precision, _candidates(metric, precision, backend), checkpoint)
    return metric


def _candidates(metric: SegmentMetric, precision: str, backend: str) -> tuple[str, ...]:
    if backend != "auto":
        return (backend,)
    on_cpu, has_encoder = metric.device.type == "cpu", metric.runnable_encoder is not None
    ordered = ORDERS[_processor()][precision]
    usable = names.installed() if on_cpu and has_encoder else set(ordered).difference(EXPORTED)
    usable_in_order = tuple(name for name in ordered if name in usable)
    if not usable_in_order and not has_encoder:
        raise InputError(
            f"Expected precision {precision!r} with an encoder that a back-end can run, but this metric has none "
            "(static vectors are only looked up, and other rounding could move a score of RoMe by a whole edit): "
            "choose 'exact'."
        )
    if not usable_in_order and not on_cpu:
        raise InputError(
            f"Expected precision {precision!r} on the CPU, which alone has it, but got the device {metric.device}: set "
            "device='cpu', or choose another precision."
        )
    if not usable_in_order:
        raise InputError(
            f"Expected a back-end with precision {precision!r}, but none is installed: pip install "
            f'"textmover[{names.MAKING[ordered[0], precision][0]}]", or choose another precision.'
        )
    return usable_in_order


def _run_on_first(metric: SegmentMetric, precision: str, backends: tuple[str, ...], checkpoint: Path | None) -> None:
    first, *remaining = backends
    try:
        if precision == "fast" and first not in EXPORTED:
            metric.cast_encoder(torch.bfloat16)
        set_backend(metric, first, precision, checkpoint)
    except BackendError as error:
        if not remaining:
            raise
        _log_skipped(f"Backend {first} is skipped for {remaining[0]}", error)
        _run_on_first(metric, precision, tuple(remaining), checkpoint)


def _log_skipped(event: str, error: BackendError) -> None:
    """Log why a back-end is skipped: a warning for a fault, once per reason, else an info message."""
    reason = str(error)
    routine = isinstance(error, UnfitError) or reason in _LOGGED
    logger.log(logging.INFO if routine else logging.WARNING, "%s: %s", event, reason)
    _LOGGED.add(reason)


def _fastest_close(metric: SegmentMetric, backend: str, checkpoint: Path | None) -> SegmentMetric:
    """Return the metric with the fastest of bfloat16, int8 and float32 whose scores are close to float32 on torch."""
    if metric.needs_fit:
        raise InputError("Expected fitted statistics for precision 'auto': fit them first, or name a precision.")
    trials: list[tuple[str, str]] = []
    if has_bfloat16(metric.device) and backend in ("auto", *CAN["fast"]):
        trials += [("fast", name) for name in _candidates(metric, "fast", backend)]
    if metric.device.type == "cpu" and metric.runnable_encoder is not None:
        # Without 8-bit instructions, int8 on OpenVINO is not faster than float32.
        faster = {"onnxruntime": True, "openvino": has_int8(metric.device)}
        installed = [name for name in ORDERS[_processor()]["int8"] if name in names.installed()]
        trials += [("int8", name) for name in installed if faster[name]]
    if _processor() == "AVX-512":  # on other CPUs bfloat16 is at least as fast
        trials.sort(key=lambda trial: trial != ("int8", "openvino"))
    for precision, name in trials:
        if backend in ("auto", name):
            close = _close(metric, precision, name, checkpoint) if name in EXPORTED else _close_cast(metric, name)
            if close is not None:
                return close
    return apply_precision(metric, "exact", backend, checkpoint)


def _close_cast(metric: SegmentMetric, backend: str) -> SegmentMetric | None:
    """Return a copy of the metric with bfloat16 weights, if its scores are close."""
    faster = copy.deepcopy(metric)
    faster.cast_encoder(torch.bfloat16)
    if faster.signature == metric.signature:  # nothing was cast, as with static vectors
        return None
    exact = probe_scores(metric)
    set_backend(faster, backend, "fast")
    return faster if _accepted(float((probe_scores(faster) - exact).abs().max()), "fast", backend) else None


def _close(metric: SegmentMetric, precision: str, backend: str, checkpoint: Path | None) -> SegmentMetric | None:
    """Attach a back-end that exports a graph; return the metric if its scores are close, else restore torch."""
    try:
        deviation = set_backend(metric, backend, precision, checkpoint)
    except BackendError as error:
        _log_skipped(f"Precision auto: {precision} on {backend} is passed over", error)
        return None
    if deviation is not None and _accepted(deviation, precision, backend):
        return metric
    set_backend(metric, "torch", "exact")
    return None


def _accepted(deviation: float, precision: str, backend: str) -> bool:
    accepted = deviation <= AUTO_BOUND
    logger.info(
        "Precision auto: %s on %s deviates by %.4f on the probe pairs, so it is %s.",
        precision, backend, deviation, "taken" if accepted else "passed over",
    )  # fmt: skip
    return accepted
