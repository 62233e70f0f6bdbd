"""Python API for scoring: load a metric, pass texts, and get scores with their signature."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import functools
import inspect
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import torch
from torch import nn

from textmover.checkpoints.hub import default_metric, local_folder, released_folder
from textmover.checkpoints.loading import changes, checkpoint_folder, load_metric, warn_of_scale
from textmover.checkpoints.statistics_files import read_statistics, take_statistics
from textmover.modules.devices import lasting, log_device, resolve_device
from textmover.modules.encoder.pretrained import models_on_demand
from textmover.modules.tokens.text_arguments import (
    PairedTexts,
    References,
    Sources,
    Texts,
    listed_texts,
    normalize_references,
    paired_texts,
)
from textmover.presets import PRESETS
from textmover.scoring.backends.names import Backend, check_backend
from textmover.scoring.cache.hidden_states import EncoderMemory
from textmover.scoring.engine.engine import CACHE_BYTES, Engine
from textmover.scoring.engine.pair_results import Counts
from textmover.scoring.precision_and_backend import Precision, apply_precision
from textmover.scoring.scorer_statistics import ScorerStatistics, check_fitted, check_sources
from textmover.types import InputError, MarkedTexts, SegmentMetric, SegmentScores, SourcedReferences, check_choice
from textmover.types.argument_checks import check_whole

if TYPE_CHECKING:
    from textmover.report.explanation.explanations import Explanation
    from textmover.scoring.mbr import MbrResult


class Scorer(ScorerStatistics):
    """Score texts with one metric.

    Args:
        metric: Any metric; it is neither copied nor moved.
        batch_tokens: Tokens per encoder batch, padding included; ``None`` suits the device. Scores do not depend on it.
        cache: Cache the features of texts between calls. Turn it off if the metric's weights change.
        cache_bytes: Maximum size of this cache on the metric's device; the least recently used texts are evicted first.
        progress: Show a progress bar for long work if standard error is a terminal.

    Example:
        >>> from textmover import Scorer
        >>> scorer = Scorer.from_pretrained("twmd")  # doctest: +SKIP
        >>> scorer.score(["A cat sat there."], ["There sat a cat."]).mean  # doctest: +SKIP
        0.9073
    """

    def __init__(
        self,
        metric: SegmentMetric,
        *,
        batch_tokens: int | None = None,
        cache: bool = True,
        cache_bytes: int = CACHE_BYTES,
        progress: bool = False,
    ) -> None:
        if isinstance(metric, str | Path):
            raise TypeError(
                f"Expected `metric` to be a metric, but got the name {str(metric)!r}: call "
                f"Scorer.from_pretrained({str(metric)!r})."
            )
        if not hasattr(metric, "pair_scores"):
            raise TypeError(f"Expected `metric` to be a metric, but got {metric!r}: load one with from_pretrained.")
        engine = Engine(metric, batch_tokens=batch_tokens, cache=cache, cache_bytes=cache_bytes)
        super().__init__(metric, engine, progress=progress)

    @classmethod
    @lasting()
    def from_pretrained(
        cls,
        name: str | Path | None = None,
        *,
        precision: Precision = "exact",
        backend: Backend = "auto",
        device: str | torch.device | None = None,
        batch_tokens: int | None = None,
        cache: bool = True,
        cache_bytes: int = CACHE_BYTES,
        progress: bool = False,
        revision: str | None = None,
        statistics: str | Path | Sequence[str | Path] = (),
        memory: EncoderMemory | None = None,
        **overrides: Any,
    ) -> Scorer:
        """Load a metric and return its scorer.

        Args:
            name: A checkpoint folder, the name of a released metric or a preset (see ``textmover list``), or a hub id.
                ``None`` loads the released metric ``textmover-general``, or the preset ``twmd`` if ``encoder=`` is
                given.
            precision: ``"exact"`` (float32), ``"fast"`` (bfloat16 encoder if the processor supports it), ``"int8"``, or
                ``"auto"`` (the fastest with scores close to float32; :mod:`textmover.scoring.precision_and_backend`).
            backend: ``"torch"``, ``"torch-compile"``, ``"openvino"``, ``"onnxruntime"``, or ``"auto"`` for the fastest
                installed one. A back-end prepares each encoder once.
            device: ``"cpu"``, ``"cuda"``, ``"mps"``, …; ``None`` selects a GPU if there is one.
            batch_tokens: See :class:`Scorer`.
            cache: See :class:`Scorer`.
            cache_bytes: See :class:`Scorer`.
            progress: See :class:`Scorer`.
            revision: Commit or tag on the hub.
            statistics: Files of fitted statistics to load, see :meth:`load_statistics`.
            memory: Cache that shares hidden states, and the encoder itself, between all scorers created with it.
            **overrides: Fields of the metric's configuration, such as ``encoder=`` or ``temperature=``.

        Raises:
            InputError: If the metric or its statistics cannot be loaded, a field is unknown, or the device or back-end
                is not available.
        """
        _check_names(overrides, inspect.signature(cls.from_pretrained).parameters.values())
        name = default_metric(overrides) if name is None else name
        check_choice("precision", precision, get_args(Precision))
        target = resolve_device(device)
        check_backend(backend, target)
        files = (statistics,) if isinstance(statistics, (str, Path)) else statistics
        given = read_statistics(*files)  # to refuse a bad file before the metric is loaded
        with torch.device("cpu"), models_on_demand():  # independent of torch's default device
            metric = load_metric(name, revision=revision, **overrides)
            checkpoint = checkpoint_folder(name, revision)
            if checkpoint is not None and overrides:
                warn_of_scale(checkpoint, metric, overrides)
        take_statistics(metric, given)
        if isinstance(metric, nn.Module):
            metric.to(target)
        log_device(str(name), target)
        if memory is not None:
            if precision == "auto":
                raise InputError(
                    "Expected `precision` to be named where metrics share their encoder, but got 'auto', which would "
                    "choose for each of them again: choose 'exact', 'fast' or 'int8'."
                )
            memory.join(metric, f"{precision} {backend}")
        run_with = functools.partial(apply_precision, precision=precision, backend=backend, checkpoint=checkpoint)
        choose_later = precision == "auto" and metric.needs_fit  # choosing a precision needs the statistics
        with contextlib.nullcontext() if memory is None else memory.asleep():  # probe sentences are not cached
            metric = metric if choose_later else run_with(metric)
            if memory is not None and memory.join(metric, f"{precision} {backend}"):
                metric = run_with(metric)  # casting its weights removed it; now added with the new ones
        scorer = cls(metric, batch_tokens=batch_tokens, cache=cache, cache_bytes=cache_bytes, progress=progress)
        scorer._choose_precision = run_with if choose_later else None
        release_folder = None if local_folder(name) else released_folder(str(name))
        if release_folder and not (overrides and changes(release_folder, overrides)):
            scorer._release = {"release": str(name)}
        return scorer

    def score(
        self, hypotheses: Texts, references: References | None = None, sources: Sources | None = None
    ) -> SegmentScores:
        """Score each hypothesis against its references, its source, or both.

        Args:
            hypotheses: One text, or ``n`` texts.
            references: One text, or for each hypothesis one or several texts.
            sources: Source text of each hypothesis, for a metric whose ``mode`` or ``fallback`` uses it.

        Returns:
            Scores in input order; with several references, the best (or mean) value over them.

        Raises:
            InputError: If the counts differ, a hypothesis has no reference, a text is not valid Unicode, a statistic is
                not fitted, or sources are given to a metric that does not use them.
            TypeError: If an argument is neither a text nor a list of texts.
        """
        hypotheses = listed_texts(hypotheses, "hypotheses")
        grouped = normalize_references(hypotheses, references, sources)
        if sources is not None:
            check_sources(self.metric)
        scorer = self.for_call(hypotheses, grouped)
        check_fitted(scorer.metric)
        with self._progress_bar(len(hypotheses)) as advance:
            return scorer.score_fitted(hypotheses, grouped, advance)

    def score_stream(self, pairs: Iterable[PairedTexts], shard_size: int = 4096) -> Iterator[SegmentScores]:
        """Score an input of any size, one shard at a time.

        The stream is read once, so statistics are not fitted on it. A metric that fits idf weights on the texts of each
        call has to be fitted before (:meth:`fit`, :meth:`fit_on_call`, :meth:`load_statistics`).

        Args:
            pairs: For each segment the hypothesis, its reference or references (``None`` without any), and optionally
                its source; read lazily.
            shard_size: Segments held in memory and scored together; scores depend on it by rounding only.

        Returns:
            Lazy iterator over the scores of each shard, in input order.

        Raises:
            InputError: If a segment cannot be scored (the message gives the position of its shard), or a statistic is
                not fitted.
            TypeError: If an item is neither a pair nor a triple of texts.

        Example:
            >>> from textmover import Scorer
            >>> scorer = Scorer.from_pretrained("twmd")  # doctest: +SKIP
            >>> pairs = zip(open("hypotheses.txt"), open("references.txt"), strict=True)  # doctest: +SKIP
            >>> total = sum(part.scores.sum() for part in scorer.score_stream(pairs))  # doctest: +SKIP
        """
        check_whole("shard_size", shard_size)
        scorer = self.frozen()
        check_fitted(scorer.metric)
        return scorer._stream(iter(pairs), shard_size)

    def _stream(self, pairs: Iterator[PairedTexts], shard_size: int) -> Iterator[SegmentScores]:
        counts: Counter[str] = Counter()
        done = 0
        with self._progress_bar(None) as advance:
            while shard := list(itertools.islice(pairs, shard_size)):
                try:
                    hypotheses, references = paired_texts(shard)
                    if any(segment.source is not None for segment in references):
                        check_sources(self.metric)
                    scores = self.score_fitted(hypotheses, references, advance, warn=False)
                except (InputError, TypeError) as error:
                    if not done:
                        raise
                    position = f"(counted from {done + 1}, where its shard of the stream begins)"
                    raise type(error)(f"{str(error).rstrip('.')} {position}.") from error
                counts.update(scores.counts)
                done += len(shard)
                yield scores
        self.warn(counts)

    def score_fitted(
        self,
        hypotheses: Sequence[str],
        references: Sequence[Sequence[str]],
        on_progress: Callable[[int], None] | None = None,
        *,
        warn: bool = True,
    ) -> SegmentScores:
        """Score with the present statistics, for callers that split a long input.

        Args:
            hypotheses: ``n`` texts.
            references: For each, one or more texts.
            on_progress: Called with the number of segments finished since the last call.
            warn: Log warnings of flagged segments; otherwise the caller does so with :meth:`warn`.

        Returns:
            Scores in input order; for an empty input, empty arrays under the usual names.
        """
        if not hypotheses:  # score one dummy segment to get the names of the values
            scores = self.score_fitted(["a"], [SourcedReferences(["a"], "a")], warn=False)
            empty_values = {name: array[:0] for name, array in scores.values.items()}
            return SegmentScores.from_values(empty_values, self.signature, {})
        scorer = self.frozen()
        with scorer.engine() as engine:
            raw = engine.score(hypotheses, references, on_progress, warn=warn)
            signature = scorer.signature.compared(scorer.metric, references)
            return SegmentScores.from_values(raw.values, signature, raw.flags)

    def explain(
        self, hypothesis: str, reference: str | Sequence[str] | None = None, source: str | None = None
    ) -> Explanation:
        """Explain the score of a hypothesis: its words, transport plan, and the contribution of each word.

        Args:
            hypothesis: The text to judge.
            reference: Its reference; of several, the one with the best score is explained.
            source: Its source text, for a metric that uses sources.

        Returns:
            The explanation, with ``draw("plan.png")``, ``save("page.html")`` and ``to_dict()``; a notebook shows it as
            an interactive page.

        Raises:
            InputError: If the texts or the metric cannot be explained; see :func:`textmover.scoring.explain.explain`.
        """
        from textmover.scoring.explain import explain

        return explain(self, hypothesis, reference, source)

    def errors(
        self, hypotheses: Texts, references: References | None = None, sources: Sources | None = None
    ) -> MarkedTexts:
        """Mark the errors of each hypothesis: spans of wrong words, and positions where words are missing.

        A metric with a trained error-span head uses it; any other transport metric applies a rule to its plan
        (:func:`~textmover.modules.error_spans.head.plan_rule`). Arguments and exceptions are as in :meth:`score`.

        Returns:
            For each hypothesis a sequence of :class:`~textmover.types.ErrorSpan`, in character offsets of the text.

        Example:
            >>> from textmover import Scorer
            >>> scorer = Scorer.from_pretrained("twmd")  # doctest: +SKIP
            >>> scorer.errors(["It cost 12 euros."], ["It cost 15 euros."])[0].marked()  # doctest: +SKIP
            'It cost [12] euros.'
        """
        from textmover.scoring.error_spans.marking import mark_errors

        return mark_errors(self, hypotheses, references, sources)

    def mbr(
        self,
        candidates: Sequence[Sequence[str]],
        references: Sequence[Sequence[str]] | None = None,
        weights: Sequence[Sequence[float]] | None = None,
        *,
        include_self: bool | None = None,
        matrices: bool = False,
        sources: Sequence[str] | None = None,
    ) -> MbrResult:
        """Choose the best of several candidates for each segment; see :func:`textmover.scoring.mbr.choose`."""
        from textmover.scoring.mbr import choose

        options: dict[str, Any] = {"include_self": include_self, "matrices": matrices, "sources": sources}
        return choose(self, candidates, references, weights, **options)

    def warn(self, counts: Counts, examples: Mapping[str, Sequence[str]] | None = None) -> list[str]:
        """Log and return one warning per flag with the number of flagged segments, by system if the counts are."""
        return self._engine.warn(counts, examples)


def _check_names(overrides: Iterable[str], parameters: Iterable[inspect.Parameter]) -> None:
    """Refuse a misspelt argument of the loader; the configuration refuses misspelt fields."""
    own = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]
    known = {field.name for preset in PRESETS.values() for field in dataclasses.fields(preset.config)}
    for name in (one for one in overrides if one not in known):
        if (near := difflib.get_close_matches(name, [*own, *known], n=1)) and near[0] in own:
            raise InputError(
                f"Expected an argument of the scorer or a field of its metric, but got `{name}`: did you mean "
                f"`{near[0]}`?"
            )


Model = Scorer | SegmentMetric | str | Path | None
"""A scorer, a metric (which may be in training), or the name of one; ``None`` is the default metric."""


def as_scorer(model: Model = None, **options: Any) -> Scorer:
    """Return the scorer of a model; the options of :meth:`Scorer.from_pretrained` are allowed with a name only.

    Example:
        >>> as_scorer(as_scorer("twmd"), device="cpu")  # doctest: +IGNORE_EXCEPTION_DETAIL
        Traceback (most recent call last):
        TypeError: Expected options only where …
    """
    if model is None or isinstance(model, (str, Path)):
        return Scorer.from_pretrained(model, **options)
    if options:
        raise TypeError(
            f"Expected options only where the model is loaded by name, but got {', '.join(options)} with an object: "
            "choose them where the object is made."
        )
    if not isinstance(model, (Scorer, SegmentMetric)):
        raise TypeError(
            f"Expected the model to be a name, a Scorer or a metric, but got {type(model).__name__}: give one of "
            "these, such as Scorer.from_pretrained(…)."
        )
    # Without a cache, since the caller may change the module's weights between calls.
    return model if isinstance(model, Scorer) else Scorer(model, cache=False)


def score(
    hypotheses: Texts,
    references: References | None = None,
    model: str | Path | None = None,
    *,
    sources: Sources | None = None,
    **options: Any,
) -> SegmentScores:
    """Score texts in one call, in input order: ``textmover.score(hypotheses, references)``.

    Each call loads the metric; use a :class:`Scorer` for several calls.

    Args:
        hypotheses: One text, or ``n`` texts.
        references: One text, or for each hypothesis one or several texts.
        model: Checkpoint folder, name of a released metric or preset, or hub id; see :meth:`Scorer.from_pretrained`.
        sources: See :meth:`Scorer.score`.
        **options: As for :meth:`Scorer.from_pretrained`.
    """
    return Scorer.from_pretrained(model, **options).score(hypotheses, references, sources)
