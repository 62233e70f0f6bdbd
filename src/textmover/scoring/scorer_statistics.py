"""Corpus statistics of a scorer, fitted beforehand or for one call."""

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
from textmover.rome.metric import RomeMetric
from textmover.scoring.engine.engine import Engine
from textmover.types import InputError, SegmentMetric, Shown, Signature, View, compared_texts

SHOWN = ("metric", "encoder", "backend", "precision")  # entries of the signature by which a scorer is shown
CallStatistics = Mapping[str, nn.Module]  # fitted idf tables by the names of the statistics that they stand in for


def with_statistics(metric: SegmentMetric, statistics: CallStatistics) -> SegmentMetric:
    """Return a metric that shares all modules of another but the given statistics."""
    own = metric.statistics
    by = {id(own[name]): one.to(metric.device) for name, one in statistics.items()}
    return cast("SegmentMetric", _replaced(cast("nn.Module", metric), by))


def _replaced(module: nn.Module, by: Mapping[int, nn.Module]) -> nn.Module:
    """A shallow copy of the modules that hold a replaced one; all others are shared."""
    if id(module) in by:
        return by[id(module)]
    children = {name: None if one is None else _replaced(one, by) for name, one in module._modules.items()}
    if all(children[name] is one for name, one in module._modules.items()):
        return module
    changed = copy.copy(module)
    changed._modules = children
    return changed


class ScorerStatistics(Shown):
    """A metric with its statistics, and the engine that scores with it."""

    def __init__(self, metric: SegmentMetric, engine: Engine, *, progress: bool) -> None:
        self.metric = metric
        self._engine = engine
        self._progress = progress
        self._release: dict[str, str] = {}  # entry of the signature for a released metric as it is
        self._of_call: CallStatistics | None = None
        self._waits_for_fit: Callable[[SegmentMetric], SegmentMetric] | None = None

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
        """The metric with the idf weights of the last call, where it fits them on each call."""
        return self.frozen().metric

    def frozen(self) -> Self:
        """Return this scorer with its idf weights as they are, whatever later calls fit; it shares cache and metric."""
        statistics = self._of_call  # read once: another thread may set it
        return self if statistics is None or not self.metric.fits_on_call else self._with(statistics)

    def for_call(self, hypotheses: Iterable[str], references: Iterable[Sequence[str]]) -> Self:
        """Return a scorer for the texts of one call, with idf weights of these where the metric fits them on each call.

        Args:
            hypotheses: The texts to judge, which are read at most once, like the references.
            references: For each, one or more texts.

        Returns:
            A scorer that shares cache and metric with this one; no other call changes its weights.
        """
        if not self.metric.fits_on_call:
            return self
        metric = self.metric
        read = (text for one in references for text in compared_texts(metric, [one])[0].texts)
        own = {name: one for name, one in metric.statistics.items() if name.startswith("idf")}
        with lasting():
            tables = {name: cast("nn.Module", copy.deepcopy(one)) for name, one in own.items()}
            with_statistics(metric, tables).fit(read, hypotheses, from_call=True)
        self._settle(with_statistics(metric, tables))
        self._of_call = tables
        return self._with(tables)

    def engine(self) -> contextlib.AbstractContextManager[Engine]:
        """Hold the engine that scores with this metric, and with its idf weights as they are; other threads wait."""
        metric = self.fitted_metric
        # Of what features hold beside their text, self-similarities alone depend on the weights of a call.
        same = isinstance(metric, RomeMetric) or (isinstance(metric, MetricModel) and not metric.is_relative)
        return self._engine.matching_by(metric, "" if same or not metric.fits_on_call else str(metric.signature))

    def _with(self, statistics: CallStatistics) -> Self:
        frozen = copy.copy(self)
        frozen.metric, frozen._of_call = with_statistics(self.metric, statistics), None
        return frozen

    def fit(self, texts: Sequence[str], names: Collection[str] | None = None) -> Self:
        """Fit the statistics that the metric needs on texts, and return the scorer.

        Args:
            texts: The corpus.
            names: Which ones (``mean``, ``idf``, ``idf_hypothesis``, ``baseline``); all that there are if ``None``.

        Raises:
            InputError: If there is nothing to fit, or nothing to fit it on.
        """
        if isinstance(texts, str) or not any(text.strip() for text in texts):
            got = "one text" if isinstance(texts, str) else "none with a word"
            raise InputError(f"Expected `texts` to be a list of texts to fit on, but got {got}.")
        if unknown := next(iter(set(names or ()) - FIT_COMMANDS.keys()), None):
            known = ", ".join(FIT_COMMANDS)
            raise InputError(f"Expected `names` among {known}, but got {unknown!r}: give all texts as `texts`.")
        encoded = [name for name in ("mean", "baseline") if name in (names or self.metric.statistics)]
        with self._progress_bar(len(texts) * max(1, len(encoded)), "fitting") as advance, self._engine.lock:
            self.metric.fit(list(texts), names=names, on_progress=advance)
            return self._settled()

    def fit_on_call(self, hypotheses: Iterable[str], references: Iterable[Sequence[str]]) -> Self:
        """Fit the idf weights on the texts that are to be scored, as metrics want it whose ``fits_on_call`` is true.

        They serve :meth:`score_fitted` and :meth:`score_stream` of the scorer, which is returned, until the next call;
        in several threads, take :meth:`for_call`, whose arguments are the same.

        Raises:
            InputError: If the metric has no idf weights, or has those of a corpus.
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
            return self._settled()

    def save_statistics(self, path: str | Path, names: Sequence[str] | None = None, corpus: str = "") -> Path:
        """Write fitted statistics into a file; see :func:`~textmover.checkpoints.statistics_files.save_statistics`."""
        return save_statistics(self.metric, path, names, corpus)

    def _settled(self) -> Self:
        """The scorer with new statistics: nothing of the old ones is kept, and a precision that waited is chosen."""
        self._settle(self.metric)
        self.clear_cache()
        return self

    def _settle(self, fitted: SegmentMetric) -> None:
        """Choose the precision that waited, given the metric with all its statistics."""
        with self._engine.lock:
            if self._waits_for_fit is None or fitted.needs_fit:
                return
            chosen = self._waits_for_fit(fitted)
            if chosen is not fitted:
                self.metric = self._engine.metric = chosen
            self._waits_for_fit = None

    def clear_cache(self) -> None:
        """Forget what was computed of each text."""
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
    """Refuse sources where the metric does not read them."""
    if not isinstance(metric, ConfiguredMetric):
        raise InputError(f"Expected a metric that reads sources, but got {type(metric).__name__}: leave them out.")
    metric.check_sources()


def check_fitted(metric: SegmentMetric) -> None:
    """Refuse a metric that cannot score yet."""
    if metric.needs_fit:
        raise InputError(
            f"Expected the metric's corpus statistics ({', '.join(unfitted_statistics(metric))}) to be "
            "fitted, but they are not: call `Scorer.fit(texts)`, load a file of them with "
            "`Scorer.load_statistics(path)`, load a checkpoint that holds them, or choose a preset that needs none."
        )
