"""The arithmetic of the encoder while scoring, and the back-end that runs it; everything behind it stays float32.

``exact`` is float32 within :data:`~textmover.scoring.backends.preparation.EXACT_BOUND` of torch, ``fast`` bfloat16
where the hardware has it, ``int8`` products in 8 bits on the CPU, ``auto`` the fastest of them within
:data:`AUTO_BOUND`. ``backend="auto"`` takes the fastest back-end that is installed.
"""

from __future__ import annotations

import copy
import logging
from pathlib import Path
from typing import Literal

import torch

from textmover.modules.probe_sentences import probe_scores
from textmover.scoring.backends import EXPORTED, BackendError, attach, check_backend, names
from textmover.scoring.backends.names import UnfitError
from textmover.types import InputError, SegmentMetric

logger = logging.getLogger(__name__)

Precision = Literal["exact", "fast", "int8", "auto"]

AUTO_BOUND = 0.01  # largest deviation of an uncalibrated score on the probe pairs that `auto` accepts

_WIDE = {
    "exact": ("openvino", "torch", "onnxruntime"),
    "fast": ("openvino", "torch"),
    "int8": ("openvino", "onnxruntime"),
}

ORDERS = {"": {**_WIDE, "int8": ("onnxruntime", "openvino")}, "AVX-512": dict(_WIDE), "AMX": dict(_WIDE)}
"""Back-ends on the CPU by the processor's instructions and by precision, the fastest first, as measured."""

CAN = {
    "exact": ("torch", "torch-compile", "openvino", "onnxruntime"),
    "fast": ("torch", "torch-compile", "openvino"),
    "int8": ("openvino", "onnxruntime"),
}
"""All back-ends that have a precision."""

_SAID: set[str] = set()  # warnings already given in this process, since a broken package is broken for each metric


def _processor() -> str:
    """The widest instructions that this processor has, as far as they decide which back-end is fastest."""
    if torch.cpu._is_amx_tile_supported():
        return "AMX"
    return "AVX-512" if torch.backends.cpu.get_cpu_capability() == "AVX512" else ""


