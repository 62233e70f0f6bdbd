"""From a metric to a back-end that runs its encoder: find the artefact or make it, and measure how far it deviates."""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch

from textmover.scoring.backends import artefacts, onnxruntime, openvino
from textmover.scoring.backends.artefacts import Artefact, Wanted
from textmover.scoring.backends.compiled import CompiledRunner
from textmover.scoring.backends.graph import graph_limit
from textmover.scoring.backends.names import EXPORTED, BackendError, lacking, version
from textmover.scoring.backends.runner import ArtefactRunner
from textmover.scoring.probes import PROBES, probe_scores, probe_states
from textmover.types import EncoderRunner, RunnableEncoder, SegmentMetric

__all__ = ["EXACT_BOUND", "Prepared", "attach", "prepare"]

logger = logging.getLogger(__name__)

EXACT_BOUND = 1e-5
"""Largest deviation from torch of an uncalibrated score on the probe pairs with which a back-end is exact."""


MODULES: Mapping[str, Any] = {"openvino": openvino, "onnxruntime": onnxruntime}
"""What exports a graph and what runs it, by back-end."""


class Prepared(NamedTuple):
    """A back-end for one metric.

    Attributes:
        runner: Runs its encoder.
        deviation: Largest deviation from torch of an uncalibrated score on the probe pairs; ``None`` where the metric
            lacks statistics.
        states: Largest deviation of a hidden state, as a share of the largest; ``None`` where nothing was exported.
    """

    runner: EncoderRunner
    deviation: float | None
    states: float | None


def attach(metric: SegmentMetric, backend: str, precision: str, beside: Path | None = None) -> float | None:
    """Let a back-end run a metric's encoder.

    Args:
        metric: The metric, with weights in float32 on its device; it is changed in place.
        backend: ``torch``, ``torch-compile``, ``openvino`` or ``onnxruntime``.
        precision: ``exact``, ``fast`` or ``int8``; ``torch`` has ``exact`` alone.
        beside: A checkpoint's folder, whose artefacts are looked at first.

    Returns:
        Largest deviation from torch of an uncalibrated score on the probe pairs, 0 for torch itself; ``None`` where the
        metric lacks statistics.

    Raises:
        BackendError: If it cannot run this encoder, or is not exact where it has to be. The metric runs on torch then.
    """
    if metric.runnable_encoder is not None:
        metric.runnable_encoder.run_with(None)
    if backend == "torch":
        return 0.0
    encoder = _encoder(metric, backend)
    prepared = _compiled(metric, encoder) if backend not in EXPORTED else _ready(metric, backend, precision, beside)
    if precision == "exact":
        _check(prepared, backend)
    encoder.run_with(prepared.runner)
    return prepared.deviation


def prepare(metric: SegmentMetric, backend: str, precision: str, folder: Path) -> Prepared:
    """Write an artefact into a checkpoint.

    Args:
        metric: The metric, on the CPU.
        backend: ``openvino`` or ``onnxruntime``.
        precision: ``exact`` or ``int8``.
        folder: The checkpoint's folder.

    Returns:
        What was made, with its deviations.

    Raises:
        BackendError: If it cannot be made, or is not exact where it has to be.
    """
    encoder = _encoder(metric, backend)
    encoder.run_with(None)
    wanted = _wanted(encoder, backend, precision)
    _check_packages(wanted)
    target = folder / artefacts.FOLDER / wanted.name
    target.mkdir(parents=True)
    artefacts.write(wanted, target, functools.partial(_fill, metric, wanted))
    found = artefacts.find(target, wanted)
    if found is None:
        raise RuntimeError(f"Expected {target} to hold the artefact that was just written, but it does not.")
    prepared = Prepared(_runner(found, wanted, precision), found.deviation, found.states)
    if precision == "exact":
        _check(prepared, backend)
    return prepared


def _encoder(metric: SegmentMetric, backend: str) -> RunnableEncoder:
    encoder = metric.runnable_encoder
    if encoder is None:
        raise BackendError(
            f"Expected an encoder for backend {backend!r} to run, but static vectors are only looked up: "
            "set backend='torch'."
        )
    dtype = next(encoder.graph().parameters()).dtype
    if backend in EXPORTED and dtype != torch.float32:
        raise BackendError(
            f"Expected weights in float32 for backend {backend!r}, but got {str(dtype).removeprefix('torch.')}: "
            "leave out `dtype` and choose a precision, or set backend='torch'."
        )
    return encoder


