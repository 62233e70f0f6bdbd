"""Prepare a back-end: find or export the graph, and measure its deviation from torch on probe sentences."""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch import Tensor

from textmover.files import atomic_bytes
from textmover.lazy import new_lock
from textmover.modules.devices import lasting, scoring_mode
from textmover.modules.score_deviation import PROBES, probe_batches, probe_scores, probe_values
from textmover.scoring.backends import artefacts, onnxruntime, openvino
from textmover.scoring.backends.artefacts import Artefact, ArtefactSpec, Unusable, mark_used
from textmover.scoring.backends.graph import ArtefactRunner, graph_limit
from textmover.scoring.backends.names import EXPORTED, BackendError, UnfitError, check_packages, package, version
from textmover.scoring.backends.torch_runners import CompiledRunner, packed_runner
from textmover.scoring.engine.batches import best_fit, states_in_rows
from textmover.types import EncoderRunner, InputError, RowRunner, RunnableEncoder, SegmentMetric, TokenBatch

_Read = Callable[[Tensor, Tensor], Sequence[Tensor]]

LONG_NEIGHBOUR = 256  # tokens of the long text that a short one is probed with; exceeds the window of local attention


def probe_row_scores(metric: SegmentMetric, runner: RowRunner) -> Tensor:
    """Return the values of the probe pairs, computed in rows for texts short enough for a row."""
    sides = probe_batches(metric)
    with scoring_mode(metric):
        values = probe_values(metric, *sides)
        fits = torch.stack([side.lengths <= runner.row_shape[1] for side in sides]).all(dim=0)
        rows_that_fit = fits.nonzero().flatten()
        hypotheses, references = (
            metric.text_features(replace(side, states=tuple(_read_in_rows(runner, side.input_ids, side.mask))))
            for side in (side.select(rows_that_fit.tolist()) for side in sides)
        )
        if hypotheses is not None and references is not None:  # as for texts without rows
            values[rows_that_fit] = probe_values(metric, hypotheses, references)
    return values


def _read_in_rows(runner: RowRunner, ids: Tensor, mask: Tensor) -> Sequence[Tensor]:
    lengths = mask.sum(dim=1).numpy()
    return states_in_rows(runner, ids.numpy(), lengths, best_fit(lengths.tolist(), runner.row_shape[1]))


