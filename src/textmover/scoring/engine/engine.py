"""Scoring engine: encodes distinct texts once, in batches of similar length, and returns scores in input order."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import torch

from textmover.lazy import new_lock
from textmover.modules.base_metric import ConfiguredMetric
from textmover.modules.devices import scoring_mode
from textmover.modules.tokens.text_flags import FALLBACK, fell_back, same_outputs, side_flags
from textmover.scoring.engine.batches import BLOCK, pair_batches
from textmover.scoring.engine.pair_results import (
    READERS,
    Counts,
    PairTable,
    Progress,
    check_finite,
    pair_flags,
    unusual,
)
from textmover.scoring.engine.text_features import ENCODING, DeviceMemoryError, Reference, TextEncoding, TextTable
from textmover.scoring.engine.threads import map_in_threads, worker_count
from textmover.types import InputError, SegmentMetric, SourcedReferences, compared_texts, plural
from textmover.types.argument_checks import check_bytes

logger = logging.getLogger(__name__)

PairReader = Callable[[Any, Any], Any]  # maps features of hypotheses and of the other texts to one result a pair
WINDOW = 4096  # segments processed at a time; bounds memory for inputs of any length
CACHE_BYTES = 1 << 29  # size limit of the feature cache between calls
WINDOW_BYTES = 3 << 27  # size limit of the features of one window; a window has at least one segment
SAMPLE = 64  # texts sampled to estimate the tokens per character
JOINT_PAIRS = 32  # pairs per batch for metrics that encode texts jointly; the batch size of the TWMD paper's scripts

PAIR_TOKENS = 8
"""Tokens of a batch of pairs, both sides counted, as a multiple of the tokens of a batch of texts."""

STRETCH = 1 << 18  # pairs within groups that are matched before their scores are copied from the device


@dataclass
class RawScores:
    """Scores and components by name, float64 ``[n]`` in input order, and warning flags of segments."""

    values: dict[str, np.ndarray]
    flags: dict[str, np.ndarray] = field(default_factory=dict)
    """Flagged segments by flag, bool ``[n]``; flags without any segment are left out."""

    @property
    def counts(self) -> Counter[str]:
        """Number of flagged segments by flag."""
        return Counter({name: int(marked.sum()) for name, marked in self.flags.items()})


class Engine(TextEncoding):
    """Score lists of segments with a metric in evaluation mode; batches are halved on GPU out-of-memory errors."""

    def __init__(
        self,
        metric: SegmentMetric,
        *,
        batch_tokens: int | None = None,
        cache: bool = True,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        check_bytes("cache_bytes", cache_bytes)
        super().__init__(metric, batch_tokens=batch_tokens, cache_bytes=cache_bytes if cache else 0)
        self._block = BLOCK
        self._warned: set[str] = set()
        self._features = ""
        self.lock = new_lock()  # held while scoring and while the metric's scoring state changes

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "lock": None}  # locks can be neither copied nor pickled

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state, lock=new_lock())

    @contextlib.contextmanager
    def matching_by(self, metric: SegmentMetric, features: str = "") -> Iterator[Engine]:
        """Score with another metric on the same encoder; cached features are dropped if ``features`` changes."""
        with self.lock:
            if features != self._features:
                self._cache.clear()
                self._features = features
            own, self.metric = self.metric, metric
            try:
                yield self
            finally:
                self.metric = own

    def clear_cache(self) -> None:
        """Drop the cached features of all texts."""
        with self.lock:
            self._cache.clear()

    def score(
        self,
        hypotheses: Sequence[str],
        references: Sequence[Sequence[str]],
        on_progress: Callable[[int], None] | None = None,
        *,
        warn: bool = True,
        by_pair: bool = False,
    ) -> RawScores:
        """Score each hypothesis against its references; with ``by_pair`` return one score per reference.

        Sources come with the references, as :class:`~textmover.types.SourcedReferences`. A hypothesis that copies its
        source is scored on its references alone if it has any. Concurrent calls run one after another.
        """
        segments = compared = compared_texts(self.metric, references)
        flags_of_sides = side_flags(hypotheses, compared, self.metric)
        if not by_pair:
            compared = [segment.judging(mark) for segment, mark in zip(compared, flags_of_sides["copied"], strict=True)]
        parts: list[RawScores] = []
        with self.lock, scoring_mode(self.metric):
            waiting: deque[Callable[[], RawScores]] = deque()
            for rows in self._windows(hypotheses, [segment.texts for segment in compared]):
                progress = Progress(len(hypotheses[rows]), on_progress)
                waiting.append(self._window(hypotheses[rows], compared[rows], rows.start, progress, by_pair=by_pair))
                if len(waiting) > self._pending_windows:
                    parts.append(waiting.popleft()())
            parts += [finished() for finished in waiting]
        flags = {
            name: np.concatenate([part.flags[name] for part in parts]) for name in (parts[0].flags if parts else ())
        }
        flags["same output"] = same_outputs(hypotheses, [segment.texts for segment in compared])
        flags |= {name: marked | flags.get(name, False) for name, marked in flags_of_sides.items()}
        if getattr(self.metric, "fallback", False):
            flags[FALLBACK] = fell_back(self.metric, segments)
        for name in ("same output", "repetition", *flags_of_sides):
            for row in np.flatnonzero(flags.get(name, ())).tolist():
                self._remember(name, hypotheses[row])
        names = parts[0].values if parts else {"score": None}
        empty = np.zeros(0, dtype=np.float64)
        values = {name: np.concatenate([empty, *(part.values[name] for part in parts)]) for name in names}
        raw = RawScores(values, {name: marked for name, marked in flags.items() if marked.any()})
        if warn:
            self.warn(raw.counts)
        return raw

    def _window(
        self,
        hypotheses: Sequence[str],
        references: Sequence[SourcedReferences],
        start: int,
        progress: Progress,
        *,
        by_pair: bool,
    ) -> Callable[[], RawScores]:
        """Encode and match one window; return a function that waits for the GPU and collects the scores."""
        together = self.metric.multi_reference == "all"
        joined = [tuple(texts) for texts in references if texts] if together else []
        groups: list[tuple[Reference, ...]] = [
            (*((tuple(texts),) if together and texts else texts), *texts.texts[len(texts) :]) for texts in references
        ]
        owners = np.repeat(np.arange(len(hypotheses)), [len(group) for group in groups])
        pairs = [(text, reference) for text, group in zip(hypotheses, groups, strict=True) for reference in group]
        distinct = {pair: index for index, pair in enumerate(dict.fromkeys(pairs))}
        texts: dict[str, None] = {}
        for hypothesis, reference in distinct:
            texts[hypothesis] = None
            texts.update(dict.fromkeys((reference,) if isinstance(reference, str) else reference))
        table = self._text_table(list(texts), progress)
        if table is None:
            if together:
                raise InputError(
                    "Expected texts to be read one by one where multi_reference='all' joins references, but this "
                    "metric reads them together (centering='batch'): choose 'best' or 'mean'."
                )
            pair_table, pair_rows = self._score_jointly(pairs, progress), np.arange(len(pairs))
        else:
            if together:
                self._add_joined(table, list(dict.fromkeys(joined)))
            rows = np.array([[table.rows[text] for text in pair] for pair in distinct]).reshape(-1, 2)
            pair_table = self._match_pairs(table, rows, progress)
            pair_rows = np.array([distinct[pair] for pair in pairs])
        of_source = np.zeros(len(owners), dtype=bool)
        ends = np.cumsum([len(group) for group in groups]) - 1
        of_source[ends[[texts.source is not None for texts in references]]] = True

        def finished() -> RawScores:
            flags = {name: np.bincount(owners, values[pair_rows]) > 0 for name, values in pair_table.flags.items()}
            values = {name: array[pair_rows] for name, array in pair_table.values.items()}
            check_finite(values, owners + start)
            if not by_pair:
                values = {name: self._combine(name, array, owners, of_source) for name, array in values.items()}
            progress.reach(1.0)
            return RawScores(values, flags)

        return finished

    def score_within(
        self,
        groups: Sequence[Sequence[str]],
        places: Sequence[np.ndarray],
        on_progress: Callable[[int], None] | None = None,
    ) -> tuple[list[np.ndarray], Counter[str]]:
        """Score the pairs ``places``, int ``[P, 2]``, within each group; each text of a group is encoded once."""
        scores_of_groups: list[np.ndarray] = []
        counts: Counter[str] = Counter()
        firsts, rests = [group[0] for group in groups], [group[1:] for group in groups]
        with self.lock, scoring_mode(self.metric):
            for rows in self._windows(firsts, rests):
                progress = Progress(rows.stop - rows.start, on_progress)
                scores, flags = self._score_groups(groups[rows], places[rows], rows.start, progress)
                scores_of_groups += scores
                counts += flags
                progress.reach(1.0)
        return scores_of_groups, counts

    def _score_groups(
        self, groups: Sequence[Sequence[str]], places: Sequence[np.ndarray], first_segment: int, progress: Progress
    ) -> tuple[list[np.ndarray], Counter[str]]:
        """Return the scores of the pairs of each group of a window, and the number of flagged groups by flag."""
        sizes = [len(pairs) for pairs in places]
        table = self._separate_features((text for group in groups for text in group), progress)
        rows = [[table.rows[text] for text in group] for group in groups]
        pair_rows = np.concatenate([np.array(index)[pairs] for index, pairs in zip(rows, places, strict=True)])
        owners = np.repeat(np.arange(len(groups)), sizes)
        scores = np.zeros(len(pair_rows), dtype=np.float64)
        flagged: dict[str, np.ndarray] = {}
        for start_of_chunk in range(0, len(pair_rows), STRETCH):
            chunk = slice(start_of_chunk, start_of_chunk + STRETCH)
            pair_table = self._match_pairs(table, pair_rows[chunk], progress, start_of_chunk, len(pair_rows))
            scores[chunk] = pair_table.values["score"]
            for name, flags in pair_table.flags.items():
                flagged[name] = flagged.get(name, False) | (np.bincount(owners[chunk], flags, len(groups)) > 0)
        check_finite({"score": scores}, owners + first_segment)
        counts = Counter({name: int(marked.sum()) for name, marked in flagged.items() if marked.any()})
        return np.split(scores, np.cumsum(sizes)[:-1]), counts

    def _separate_features(self, texts: Iterable[str], progress: Progress) -> TextTable:
        table = self._text_table(list(dict.fromkeys(texts)), progress)
        if table is None:
            raise InputError(
                "Expected a metric that reads texts one by one, but this one reads them together "
                "(centering='batch'): choose another centering."
            )
        return table

    @property
    def _pending_windows(self) -> int:
        """Windows queued on a GPU before the oldest one's scores are collected; none on a CPU."""
        return 0 if self.metric.device.type == "cpu" else 1

    def _windows(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Iterator[slice]:
        """Yield windows of segments that fit the memory limit; their bounds depend on the texts alone."""
        start = 0
        while start < len(hypotheses):
            stop = min(start + WINDOW, len(hypotheses))
            texts = list(zip(hypotheses[start:stop], references[start:stop], strict=True))
            sizes = np.cumsum([len(text) + sum(map(len, more)) for text, more in texts])
            # Estimate tokens per character; at least 0.05.
            sample = [one for text, more in texts[:: max(1, len(texts) // SAMPLE)] for one in (text, *more[:1])]
            tokens = int(self.metric.tokenize(sample).mask.sum())
            rate = max(tokens / max(1, sum(map(len, sample))), 0.05)
            max_characters = WINDOW_BYTES / (self.metric.token_bytes * rate)
            count = max(1, int(np.searchsorted(sizes, max_characters, side="right")))
            yield slice(start, start + count)
            start += count

    def _combine(self, name: str, values: np.ndarray, owners: np.ndarray, of_source: np.ndarray) -> np.ndarray:
        """Combine the scores of a segment's references and source into one."""
        if not of_source.any():
            return self._over_references(values, owners)
        sides = np.full((2, owners[-1] + 1), np.nan)
        sides[1, owners[of_source]] = values[of_source]
        if not of_source.all():
            rows = np.unique(owners[~of_source])
            sides[0, rows] = self._over_references(values[~of_source], owners[~of_source])
        first, second = torch.from_numpy(sides).to(self.metric.device, torch.float32)
        return cast("ConfiguredMetric", self.metric).combine(first, second, name).cpu().double().numpy()

    def _over_references(self, values: np.ndarray, owners: np.ndarray) -> np.ndarray:
        starts = np.flatnonzero(np.r_[True, owners[1:] != owners[:-1]])
        if self.metric.multi_reference == "mean":
            return np.add.reduceat(values, starts) / np.diff(np.r_[starts, len(owners)])
        best = np.maximum if self.metric.higher_is_better else np.minimum
        return best.reduceat(values, starts)

    def _match_pairs(
        self, table: TextTable, pair_rows: np.ndarray, progress: Progress, start: int = 0, total: int | None = None
    ) -> PairTable:
        """Match pairs of texts ``[P, 2]``; ``start`` and ``total`` locate them among a window's pairs, for progress."""
        scored = PairTable(len(pair_rows))
        matched, total = start, total or len(pair_rows)
        batches = pair_batches(table.lengths[pair_rows], PAIR_TOKENS * self.batch_tokens, self._block)
        match = functools.partial(self._match, table, pair_rows, self.metric.pair_scores)
        for results in map_in_threads(match, batches, worker_count(self.metric.device)):
            for rows, scores in results:
                scored.put(rows, scores)
                matched += len(rows)
            progress.reach(ENCODING + (1 - ENCODING) * matched / total)
        scored.mark(pair_flags(*(table.flags(pair_rows[:, side]) for side in (0, 1))))
        return scored

    def _match(
        self, table: TextTable, pair_rows: np.ndarray, read: PairReader, rows: list[int]
    ) -> list[tuple[list[int], Any]]:
        try:
            for attempt in self._attempts(last=len(rows) == 1):
                with attempt:
                    results = read(*(table.pad(pair_rows[rows, side]) for side in (0, 1)))
        except DeviceMemoryError as error:
            halves = self._halves(len(rows), error)
        else:
            return [(rows, results)]
        self._block = max(1, self._block // 2)
        logger.warning("Out of memory on %s: going on with fewer pairs at a time.", self.metric.device)
        return [one for half in halves for one in self._match(table, pair_rows, read, [rows[place] for place in half])]

    def read_pairs(self, pairs: Sequence[tuple[str, str]], read: PairReader) -> tuple[list[Any], dict[str, np.ndarray]]:
        """Apply ``read`` to the features of pairs; return one result per pair, in order, and the pairs' flags by name.

        ``read`` maps a batch of hypotheses and a batch of the other texts to a sequence with one result per pair.
        """
        results: list[Any] = [None] * len(pairs)
        with self.lock, scoring_mode(self.metric):
            table = self._separate_features((text for pair in pairs for text in pair), Progress(0, None))
            pair_rows = np.array([[table.rows[text] for text in pair] for pair in pairs]).reshape(-1, 2)
            batches = pair_batches(table.lengths[pair_rows], PAIR_TOKENS * self.batch_tokens, self._block)
            match = functools.partial(self._match, table, pair_rows, read)
            for part in map_in_threads(match, batches, worker_count(self.metric.device)):
                for rows, results_of_batch in part:
                    for row, result in zip(rows, results_of_batch, strict=True):
                        results[row] = result
            flags = pair_flags(*(table.flags(pair_rows[:, side]) for side in (0, 1)))
            for row in np.flatnonzero(flags.get("repetition", ())).tolist():
                self._remember("repetition", pairs[row][0])
            return results, flags

    def _score_jointly(self, pairs: Sequence[tuple[str, Reference]], progress: Progress) -> PairTable:
        """Score pairs whose texts are encoded jointly, in input order: scores depend on the other pairs of a batch."""
        table = PairTable(len(pairs))
        for start in range(0, len(pairs), JOINT_PAIRS):
            rows = list(range(start, min(start + JOINT_PAIRS, len(pairs))))
            sides = [self.metric.tokenize([str(pairs[row][side]) for row in rows]) for side in (0, 1)]
            try:
                for attempt in self._attempts(last=True):
                    with attempt:
                        scores = self.metric.pair_scores(*(side.to(self.metric.device) for side in sides))
            except DeviceMemoryError as error:  # smaller batches would change the scores
                raise InputError(
                    f"Expected {plural(len(rows), 'pair')} that are read together to fit into the memory of "
                    f"{self.metric.device}, but they do not: set `max_length`, or score on the CPU with --device cpu."
                ) from error
            table.put(rows, scores)
            table.mark(pair_flags(*map(self._flags, sides)), rows)
            progress.reach(rows[-1] / len(pairs))
        return table

    def warn(self, counts: Counts, examples: Mapping[str, Sequence[str]] | None = None) -> list[str]:
        """Log and return one warning per flag with the number of flagged segments, and with examples if given."""
        messages = []
        for name, texts in (examples or {}).items():
            self._examples.pop(name, None)
            for text in texts:
                self._remember(name, text)
        for name, count in counts.items():
            if name not in self._warned:
                self._warned.add(name)
                examples_shown, languages = list(self._examples.get(name, ())), getattr(self.metric, "languages", ())
                message = unusual(name, count, examples_shown, languages, self.metric)
                for advice in READERS.values():  # log each advice only once
                    message = message.replace(f"; {advice}", "") if advice in self._warned else message
                self._warned.update(advice for advice in READERS.values() if advice in message)
                messages.append(f"{message}.")
                logger.warning("%s", messages[-1])
        return messages
