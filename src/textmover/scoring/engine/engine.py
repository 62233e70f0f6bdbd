"""Scores many segments: distinct texts once, in batches of like length, results in input order."""

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

from textmover.modules.base_metric import ConfiguredMetric
from textmover.modules.devices import new_lock, scoring_mode
from textmover.modules.tokens.reliability_flags import FALLBACK, fell_back, same_outputs, side_flags
from textmover.scoring.engine.batches import BLOCK, pair_batches
from textmover.scoring.engine.pair_table import READERS, Counts, PairTable, Progress, check_finite, pair_flags, unusual
from textmover.scoring.engine.text_features import ENCODING, NoRoomError, Reference, TextTable, TextWork
from textmover.scoring.engine.threads import spread, worker_count
from textmover.types import InputError, SegmentMetric, SourcedReferences, compared_texts, plural

logger = logging.getLogger(__name__)

PairReader = Callable[[Any, Any], Any]  # features of hypotheses and of other texts to what is wanted of the pairs
WINDOW = 4096  # segments worked on at a time: bounds memory however long the input is
CACHE_BYTES = 1 << 29  # memory that the features of texts may take between calls
WINDOW_BYTES = 3 << 27  # memory that the features of their texts may take; one segment at the least
SAMPLE = 64  # texts that tell how many tokens there are to a character
JOINT_PAIRS = 32  # pairs to a batch where texts are read together; the batch of the TWMD paper's scripts

PAIR_TOKENS = 8
"""Tokens of both sides of the pairs that are matched together, as a multiple of those that are encoded together."""

STRETCH = 1 << 18  # pairs within groups that are matched before their scores are collected


@dataclass
class RawScores:
    """Values by name, float64 ``[n]`` in input order, and flags of segments."""

    values: dict[str, np.ndarray]
    flags: dict[str, np.ndarray] = field(default_factory=dict)
    """Segments that are out of the ordinary by kind, bool ``[n]``; kinds without one are left out."""

    @property
    def counts(self) -> Counter[str]:
        """Number of flagged segments by kind."""
        return Counter({name: int(marked.sum()) for name, marked in self.flags.items()})


