"""Preparation of a back-end: find or export the graph, and measure its deviation on probe sentences."""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import torch
from torch import Tensor

from textmover.modules.devices import lasting, new_lock, scoring_mode
from textmover.modules.probe_sentences import PROBES, probe_scores, probe_values
from textmover.scoring.backends import artefacts, onnxruntime, openvino
from textmover.scoring.backends.artefacts import Artefact, Refused, Wanted, used
from textmover.scoring.backends.graph import ArtefactRunner, graph_limit
from textmover.scoring.backends.names import EXPORTED, BackendError, UnfitError, check_packages, package, version
from textmover.scoring.backends.torch_runners import CompiledRunner, packed_runner
from textmover.scoring.engine.batches import best_fit, states_in_rows
from textmover.types import EncoderRunner, InputError, RowRunner, RunnableEncoder, SegmentMetric

_Read = Callable[[Tensor, Tensor], Sequence[Tensor]]

UNLIKE = 256  # tokens of a text in whose company a short one is probed; more than local attention sees


def probe_row_scores(metric: SegmentMetric, runner: RowRunner) -> Tensor:
    """Values of the probe pairs where texts that a row has room for are read side by side."""
    sides = [metric.tokenize([pair[side] for pair in PROBES]).to(metric.device) for side in (0, 1)]
    with scoring_mode(metric):
        values = probe_values(metric, *sides)
        room = torch.stack([side.lengths <= runner.row_shape[1] for side in sides]).all(dim=0)
        fit = room.nonzero().flatten()
        hypotheses, references = (
            metric.text_features(replace(one, states=tuple(_read_in_rows(runner, one.input_ids, one.mask))))
            for one in (side.select(fit.tolist()) for side in sides)
        )
        if hypotheses is not None and references is not None:  # as they are where texts are read one by one
            values[fit] = probe_values(metric, hypotheses, references)
    return values


def _read_in_rows(runner: RowRunner, ids: Tensor, mask: Tensor) -> Sequence[Tensor]:
    """Hidden states of texts that a row has room for."""
    lengths = mask.sum(dim=1).numpy()
    return states_in_rows(runner, ids.numpy(), lengths, best_fit(lengths.tolist(), runner.row_shape[1]))