def probe_states(
    metric: SegmentMetric, encoder: RunnableEncoder, runner: EncoderRunner, limit: int | None = None
) -> float:
    """Return the largest deviation of a runner's hidden states; ``limit`` in tokens adds cases of extreme length."""
    texts = [text for pair in PROBES for text in pair]
    batch = metric.tokenize(texts).to(metric.device)
    ids, mask = batch.input_ids, batch.mask
    cases: list[tuple[_Read, Tensor, Tensor]] = [(runner, ids, mask)]  # a padded batch
    if runner.row_runner is not None:
        length = runner.row_runner.row_shape[1]
        cases.append((functools.partial(_read_in_rows, runner.row_runner), ids[:, :length], mask[:, :length]))
    if limit is not None:
        # Repeat the tokens of all texts, since a tokenizer may reject texts of that length.
        longest = ids[mask].repeat(1 + limit // int(mask.sum()))[None, :limit]
        # A short text with much padding, a single text, the shortest possible text, and the longest.
        long_neighbour = ids[mask].repeat(2)[None, : min(limit, LONG_NEIGHBOUR)].repeat(2, 1)
        short_mask = torch.ones_like(long_neighbour, dtype=torch.bool)
        short_mask[1, 2:] = False
        cases += [
            (runner, long_neighbour, short_mask),
            (runner, ids[:1], mask[:1]),
            (runner, ids[:, :2], mask[:, :2]),
            (runner, longest, torch.ones_like(longest, dtype=torch.bool)),
        ]
    graph, differences = encoder.graph(), []
    with scoring_mode(graph):
        for read, ids_of_case, mask_of_case in cases:
            exact = graph(ids_of_case.contiguous(), mask_of_case.long().contiguous())
            for state, computed in zip(exact, read(ids_of_case.contiguous(), mask_of_case.contiguous()), strict=True):
                differences.append((state - computed)[mask_of_case].abs().max() / state[mask_of_case].abs().max())
    # NaN in any case yields NaN, which fails every bound.
    return float(torch.stack(differences).max())


logger = logging.getLogger(__name__)

EXACT_BOUND = 1e-5
"""Maximum deviation from torch of an uncalibrated probe score for a back-end to count as exact."""

COARSE_BOUND = 0.1
"""Maximum deviation for int8 and bfloat16 if requested by name: ten times the usual one, far below a fault's."""

COARSE_STATES = 0.5  # the same for hidden states relative to the largest, for metrics that cannot score yet

MODULES: Mapping[str, Any] = {"openvino": openvino, "onnxruntime": onnxruntime}
"""Modules that export and run graphs, by back-end."""

PROBE_STATES = "probes"
"""File of an artefact with torch's hidden states of the probes: to compute them takes the code of the model."""

_RUNNERS: WeakValueDictionary[tuple[object, ...], ArtefactRunner] = WeakValueDictionary()
"""Runners in use, by artefact, arithmetic and threads."""
_RUNNERS_LOCK = new_lock()


@lasting()
def set_backend(metric: SegmentMetric, backend: str, precision: str, checkpoint: Path | None = None) -> float | None:
    """Run a metric's encoder with a back-end; return the deviation of probe scores from torch, if it can score."""
    if metric.runnable_encoder is not None:
        metric.runnable_encoder.run_with(None)
    if backend == "torch":
        _pack(metric)
        return 0.0
    encoder = _encoder(metric, backend)
    artefact: Artefact | None = None
    runner: EncoderRunner
    if backend in EXPORTED:
        runner, artefact = _find_or_export(metric, encoder, backend, precision, checkpoint)
    else:
        runner = CompiledRunner(encoder.graph())
    deviation = _deviation(metric, encoder, runner, None if artefact is None else artefact.folder)
    states = None if artefact is None else artefact.states
    if deviation is None:
        states = probe_states(metric, encoder, runner)
    _check(backend, precision, deviation, states, artefact)
    encoder.run_with(runner)
    return deviation


@lasting()
def prepare(metric: SegmentMetric, backend: str, precision: str, folder: Path) -> Artefact:
    """Export an artefact into a checkpoint."""
    encoder = _encoder(metric, backend)
    encoder.run_with(None)
    package(backend)
    spec = _spec_of(encoder, backend, precision)
    check_packages(backend, spec.precision)
    target = folder / artefacts.FOLDER / spec.name
    target.mkdir(parents=True)
    artefacts.write(spec, target, functools.partial(_fill, metric, spec))
    artefact = artefacts.read_back(target, spec)
    _runner(artefact, spec, precision)  # raises if the graph cannot be read
    _check(backend, precision, artefact.deviation, artefact.states, artefact)
    return artefact


def _encoder(metric: SegmentMetric, backend: str) -> RunnableEncoder:
    encoder = metric.runnable_encoder
    if encoder is None:
        raise UnfitError(
            f"Expected an encoder for backend {backend!r} to run, but this metric has none for it (static vectors are "
            "only looked up, and other rounding could move a score of RoMe by a whole edit): set backend='torch'."
        )
    dtype = next(encoder.weights.parameters()).dtype
    if backend in EXPORTED and dtype != torch.float32:
        raise UnfitError(
            f"Expected weights in float32 for backend {backend!r}, but got {str(dtype).removeprefix('torch.')}: "
            "leave out `dtype` and choose a precision, or set backend='torch'."
        )
    return encoder


def _spec_of(encoder: RunnableEncoder, backend: str, precision: str) -> ArtefactSpec:
    # bfloat16 uses the float32 graph
    arithmetic = "int8" if precision == "int8" else "exact"
    return ArtefactSpec(backend, version(backend), arithmetic, artefacts.encoder_hash(encoder), encoder.computed)


def _find_or_export(
    metric: SegmentMetric, encoder: RunnableEncoder, backend: str, precision: str, checkpoint: Path | None
) -> tuple[ArtefactRunner, Artefact]:
    package(backend)
    spec = _spec_of(encoder, backend, precision)
    existing = None
    if checkpoint is not None:
        existing = _open(checkpoint / artefacts.FOLDER / spec.name, spec, precision, in_cache=False)
    return existing or _open(spec.place, spec, precision, in_cache=True) or _export(metric, spec, precision)


def _open(place: Path, spec: ArtefactSpec, precision: str, *, in_cache: bool) -> tuple[ArtefactRunner, Artefact] | None:
    """Return the runner of an existing artefact; log why one is not used."""
    artefact = artefacts.find(place, spec)
    if artefact is None:
        return None
    outcome = "is made again" if in_cache else "is ignored"
    if isinstance(artefact, Unusable):
        if artefact.kind == "damaged" and not in_cache:
            raise InputError(
                f"Expected {place} to hold what it was exported with, but {artefact.reason}: export or copy the "
                "checkpoint again, or set backend='torch'."
            )
        # A metric loaded with other layers than exported is not a fault.
        level = logging.INFO if artefact.kind == "other" else logging.WARNING
        logger.log(level, "%s %s, since %s.", place, outcome, artefact.reason)
        return None
    try:
        runner = _runner(artefact, spec, precision)
    except BackendError as error:
        logger.warning("%s %s. %s", place, outcome, error)
        return None
    if in_cache:
        mark_used(place / artefacts.RECORD)
    return runner, artefact


def _export(metric: SegmentMetric, spec: ArtefactSpec, precision: str) -> tuple[ArtefactRunner, Artefact]:
    """Export an artefact and return its runner; another process may be faster."""
    check_packages(spec.backend, spec.precision)
    # A warning, since the user would not expect to wait this long.
    logger.warning(
        "Preparing backend %s (%s) for this encoder, once: this takes about ten seconds, and longer for a large one. "
        "It is kept in %s.",
        spec.backend, spec.precision, spec.place,
    )  # fmt: skip

    def usable(built: Artefact) -> bool:
        try:
            _runner(built, spec, precision)
        except BackendError:
            return False
        return True

    artefact = artefacts.make(spec, spec.place, functools.partial(_fill, metric, spec), usable)
    return _runner(artefact, spec, precision), artefact


def _runner(artefact: Artefact, spec: ArtefactSpec, precision: str) -> ArtefactRunner:
    """Return the runner of an artefact; metrics share it, since each copy holds the weights."""
    arithmetic = "bf16" if precision == "fast" else precision
    record = (artefact.folder / artefacts.RECORD).stat()
    identity = (str(artefact.folder.resolve()), record.st_ino, record.st_mtime_ns)
    key = (*identity, arithmetic, torch.get_num_threads())
    with _RUNNERS_LOCK:
        runner = _RUNNERS.get(key)
        if runner is None:
            runner = MODULES[spec.backend].Runner(artefact.folder, arithmetic)
            _RUNNERS[key] = runner
    return runner


def _fill(metric: SegmentMetric, spec: ArtefactSpec, folder: Path) -> Mapping[str, Any]:
    encoder = _encoder(metric, spec.backend)
    batch = metric.tokenize([text for pair in PROBES[:2] for text in pair])
    MODULES[spec.backend].export(encoder, (batch.input_ids, batch.mask.long()), spec.precision, folder)
    runner = MODULES[spec.backend].Runner(folder, spec.precision)
    states = probe_states(metric, encoder, runner, graph_limit(encoder))
    return {"metric": str(metric.signature), "deviation": _deviation(metric, encoder, runner, folder), "states": states}


def _pack(metric: SegmentMetric) -> None:
    """Run a metric's encoder with packed weights if they give the same hidden states."""
    encoder = metric.runnable_encoder
    runner = None if encoder is None else packed_runner(encoder.graph())
    if encoder is None or runner is None:
        return
    states = probe_states(metric, encoder, runner)
    if states <= EXACT_BOUND:
        encoder.run_with(runner)
    else:
        logger.warning("Weights stay unpacked: packing moves this encoder's hidden states by %.1e.", states)


def _deviation(
    metric: SegmentMetric, encoder: RunnableEncoder, runner: EncoderRunner, folder: Path | None
) -> float | None:
    """Return the largest deviation of a probe score, including texts in rows; torch is restored afterwards."""
    if metric.needs_fit:
        return None
    exact = probe_scores(metric) if folder is None else _exact_scores(metric, encoder, folder)
    encoder.run_with(runner)
    try:
        values = [probe_scores(metric)]
        if encoder.row_runner is not None:
            values.append(probe_row_scores(metric, encoder.row_runner))
        # NaN in any case yields NaN, which fails every bound.
        return float((torch.stack(values) - exact).abs().max())
    finally:
        encoder.run_with(None)


def _exact_scores(metric: SegmentMetric, encoder: RunnableEncoder, folder: Path) -> Tensor:
    """Return the probe scores of torch, from hidden states that the folder of an artefact keeps, or keeps now."""
    sides = probe_batches(metric)
    with scoring_mode(metric):
        states = _torch_states(encoder, sides, folder / f"{PROBE_STATES}-{torch.__version__}.safetensors")
        hypotheses, references = (
            metric.text_features(replace(side, states=of_side)) or side
            for side, of_side in zip(sides, states, strict=True)
        )
        return probe_values(metric, hypotheses, references)


def _torch_states(encoder: RunnableEncoder, sides: Sequence[TokenBatch], place: Path) -> list[tuple[Tensor, ...]]:
    """Read the hidden states of both sides from a file, or compute and write them if it lacks those of the tokens."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file, save

    inputs = {f"ids {side}": torch.where(batch.mask, batch.input_ids, -1) for side, batch in enumerate(sides)}
    names = [[f"{layer} of {side}" for layer in encoder.computed] for side in range(len(sides))]
    with contextlib.suppress(OSError, SafetensorError, KeyError):
        stored = load_file(place)
        if all(torch.equal(stored.pop(name, torch.empty(0)), ids) for name, ids in inputs.items()):
            return [tuple(stored[name] for name in of_side) for of_side in names]
    graph = encoder.graph()
    with scoring_mode(graph):
        states = [tuple(graph(side.input_ids, side.mask.long())) for side in sides]
    if (place.parent / artefacts.RECORD).exists() and not place.is_relative_to(artefacts.cache_folder()):
        return states  # a checkpoint stays as it is
    computed = zip(itertools.chain(*names), itertools.chain(*states), strict=True)
    with contextlib.suppress(OSError, InputError), atomic_bytes(place) as file:  # or it is computed again each time
        file.write(save({**inputs, **{name: state.contiguous() for name, state in computed}}))
    return states


def _check(backend: str, precision: str, deviation: float | None, states: float | None, made: Artefact | None) -> None:
    """Raise an error if a back-end deviates too far, in hidden states if the metric cannot score yet."""
    not_finite = states is not None and not math.isfinite(states)
    measured = states if deviation is None or not_finite else deviation
    bound = COARSE_STATES if deviation is None else COARSE_BOUND
    bound = EXACT_BOUND if precision == "exact" else bound
    if measured is None or measured <= bound:
        return
    aim, alternatives = f"within {bound:g} in {precision}", "'exact'"
    if precision == "exact":
        aim, alternatives = f"exact to {bound:g}", "'fast' or 'auto'"
    rebuild = ""
    if made is not None:
        initial = made.states if made.deviation is None else made.deviation
        # If it deviated as much at export, exporting again does not help.
        rebuild = f"remove {made.folder} to have it made again, or " if initial <= bound else ""
    raise BackendError(
        f"Expected backend {backend!r} to be {aim}, but on the probe pairs it deviates from torch by {measured:.1e}: "
        f"{rebuild}set backend='torch', or precision={alternatives}."
    )