class Engine(TextWork):
    """Runs a metric, in evaluation mode, over lists of segments; batches are halved until they fit a GPU's memory."""

    def __init__(
        self,
        metric: SegmentMetric,
        *,
        batch_tokens: int | None = None,
        cache: bool = True,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        if cache_bytes < 0:
            raise InputError(f"Expected `cache_bytes` to be at least 0, but got {cache_bytes}.")
        super().__init__(metric, batch_tokens=batch_tokens, cache_bytes=cache_bytes if cache else 0)
        self._block = BLOCK
        self._warned: set[str] = set()
        self._features = ""
        self.lock = new_lock()  # held by whoever scores, or changes what the metric scores with

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "lock": None}  # which neither copies nor other processes share

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state, lock=new_lock())

    @contextlib.contextmanager
    def matching_by(self, metric: SegmentMetric, features: str = "") -> Iterator[Engine]:
        """Score with another metric on the same encoder; kept features go where ``features`` names others."""
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
        """Forget the features of all texts."""
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
        """Score each hypothesis against its references, one call at a time; ``by_pair`` does not combine references.

        Sources stand beside the references, as :class:`~textmover.types.SourcedReferences`; a hypothesis that is its
        source is judged by its references alone, where it has any.
        """
        given = compared = compared_texts(self.metric, references)
        of_sides = side_flags(hypotheses, compared, getattr(self.metric, "languages", ()))
        if not by_pair:
            compared = [one.judging(mark) for one, mark in zip(compared, of_sides["copied"], strict=True)]
        parts: list[RawScores] = []
        with self.lock, scoring_mode(self.metric):
            waiting: deque[Callable[[], RawScores]] = deque()
            for rows in self._windows(hypotheses, [one.texts for one in compared]):
                progress = Progress(len(hypotheses[rows]), on_progress)
                waiting.append(self._window(hypotheses[rows], compared[rows], rows.start, progress, by_pair=by_pair))
                if len(waiting) > self._ahead:
                    parts.append(waiting.popleft()())
            parts += [finished() for finished in waiting]
        flags = {
            name: np.concatenate([part.flags[name] for part in parts]) for name in (parts[0].flags if parts else ())
        }
        flags["same output"] = same_outputs(hypotheses, [one.texts for one in compared])
        flags |= of_sides
        if getattr(self.metric, "fallback", False):
            flags[FALLBACK] = fell_back(self.metric, given)
        for name in ("same output", *of_sides):
            for row in np.flatnonzero(flags[name]).tolist():
                self._remember(name, hypotheses[row])
        names = parts[0].values if parts else {"score": None}
        empty = np.zeros(0, dtype=np.float64)
        values = {name: np.concatenate([empty, *(part.values[name] for part in parts)]) for name in names}
        found = RawScores(values, {name: marked for name, marked in flags.items() if marked.any()})
        if warn:
            self.warn(found.counts)
        return found

    def _window(
        self,
        hypotheses: Sequence[str],
        references: Sequence[SourcedReferences],
        start: int,
        progress: Progress,
        *,
        by_pair: bool,
    ) -> Callable[[], RawScores]:
        """Encode the texts of some segments and match their pairs; the call of what is returned waits for a GPU."""
        together = self.metric.multi_reference == "all"
        joined = [tuple(texts) for texts in references if texts] if together else []
        groups: list[tuple[Reference, ...]] = [
            (*((tuple(texts),) if together and texts else texts), *texts.texts[len(texts) :]) for texts in references
        ]
        owners = np.repeat(np.arange(len(hypotheses)), [len(group) for group in groups])
        pairs = [(one, reference) for one, group in zip(hypotheses, groups, strict=True) for reference in group]
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
            scored, where = self._score_jointly(pairs, progress), np.arange(len(pairs))
        else:
            if together:
                self._add_joined(table, list(dict.fromkeys(joined)))
            rows = np.array([[table.rows[text] for text in pair] for pair in distinct]).reshape(-1, 2)
            scored = self._match_pairs(table, rows, progress)
            where = np.array([distinct[pair] for pair in pairs])
        of_source = np.zeros(len(owners), dtype=bool)
        ends = np.cumsum([len(group) for group in groups]) - 1
        of_source[ends[[texts.source is not None for texts in references]]] = True

        def finished() -> RawScores:
            flags = {name: np.bincount(owners, values[where]) > 0 for name, values in scored.flags.items()}
            values = {name: array[where] for name, array in scored.values.items()}
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
        """Score pairs within each group, whose ``places`` are int ``[P, 2]``; all texts of a group are read once."""
        found: list[np.ndarray] = []
        counts: Counter[str] = Counter()
        firsts, rests = [group[0] for group in groups], [group[1:] for group in groups]
        with self.lock, scoring_mode(self.metric):
            for rows in self._windows(firsts, rests):
                progress = Progress(rows.stop - rows.start, on_progress)
                scores, flags = self._score_groups(groups[rows], places[rows], rows.start, progress)
                found += scores
                counts += flags
                progress.reach(1.0)
        return found, counts

    def _score_groups(
        self, groups: Sequence[Sequence[str]], places: Sequence[np.ndarray], start: int, progress: Progress
    ) -> tuple[list[np.ndarray], Counter[str]]:
        """Scores of the pairs of each group of a window, and the number of groups out of the ordinary by flag."""
        sizes = [len(pairs) for pairs in places]
        table = self._own_features((text for group in groups for text in group), progress)
        rows = [[table.rows[text] for text in group] for group in groups]
        where = np.concatenate([np.array(one)[pairs] for one, pairs in zip(rows, places, strict=True)])
        owners = np.repeat(np.arange(len(groups)), sizes)
        scores = np.zeros(len(where), dtype=np.float64)
        marked: dict[str, np.ndarray] = {}
        for first in range(0, len(where), STRETCH):
            stretch = slice(first, first + STRETCH)
            scored = self._match_pairs(table, where[stretch], progress, first, len(where))
            scores[stretch] = scored.values["score"]
            for name, flags in scored.flags.items():
                marked[name] = marked.get(name, False) | (np.bincount(owners[stretch], flags, len(groups)) > 0)
        check_finite({"score": scores}, owners + start)
        counts = Counter({name: int(one.sum()) for name, one in marked.items() if one.any()})
        return np.split(scores, np.cumsum(sizes)[:-1]), counts

    def _own_features(self, texts: Iterable[str], progress: Progress) -> TextTable:
        table = self._text_table(list(dict.fromkeys(texts)), progress)
        if table is None:
            raise InputError(
                "Expected a metric that reads texts one by one, but this one reads them together "
                "(centering='batch'): choose another centering."
            )
        return table

    @property
    def _ahead(self) -> int:
        """Windows handed to a GPU before the values of the last one are asked for; a processor gains nothing."""
        return 0 if self.metric.device.type == "cpu" else 1

    def _windows(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Iterator[slice]:
        """Stretches of segments that are worked on at a time, a function of their texts alone."""
        start = 0
        while start < len(hypotheses):
            stop = min(start + WINDOW, len(hypotheses))
            texts = [[one, *more] for one, more in zip(hypotheses[start:stop], references[start:stop], strict=True)]
            sizes = np.cumsum([sum(map(len, group)) for group in texts])
            # Tokens to a character, from at least every twentieth text.
            some = [text for group in texts[:: max(1, len(texts) // SAMPLE)] for text in group[:2]]
            tokens = int(self.metric.tokenize(some).mask.sum())
            rate = max(tokens / max(1, sum(map(len, some))), 0.05)
            most = WINDOW_BYTES / (self.metric.token_bytes * rate)
            count = max(1, int(np.searchsorted(sizes, most, side="right")))
            yield slice(start, start + count)
            start += count

    def _combine(self, name: str, values: np.ndarray, owners: np.ndarray, of_source: np.ndarray) -> np.ndarray:
        """One value per segment from those of its references and its source."""
        if not of_source.any():
            return self._over_references(values, owners)
        sides = np.full((2, owners[-1] + 1), np.nan)
        sides[1, owners[of_source]] = values[of_source]
        if not of_source.all():
            rows = np.unique(owners[~of_source])
            sides[0, rows] = self._over_references(values[~of_source], owners[~of_source])
        first, second = torch.from_numpy(sides).to(self.metric.device, torch.float32)
        combined: np.ndarray = cast("ConfiguredMetric", self.metric).combine(first, second, name).cpu().double().numpy()
        return combined

    def _over_references(self, values: np.ndarray, owners: np.ndarray) -> np.ndarray:
        starts = np.flatnonzero(np.r_[True, owners[1:] != owners[:-1]])
        if self.metric.multi_reference == "mean":
            return np.add.reduceat(values, starts) / np.diff(np.r_[starts, len(owners)])
        best = np.maximum if self.metric.higher_is_better else np.minimum
        return best.reduceat(values, starts)

    def _match_pairs(
        self, table: TextTable, where: np.ndarray, progress: Progress, before: int = 0, total: int | None = None
    ) -> PairTable:
        """Match the pairs of texts ``[P, 2]``, of ``total`` of a window of which those ``before`` them are matched."""
        scored = PairTable(len(where))
        matched, total = before, total or len(where)
        batches = pair_batches(table.lengths[where], PAIR_TOKENS * self.batch_tokens, self._block)
        match = functools.partial(self._match, table, where, self.metric.pair_scores)
        for found in spread(match, batches, worker_count(self.metric.device)):
            for rows, scores in found:
                scored.put(rows, scores)
                matched += len(rows)
            progress.reach(ENCODING + (1 - ENCODING) * matched / total)
        scored.mark(pair_flags(*(table.flags(where[:, side]) for side in (0, 1))))
        return scored

    def _match(
        self, table: TextTable, where: np.ndarray, read: PairReader, rows: list[int]
    ) -> list[tuple[list[int], Any]]:
        try:
            for attempt in self._attempts(last=len(rows) == 1):
                with attempt:
                    found = read(*(table.pad(where[rows, side]) for side in (0, 1)))
        except NoRoomError as error:
            halves = self._halves(len(rows), error)
        else:
            return [(rows, found)]
        self._block = max(1, self._block // 2)
        logger.warning("Out of memory on %s: going on with fewer pairs at a time.", self.metric.device)
        return [one for half in halves for one in self._match(table, where, read, [rows[place] for place in half])]

    def read_pairs(self, pairs: Sequence[tuple[str, str]], read: PairReader) -> tuple[list[Any], dict[str, np.ndarray]]:
        """Read the features of pairs of texts: a result for each, in order, and their flags, bool ``[n]`` by name.

        ``read`` makes a sequence of as many results of a batch of hypotheses and one of other texts.
        """
        results: list[Any] = [None] * len(pairs)
        with self.lock, scoring_mode(self.metric):
            table = self._own_features((text for pair in pairs for text in pair), Progress(0, None))
            where = np.array([[table.rows[text] for text in pair] for pair in pairs]).reshape(-1, 2)
            batches = pair_batches(table.lengths[where], PAIR_TOKENS * self.batch_tokens, self._block)
            match = functools.partial(self._match, table, where, read)
            for part in spread(match, batches, worker_count(self.metric.device)):
                for rows, found in part:
                    for row, one in zip(rows, found, strict=True):
                        results[row] = one
            return results, pair_flags(*(table.flags(where[:, side]) for side in (0, 1)))

    def _score_jointly(self, pairs: Sequence[tuple[str, Reference]], progress: Progress) -> PairTable:
        """Pairs whose texts are read together: as they come, since their batch mates matter."""
        table = PairTable(len(pairs))
        for start in range(0, len(pairs), JOINT_PAIRS):
            rows = list(range(start, min(start + JOINT_PAIRS, len(pairs))))
            sides = [self.metric.tokenize([str(pairs[row][side]) for row in rows]) for side in (0, 1)]
            try:
                for attempt in self._attempts(last=True):
                    with attempt:
                        scores = self.metric.pair_scores(*(side.to(self.metric.device) for side in sides))
            except NoRoomError as error:  # fewer of them would have other scores
                raise InputError(
                    f"Expected {plural(len(rows), 'pair')} that are read together to fit into the memory of "
                    f"{self.metric.device}, but they do not: set `max_length`, or score on the CPU with --device cpu."
                ) from error
            table.put(rows, scores)
            table.mark(pair_flags(*map(self._flags, sides)), rows)
            progress.reach(rows[-1] / len(pairs))
        return table

    def warn(self, counts: Counts, examples: Mapping[str, Sequence[str]] | None = None) -> None:
        """Say once of each kind how many segments were out of the ordinary, with the given examples of them."""
        for name, texts in (examples or {}).items():
            self._examples.pop(name, None)
            for text in texts:
                self._remember(name, text)
        for name, number in counts.items():
            if name not in self._warned:
                self._warned.add(name)
                shown, languages = list(self._examples.get(name, ())), getattr(self.metric, "languages", ())
                told = unusual(name, number, shown, languages, self.metric)
                for way in READERS.values():  # each once
                    told = told.replace(f"; {way}", "") if way in self._warned else told
                self._warned.update(way for way in READERS.values() if way in told)
                logger.warning("%s.", told)