def has_bfloat16(device: torch.device) -> bool:
    """Return whether matrix products in bfloat16 run in hardware on a device."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type == "cpu":
        # The flags of the processor; torch has no public name for them in all the versions that we support.
        return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
    return False


def has_int8(device: torch.device) -> bool:
    """Return whether a processor has instructions for sums of products in 8 bits."""
    return device.type == "cpu" and bool(torch.cpu._is_vnni_supported() or torch.cpu._is_amx_tile_supported())


def apply_precision(
    metric: SegmentMetric, precision: Precision, backend: str = "auto", beside: Path | None = None
) -> SegmentMetric:
    """A metric with the wanted arithmetic and back-end, changed in place; ``auto`` leaves its weights as they are."""
    check_backend(backend, metric.device)
    if precision == "auto":
        return _fastest_close(metric, backend, beside)
    if backend != "auto" and backend not in CAN[precision]:  # on any processor
        raise InputError(
            f"Expected a back-end with precision {precision!r}, but {backend!r} has none: choose "
            f"{' or '.join(map(repr, CAN[precision]))}, or another precision."
        )
    if precision == "fast" and not has_bfloat16(metric.device):
        logger.warning("No bfloat16 arithmetic on this %s: precision 'fast' runs in float32.", metric.device.type)
        precision = "exact"
    _run_on_first(metric, precision, _candidates(metric, precision, backend), beside)
    return metric


def _candidates(metric: SegmentMetric, precision: str, backend: str) -> tuple[str, ...]:
    if backend != "auto":
        return (backend,)
    on_cpu, has_encoder = metric.device.type == "cpu", metric.runnable_encoder is not None
    ordered = ORDERS[_processor()][precision]
    usable = names.installed() if on_cpu and has_encoder else set(ordered).difference(EXPORTED)
    found = tuple(name for name in ordered if name in usable)
    if not found and not has_encoder:
        raise InputError(
            f"Expected precision {precision!r} with an encoder that a back-end can run, but this metric has none "
            "(static vectors are only looked up, and other rounding could move a score of RoMe by a whole edit): "
            "choose 'exact'."
        )
    if not found and not on_cpu:
        raise InputError(
            f"Expected precision {precision!r} on the CPU, which alone has it, but got the device {metric.device}: set "
            "device='cpu', or choose another precision."
        )
    if not found:
        raise InputError(
            f"Expected a back-end with precision {precision!r}, but none is installed: pip install "
            f'"textmover[{names.MAKING[ordered[0], precision][0]}]", or choose another precision.'
        )
    return found


def _run_on_first(metric: SegmentMetric, precision: str, backends: tuple[str, ...], beside: Path | None) -> None:
    first, *others = backends
    try:
        if precision == "fast" and first not in EXPORTED:
            metric.cast_encoder(torch.bfloat16)
        attach(metric, first, precision, beside)
    except BackendError as error:
        if not others:
            raise
        _pass_over(f"Backend {first} is passed over for {others[0]}", error)
        _run_on_first(metric, precision, tuple(others), beside)


def _pass_over(what: str, error: BackendError) -> None:
    """Say why a back-end is left out: as a warning where something is wrong with it, once for each reason."""
    reason = str(error)
    routine = isinstance(error, UnfitError) or reason in _SAID
    logger.log(logging.INFO if routine else logging.WARNING, "%s: %s", what, reason)
    _SAID.add(reason)


def _fastest_close(metric: SegmentMetric, backend: str, beside: Path | None) -> SegmentMetric:
    """The metric with the fastest of bfloat16, int8 and float32 that stays close to float32 on torch."""
    if metric.needs_fit:
        raise InputError("Expected fitted statistics for precision 'auto': fit them first, or name a precision.")
    trials: list[tuple[str, str]] = []
    if has_bfloat16(metric.device) and backend in ("auto", *CAN["fast"]):
        trials += [("fast", name) for name in _candidates(metric, "fast", backend)]
    if metric.device.type == "cpu" and metric.runnable_encoder is not None:
        # Without instructions for it, int8 on OpenVINO is not faster than float32.
        faster = {"onnxruntime": True, "openvino": has_int8(metric.device)}
        there = [name for name in ORDERS[_processor()]["int8"] if name in names.installed()]
        trials += [("int8", name) for name in there if faster[name]]
    if _processor() == "AVX-512":  # else int8 is not faster where there is hardware for bfloat16
        trials.sort(key=lambda trial: trial != ("int8", "openvino"))
    for precision, name in trials:
        if backend in ("auto", name):
            close = _close(metric, precision, name, beside) if name in EXPORTED else _close_cast(metric, name)
            if close is not None:
                return close
    return apply_precision(metric, "exact", backend, beside)


def _close_cast(metric: SegmentMetric, backend: str) -> SegmentMetric | None:
    """A copy of the metric with weights in bfloat16, if it stays close."""
    faster = copy.deepcopy(metric)
    faster.cast_encoder(torch.bfloat16)
    if faster.signature == metric.signature:  # nothing to cast, as with static vectors
        return None
    exact = probe_scores(metric)
    attach(faster, backend, "fast")
    return faster if _accepted(float((probe_scores(faster) - exact).abs().max()), "fast", backend) else None


def _close(metric: SegmentMetric, precision: str, backend: str, beside: Path | None) -> SegmentMetric | None:
    """The metric on a back-end with a graph of its own, if that can run it and stays close."""
    try:
        deviation = attach(metric, backend, precision, beside)
    except BackendError as error:
        _pass_over(f"Precision auto: {precision} on {backend} is passed over", error)
        return None
    if deviation is not None and _accepted(deviation, precision, backend):
        return metric
    attach(metric, "torch", "exact")
    return None


def _accepted(deviation: float, precision: str, backend: str) -> bool:
    taken = deviation <= AUTO_BOUND
    logger.info(
        "Precision auto: %s on %s deviates by %.4f on the probe pairs, so it is %s.",
        precision, backend, deviation, "taken" if taken else "passed over",
    )  # fmt: skip
    return taken
