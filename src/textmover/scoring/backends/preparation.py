"""From a metric to a back-end that runs its encoder: find the artefact or make it, and measure how far it deviates."""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import torch

from textmover.modules.arithmetic import lasting
from textmover.modules.forking import new_lock
from textmover.modules.probes import PROBES, probe_scores
from textmover.scoring.backends import artefacts, onnxruntime, openvino
from textmover.scoring.backends.artefacts import Artefact, Refused, Wanted
from textmover.scoring.backends.compiled import CompiledRunner
from textmover.scoring.backends.graph import graph_limit
from textmover.scoring.backends.names import EXPORTED, BackendError, UnfitError, lacking, version
from textmover.scoring.backends.packages import package
from textmover.scoring.backends.packed import packed_runner
from textmover.scoring.backends.probes import probe_row_scores, probe_states
from textmover.scoring.backends.runner import ArtefactRunner
from textmover.scoring.backends.tidying import used
from textmover.types import EncoderRunner, InputError, RunnableEncoder, SegmentMetric

logger = logging.getLogger(__name__)

EXACT_BOUND = 1e-5
"""Largest deviation from torch of an uncalibrated score on the probe pairs with which a back-end is exact."""

COARSE_BOUND = 0.1
"""The same for int8 and bfloat16 that were asked for by name: ten times what they move, and far below what nonsense
does."""

COARSE_STATES = 0.5
"""The same for hidden states, as a share of the largest, where a metric cannot score yet."""

MODULES: Mapping[str, Any] = {"openvino": openvino, "onnxruntime": onnxruntime}
"""What exports a graph and what runs it, by back-end."""

_RUNNERS: WeakValueDictionary[tuple[object, ...], ArtefactRunner] = WeakValueDictionary()
"""Those in use, by artefact, arithmetic and threads."""
_RUNNERS_LOCK = new_lock()


class Prepared(NamedTuple):
    """A back-end for one metric.

    Attributes:
        runner: Runs its encoder.
        deviation: Largest deviation from torch of an uncalibrated score on the probe pairs; ``None`` where the metric
            lacks statistics.
        states: Largest deviation of a hidden state, as a share of the largest; ``None`` where nothing was exported.
        made: The artefact, with its deviations when it was made.
    """

    runner: EncoderRunner
    deviation: float | None
    states: float | None
    made: Artefact | None = None


@lasting()
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
        BackendError: If it cannot run this encoder, or deviates too far. The metric runs on torch then.
        InputError: If the checkpoint's artefact is damaged.
    """
    if metric.runnable_encoder is not None:
        metric.runnable_encoder.run_with(None)
    if backend == "torch":
        _pack(metric)
        return 0.0
    encoder = _encoder(metric, backend)
    prepared = _compiled(metric, encoder) if backend not in EXPORTED else _ready(metric, backend, precision, beside)
    _check(prepared, backend, precision)
    encoder.run_with(prepared.runner)
    return prepared.deviation


@lasting()
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
        BackendError: If it cannot be made, or deviates too far.
    """
    encoder = _encoder(metric, backend)
    encoder.run_with(None)
    package(backend)
    wanted = _wanted(encoder, backend, precision)
    _check_packages(wanted)
    target = folder / artefacts.FOLDER / wanted.name
    target.mkdir(parents=True)
    artefacts.write(wanted, target, functools.partial(_fill, metric, wanted))
    made = artefacts.written(target, wanted)
    prepared = Prepared(_runner(made, wanted, precision), made.deviation, made.states, made)
    _check(prepared, backend, precision)
    return prepared