def probe_states(
    metric: SegmentMetric, encoder: RunnableEncoder, runner: EncoderRunner, limit: int | None = None
) -> float:
    """Largest deviation of a runner's hidden states; a ``limit`` in tokens adds texts of extreme lengths, slowly."""
    texts = [text for pair in PROBES for text in pair]
    batch = metric.tokenize(texts).to(metric.device)
    ids, mask = batch.input_ids, batch.mask
    cases: list[tuple[_Read, Tensor, Tensor]] = [(runner, ids, mask)]  # a padded batch
    if runner.row_runner is not None:
        length = runner.row_runner.row_shape[1]
        cases.append((functools.partial(_read_in_rows, runner.row_runner), ids[:, :length], mask[:, :length]))
    if limit is not None:
        # Tokens of all texts again and again: a tokenizer may refuse a text as long as that.
        longest = ids[mask].repeat(1 + limit // int(mask.sum()))[None, :limit]
        # A short text behind much padding, a single text, the shortest that there is, and the longest.
        unlike = ids[mask].repeat(2)[None, : min(limit, UNLIKE)].repeat(2, 1)
        held = torch.ones_like(unlike, dtype=torch.bool)
        held[1, 2:] = False
        cases += [
            (runner, unlike, held),
            (runner, ids[:1], mask[:1]),
            (runner, ids[:, :2], mask[:, :2]),
            (runner, longest, torch.ones_like(longest, dtype=torch.bool)),
        ]
    graph, differences = encoder.graph(), []
    with scoring_mode(graph):
        for read, given, held in cases:
            wanted = graph(given.contiguous(), held.long().contiguous())
            for state, found in zip(wanted, read(given.contiguous(), held.contiguous()), strict=True):
                differences.append((state - found)[held].abs().max() / state[held].abs().max())
    # NaN in one makes the largest NaN, which no bound lets pass.
    return float(torch.stack(differences).max())


logger = logging.getLogger(__name__)

EXACT_BOUND = 1e-5
"""Largest deviation from torch of an uncalibrated score on the probe pairs with which a back-end is exact."""

COARSE_BOUND = 0.1
"""The same for int8 and bfloat16 that were asked for by name: ten times what they move, and far below what nonsense
does."""

COARSE_STATES = 0.5  # the same for hidden states, as a share of the largest, where a metric cannot score yet

MODULES: Mapping[str, Any] = {"openvino": openvino, "onnxruntime": onnxruntime}
"""Modules that export and run graphs, by back-end."""

_RUNNERS: WeakValueDictionary[tuple[object, ...], ArtefactRunner] = WeakValueDictionary()
"""Those in use, by artefact, arithmetic and threads."""
_RUNNERS_LOCK = new_lock()


class Prepared(NamedTuple):
    """A back-end for one metric."""

    runner: EncoderRunner
    deviation: float | None
    """Largest deviation from torch of an uncalibrated score on the probe pairs; ``None`` without statistics."""
    states: float | None
    """Largest deviation of a hidden state, as a share of the largest; ``None`` where nothing was exported."""
    made: Artefact | None = None  # the artefact, with its deviations when it was made


@lasting()
def attach(metric: SegmentMetric, backend: str, precision: str, beside: Path | None = None) -> float | None:
    """Let a back-end run a metric's encoder, and return the deviation of probe scores from torch, if it can score."""
    if metric.runnable_encoder is not None:
        metric.runnable_encoder.run_with(None)
    if backend == "torch":
        _pack(metric)
        return 0.0
    encoder = _encoder(metric, backend)
    made: Artefact | None = None
    runner: EncoderRunner
    if backend in EXPORTED:
        runner, made = _ready(metric, encoder, backend, precision, beside)
    else:
        runner = CompiledRunner(encoder.graph())
    deviation = _deviation(metric, encoder, runner)
    states = made.states if made is not None else None
    if deviation is None:
        states = probe_states(metric, encoder, runner)
    _check(Prepared(runner, deviation, states, made), backend, precision)
    encoder.run_with(runner)
    return deviation


@lasting()
def prepare(metric: SegmentMetric, backend: str, precision: str, folder: Path) -> Prepared:
    """Write an artefact into a checkpoint."""
    encoder = _encoder(metric, backend)
    encoder.run_with(None)
    package(backend)
    wanted = _wanted(encoder, backend, precision)
    check_packages(backend, wanted.precision)
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


def _ready(
    metric: SegmentMetric, encoder: RunnableEncoder, backend: str, precision: str, beside: Path | None
) -> tuple[ArtefactRunner, Artefact]:
    package(backend)
    wanted = _wanted(encoder, backend, precision)
    opened = None
    if beside is not None:
        opened = _opened(beside / artefacts.FOLDER / wanted.name, wanted, precision, in_cache=False)
    return opened or _opened(wanted.place, wanted, precision, in_cache=True) or _made(metric, wanted, precision)


def _opened(place: Path, wanted: Wanted, precision: str, *, in_cache: bool) -> tuple[ArtefactRunner, Artefact] | None:
    """The runner of an artefact that is there; why one is left aside is said."""
    found = artefacts.find(place, wanted)
    if found is None:
        return None
    fate = "is made again" if in_cache else "is ignored"
    if isinstance(found, Refused):
        if found.kind == "damaged" and not in_cache:
            raise InputError(
                f"Expected {place} to hold what it was exported with, but {found.reason}: export or copy the "
                "checkpoint again, or set backend='torch'."
            )
        # That a metric was loaded with other layers than it was exported with is not a fault.
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
    check_packages(wanted.backend, wanted.precision)
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


def _runner(found: Artefact, wanted: Wanted, precision: str) -> ArtefactRunner:
    """Runner of an artefact; metrics that load the same one share it, since each copy holds the weights."""
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
        logger.warning("Weights stay unpacked: packing moves this encoder's hidden states by %.1e.", states)


def _deviation(metric: SegmentMetric, encoder: RunnableEncoder, runner: EncoderRunner) -> float | None:
    """Largest deviation of a probe score, also of texts in rows; the metric runs on torch before and afterwards."""
    if metric.needs_fit:
        return None
    exact = probe_scores(metric)
    encoder.run_with(runner)
    try:
        found = [probe_scores(metric)]
        if encoder.row_runner is not None:
            found.append(probe_row_scores(metric, encoder.row_runner))
        # NaN in one makes the largest NaN, which no bound lets pass.
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
    rebuild = ""
    if prepared.made is not None:
        then = prepared.made.states if prepared.made.deviation is None else prepared.made.deviation
        # Where it was as far off from the start, making it again changes nothing.
        rebuild = f"remove {prepared.made.folder} to have it made again, or " if then <= bound else ""
    raise BackendError(
        f"Expected backend {backend!r} to be {aim}, but on the probe pairs it deviates from torch by {measured:.1e}: "
        f"{rebuild}set backend='torch', or precision={others}."
    )