def _wanted(encoder: RunnableEncoder, backend: str, precision: str) -> Wanted:
    # bfloat16 is arithmetic, not another graph.
    kept = "int8" if precision == "int8" else "exact"
    return Wanted(backend, version(backend), kept, artefacts.encoder_hash(encoder), encoder.computed)


def _ready(metric: SegmentMetric, backend: str, precision: str, beside: Path | None) -> Prepared:
    """The runner of an artefact that was found or made, with its deviation for this metric."""
    encoder = _encoder(metric, backend)
    wanted = _wanted(encoder, backend, precision)
    kept = artefacts.cache_folder() / wanted.encoder[:16] / wanted.name
    places = [kept] if beside is None else [beside / artefacts.FOLDER / wanted.name, kept]
    for place in places:
        found = artefacts.find(place, wanted)
        runner = None if found is None else _usable(found, wanted, precision)
        if found is not None and runner is not None:
            return Prepared(runner, _deviation(metric, encoder, runner), found.states)
    _check_packages(wanted)
    logger.info("Preparing backend %s (%s), once for this encoder; it is kept in %s.", backend, wanted.precision, kept)
    made = artefacts.make(
        wanted,
        kept,
        functools.partial(_fill, metric, wanted),
        lambda found: _usable(found, wanted, precision) is not None,
    )
    runner = _runner(made, wanted, precision)
    return Prepared(runner, _deviation(metric, encoder, runner), made.states)


def _check_packages(wanted: Wanted) -> None:
    missing = lacking(wanted.backend, wanted.precision)
    if missing is not None:
        raise BackendError(missing)


def _usable(found: Artefact, wanted: Wanted, precision: str) -> ArtefactRunner | None:
    """The runner of an artefact, unless it is damaged, which is said."""
    try:
        return _runner(found, wanted, precision)
    except BackendError as error:
        logger.info("%s: ignored. %s", found.folder, error)
        return None


def _runner(found: Artefact, wanted: Wanted, precision: str) -> ArtefactRunner:
    runs = MODULES[wanted.backend].Runner
    return runs(found.folder, "bf16" if precision == "fast" else precision)


def _fill(metric: SegmentMetric, wanted: Wanted, folder: Path) -> Mapping[str, Any]:
    """Write the files of an artefact and measure how far it deviates."""
    encoder = _encoder(metric, wanted.backend)
    batch = metric.tokenize([text for pair in PROBES[:2] for text in pair])
    MODULES[wanted.backend].export(encoder, (batch.input_ids, batch.mask.long()), wanted.precision, folder)
    runner = MODULES[wanted.backend].Runner(folder, wanted.precision)
    states = probe_states(metric, encoder, runner, graph_limit(encoder))
    return {"metric": str(metric.signature), "deviation": _deviation(metric, encoder, runner), "states": states}


def _compiled(metric: SegmentMetric, encoder: RunnableEncoder) -> Prepared:
    runner = CompiledRunner(encoder.graph())
    deviation = _deviation(metric, encoder, runner)
    states = probe_states(metric, encoder, runner, graph_limit(encoder)) if deviation is None else None
    return Prepared(runner, deviation, states)


def _deviation(metric: SegmentMetric, encoder: RunnableEncoder, runner: EncoderRunner) -> float | None:
    """Largest deviation of a probe score; the metric runs on torch before and afterwards."""
    if metric.needs_fit:
        return None
    exact = probe_scores(metric)
    encoder.run_with(runner)
    try:
        return float((probe_scores(metric) - exact).abs().max())
    finally:
        encoder.run_with(None)


def _check(prepared: Prepared, backend: str) -> None:
    """Refuse a back-end that is not exact; hidden states stand in for scores that a metric cannot give yet."""
    measured = prepared.states if prepared.deviation is None else prepared.deviation
    if measured is not None and not measured <= EXACT_BOUND:
        raise BackendError(
            f"Expected backend {backend!r} to be exact to {EXACT_BOUND:g}, but on the probe pairs it deviates from "
            f"torch by {measured:.1e}: set backend='torch', or precision='fast' or 'auto'."
        )
