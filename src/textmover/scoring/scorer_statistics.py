"""Corpus statistics of a scorer, fitted in advance or per call."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

from torch import nn
from typing_extensions import Self

from textmover._version import __version__
from textmover.checkpoints.statistics_files import FIT_COMMANDS, load_statistics, save_statistics, unfitted_statistics
from textmover.modules.base_metric import ConfiguredMetric
from textmover.modules.devices import lasting
from textmover.modules.metric_model import MetricModel
from textmover.modules.tokens.text_arguments import listed_texts
from textmover.modules.tokens.tokenizer import check_string
from textmover.rome.metric import RomeMetric
from textmover.scoring.engine.engine import Engine
from textmover.types import InputError, SegmentMetric, Shown, Signature, View, compared_texts

SHOWN = ("metric", "encoder", "backend", "precision")  # signature entries in the repr of a scorer
CallStatistics = Mapping[str, nn.Module]  # fitted idf tables by the name of the statistic they replace


def with_statistics(metric: SegmentMetric, statistics: CallStatistics) -> SegmentMetric:
    """Return a metric with the given statistics that shares all other modules with ``metric``."""
    current = metric.statistics
    replacements = {id(current[name]): module.to(metric.device) for name, module in statistics.items()}
    return cast("SegmentMetric", _replaced(cast("nn.Module", metric), replacements))


def _replaced(module: nn.Module, replacements: Mapping[int, nn.Module]) -> nn.Module:
    """Copy the modules that contain a replaced one, shallowly; all others are shared."""
    if id(module) in replacements:
        return replacements[id(module)]
    children = {name: None if one is None else _replaced(one, replacements) for name, one in module._modules.items()}
    if all(children[name] is one for name, one in module._modules.items()):
        return module
    changed = copy.copy(module)
    changed._modules = children
    return changed


class ScorerStatistics(Shown):
    """A metric with its statistics, and its scoring engine."""

    def __init__(self, metric: SegmentMetric, engine: Engine, *, progress: bool) -> None:
        self.metric = metric
        self._engine = engine
        self._progress = progress
        self._release: dict[str, str] = {}  # signature entry of an unmodified released metric
        self._of_call: CallStatistics | None = None
        self._choose_precision: Callable[[SegmentMetric], SegmentMetric] | None = None

    @property
    def signature(self) -> Signature:
        """Everything that the scores depend on: version, release, metric, encoder and its hash, arithmetic."""
        return Signature({"textmover": __version__, **self._release, **self.fitted_metric.signature.entries})

    def __repr__(self) -> str:
        entries = self.signature.entries
        return f"Scorer({', '.join(entries[name] for name in SHOWN if name in entries)})"

    def view(self) -> View:
        """Show the signature."""
        return self.signature.view()._replace(headline=repr(self))

    @property
    def fitted_metric(self) -> SegmentMetric:
        """The metric, with the idf weights of the last call if it fits them per call."""
        return self.frozen().metric

    def frozen(self) -> Self:
        """Return this scorer with its present idf weights fixed; it shares cache and metric."""
        statistics = self._of_call  # read once: another thread may set it
        return self if statistics is None or not self.metric.fits_on_call else self._with(statistics)

    def for_call(self, hypotheses: Iterable[str], references: Iterable[Sequence[str]]) -> Self:
        """Return a scorer for the texts of one call, with idf weights fitted on them if the metric fits them per call.

        Args:
            hypotheses: Texts to judge; read at most once, like the references.
            references: For each, one or more texts.

        Returns:
            A scorer that shares cache and metric with this one; other calls do not change its idf weights.
        """
        if not self.metric.fits_on_call:
            return self
        metric = self.metric
        texts = (text for group in references for text in compared_texts(metric, [group])[0].texts)
        current = {name: table for name, table in metric.statistics.items() if name.startswith("idf")}
        with lasting():
            tables = {name: cast("nn.Module", copy.deepcopy(table)) for name, table in current.items()}
            with_statistics(metric, tables).fit(texts, hypotheses, from_call=True)
        self._apply_choice(with_statistics(metric, tables))
        self._of_call = tables
        return self._with(tables)

    def engine(self) -> contextlib.AbstractContextManager[Engine]:
        """Lock the engine and let it score with this metric and its present idf weights; other threads wait."""
        metric = self.fitted_metric
        # Cached self-similarities depend on the idf weights of a call; all other cached features do not.
        same = isinstance(metric, RomeMetric) or (isinstance(metric, MetricModel) and not metric.is_relative)
        return self._engine.matching_by(metric, "" if same or not metric.fits_on_call else str(metric.signature))

    def _with(self, statistics: CallStatistics) -> Self:
        frozen = copy.copy(self)
        frozen.metric, frozen._of_call = with_statistics(self.metric, statistics), None
        return frozen

    def fit(self, texts: Sequence[str], names: Collection[str] | None = None) -> Self:
        """Fit the metric's statistics on texts, and return the scorer.

        Args:
            texts: The corpus.
            names: Statistics to fit (``mean``, ``idf``, ``idf_hypothesis``, ``baseline``); ``None`` fits all.

        Raises:
            InputError: If there is nothing to fit, or no text to fit it on.
            TypeError: If a text is not a string.
        """
        listed = [check_string(text, place) for place, text in enumerate(listed_texts(texts, "texts"))]
        if isinstance(texts, str) or not any(text.strip() for text in listed):
            got = "one text" if isinstance(texts, str) else "none with a word"
            raise InputError(f"Expected `texts` to be a list of texts to fit on, but got {got}.")
        if unknown := next(iter(set(names or ()) - FIT_COMMANDS.keys()), None):
            known = ", ".join(FIT_COMMANDS)
            raise InputError(f"Expected `names` among {known}, but got {unknown!r}: give all texts as `texts`.")
        encoded = [name for name in ("mean", "baseline") if name in (names or self.metric.statistics)]
        with self._progress_bar(len(listed) * max(1, len(encoded)), "fitting") as advance, self._engine.lock:
            self.metric.fit(listed, names=names, on_progress=advance)
            return self._after_fit()

    def fit_on_call(self, hypotheses: Iterable[str], references: Iterable[Sequence[str]]) -> Self:
        """Fit idf weights on the texts to score, for metrics whose ``fits_on_call`` is true; return the scorer.

        :meth:`score_fitted` and :meth:`score_stream` of this scorer use these weights until the next call. In several
        threads, use :meth:`for_call`, which takes the same arguments.

        Raises:
            InputError: If the metric has no idf weights, or those of a corpus.
        """
        if not self.metric.fits_on_call:
            raise InputError(
                "Expected a metric that fits idf weights on the texts of each call, but this one has none, or those of "
                "a corpus: call `Scorer.fit(texts)` for statistics of a corpus."
            )
        self.for_call(hypotheses, references)
        return self

    def load_statistics(self, *paths: str | Path) -> Self:
        """Load fitted statistics from files of :meth:`save_statistics` or ``textmover fit-…``, and return the scorer.

        Raises:
            InputError: If a file cannot be used, or was fitted for another encoder, layer or metric.
        """
        with self._engine.lock:
            load_statistics(self.metric, *paths)
            return self._after_fit()

    def save_statistics(self, path: str | Path, names: Sequence[str] | None = None, corpus: str = "") -> Path:
        """Write fitted statistics to a file; see :func:`~textmover.checkpoints.statistics_files.save_statistics`."""
        return save_statistics(self.metric, path, names, corpus)

    def _after_fit(self) -> Self:
        """Apply new statistics: clear the cache, and choose a pending ``auto`` precision."""
        self._apply_choice(self.metric)
        self.clear_cache()
        return self

    def _apply_choice(self, fitted: SegmentMetric) -> None:
        """Choose a pending ``auto`` precision, if ``fitted`` has all its statistics."""
        with self._engine.lock:
            if self._choose_precision is None or fitted.needs_fit:
                return
            chosen = self._choose_precision(fitted)
            if chosen is not fitted:
                self.metric = self._engine.metric = chosen
            self._choose_precision = None

    def clear_cache(self) -> None:
        """Empty the feature cache."""
        self._engine.clear_cache()

    @contextlib.contextmanager
    def _progress_bar(self, total: int | None, name: str = "scoring") -> Iterator[Callable[[int], None] | None]:
        if not self._progress:
            yield None
            return
        from textmover.terminal import progress_bars

        with progress_bars(shown=True) as advance:
            advance(name, 0, total)
            yield lambda done: advance(name, done, total)


def check_sources(metric: SegmentMetric) -> None:
    """Raise an error if the metric does not use sources."""
    if not isinstance(metric, ConfiguredMetric):
        raise InputError(f"Expected a metric that reads sources, but got {type(metric).__name__}: leave them out.")
    metric.check_sources()


def check_fitted(metric: SegmentMetric) -> None:
    """Raise an error if the metric has unfitted statistics."""
    if metric.needs_fit:
        raise InputError(
            f"Expected the metric's corpus statistics ({', '.join(unfitted_statistics(metric))}) to be "
            "fitted, but they are not: call `Scorer.fit(texts)`, load a file of them with "
            "`Scorer.load_statistics(path)`, load a checkpoint that holds them, or choose a preset that needs none."
        )