def _encoder(metric: SegmentMetric, backend: str) -> RunnableEncoder:
    encoder = metric.runnable_encoder
    if encoder is None:
        raise UnfitError(
            f"Expected an encoder for backend {backend!r} to run, but this metric has none for it (static vectors are "
            "only looked up, and other rounding could move a score of RoMe by a whole edit): set backend='torch'."
        )
    dtype = next(encoder.graph().parameters()).dtype
    if backend in EXPORTED and dtype != torch.float32:
        raise UnfitError(
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
    package(backend)
    wanted = _wanted(encoder, backend, precision)
    opened = None
    if beside is not None:
        opened = _opened(beside / artefacts.FOLDER / wanted.name, wanted, precision, in_cache=False)
    opened = opened or _opened(wanted.place, wanted, precision, in_cache=True) or _made(metric, wanted, precision)
    runner, made = opened
    deviation, states = _deviation(metric, encoder, runner), made.states
    if deviation is None:
        states = probe_states(metric, encoder, runner)
    return Prepared(runner, deviation, states, made)


def _opened(place: Path, wanted: Wanted, precision: str, *, in_cache: bool) -> tuple[ArtefactRunner, Artefact] | None:
    """The runner of an artefact that is there; why one is left aside is said."""
    found = artefacts.find(place, wanted)
    if found is None:
        return None
    fate = "is made anew" if in_cache else "is ignored"
    if isinstance(found, Refused):
        if found.kind == "damaged" and not in_cache:
            raise InputError(
                f"Expected {place} to hold what it was exported with, but {found.reason}: export or copy the "
                "checkpoint anew, or set backend='torch'."
            )
        # That a metric was loaded with other layers than it was exported with is no fault.
        level = logging.INFO if found.kind == "other" else logging.WARNING
        logger.log(level, "%s %s, since %s.", place, fate, found.reason)
        return None
    try:
        runner = _runner(found, wanted, precision)
    except BackendError as error:
        logger.warning("%s %s. %s", place, fate, error)
        return None
    if in_cache:
        used(place / artefacts.RECORD)
    return runner, found


def _made(metric: SegmentMetric, wanted: Wanted, precision: str) -> tuple[ArtefactRunner, Artefact]:
    """The runner of an artefact that is made now, by this process or one that was faster."""
    _check_packages(wanted)
    # A warning, since nobody expects to wait that long for a few scores.
    logger.warning(
        "Preparing backend %s (%s) for this encoder, once: this takes about ten seconds, and longer for a large one. "
        "It is kept in %s.",
        wanted.backend, wanted.precision, wanted.place,
    )  # fmt: skip

    def usable(found: Artefact) -> bool:
        try:
            _runner(found, wanted, precision)
        except BackendError:
            return False
        return True

    made = artefacts.make(wanted, wanted.place, functools.partial(_fill, metric, wanted), usable)
    return _runner(made, wanted, precision), made


def _check_packages(wanted: Wanted) -> None:
    missing = lacking(wanted.backend, wanted.precision)
    if missing is not None:
        raise UnfitError(missing)


def _runner(found: Artefact, wanted: Wanted, precision: str) -> ArtefactRunner:
    """What runs an artefact; metrics that are loaded with the same one share it, since each copy holds the weights."""
    arithmetic = "bf16" if precision == "fast" else precision
    record = (found.folder / artefacts.RECORD).stat()
    made = (str(found.folder.resolve()), record.st_ino, record.st_mtime_ns)
    key = (*made, arithmetic, torch.get_num_threads())
    with _RUNNERS_LOCK:
        runner = _RUNNERS.get(key)
        if runner is None:
            runner = MODULES[wanted.backend].Runner(found.folder, arithmetic)
            _RUNNERS[key] = runner
    return runner


def _fill(metric: SegmentMetric, wanted: Wanted, folder: Path) -> Mapping[str, Any]:
    """Write the files of an artefact and measure how far it deviates."""
    encoder = _encoder(metric, wanted.backend)
    batch = metric.tokenize([text for pair in PROBES[:2] for text in pair])
    MODULES[wanted.backend].export(encoder, (batch.input_ids, batch.mask.long()), wanted.precision, folder)
    runner = MODULES[wanted.backend].Runner(folder, wanted.precision)
    states = probe_states(metric, encoder, runner, graph_limit(encoder))
    return {"metric": str(metric.signature), "deviation": _deviation(metric, encoder, runner), "states": states}


def _pack(metric: SegmentMetric) -> None:
    """Let torch run a metric's encoder with packed weights, where they give the same hidden states."""
    encoder = metric.runnable_encoder
    runner = None if encoder is None else packed_runner(encoder.graph())
    if encoder is None or runner is None:
        return
    states = probe_states(metric, encoder, runner)
    if states <= EXACT_BOUND:
        encoder.run_with(runner)
    else:
        logger.warning("Weights are left as they are: packed, this encoder's hidden states deviate by %.1e.", states)


def _compiled(metric: SegmentMetric, encoder: RunnableEncoder) -> Prepared:
    runner = CompiledRunner(encoder.graph())
    deviation = _deviation(metric, encoder, runner)
    states = probe_states(metric, encoder, runner) if deviation is None else None
    return Prepared(runner, deviation, states)


def _deviation(metric: SegmentMetric, encoder: RunnableEncoder, runner: EncoderRunner) -> float | None:
    """Largest deviation of a probe score; the metric runs on torch before and afterwards.

    Texts that are read side by side go through a graph of their own, which is measured as well.
    """
    if metric.needs_fit:
        return None
    exact = probe_scores(metric)
    encoder.run_with(runner)
    try:
        found = [probe_scores(metric)]
        if encoder.row_runner is not None:
            found.append(probe_row_scores(metric, encoder.row_runner))
        # Where one is no number, nor is the largest, which no bound lets pass.
        return float((torch.stack(found) - exact).abs().max())
    finally:
        encoder.run_with(None)


def _check(prepared: Prepared, backend: str, precision: str) -> None:
    """Refuse a back-end that deviates too far; hidden states stand in for scores that a metric cannot give yet."""
    unfit = prepared.states is not None and not math.isfinite(prepared.states)
    measured = prepared.states if prepared.deviation is None or unfit else prepared.deviation
    bound = COARSE_STATES if prepared.deviation is None else COARSE_BOUND
    bound = EXACT_BOUND if precision == "exact" else bound
    if measured is None or measured <= bound:
        return
    aim, others = f"within {bound:g} in {precision}", "'exact'"
    if precision == "exact":
        aim, others = f"exact to {bound:g}", "'fast' or 'auto'"
    anew = ""
    if prepared.made is not None:
        then = prepared.made.states if prepared.made.deviation is None else prepared.made.deviation
        # Where it was as far off from the start, making it anew changes nothing.
        anew = f"remove {prepared.made.folder} to have it made anew, or " if then <= bound else ""
    raise BackendError(
        f"Expected backend {backend!r} to be {aim}, but on the probe pairs it deviates from torch by {measured:.1e}: "
        f"{anew}set backend='torch', or precision={others}."
    )
