"""Scores many segments: distinct texts once, in batches of like length, results in input order.

The engine knows a metric through :class:`~textmover.types.SegmentMetric` alone.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import nn

from textmover.scoring.batching import BLOCK, pair_batches, token_batches
from textmover.scoring.pair_table import PairTable
from textmover.scoring.reckoning import Progress, check_finite, unusual
from textmover.scoring.rows import encoded_in_rows, row_groups
from textmover.scoring.text_cache import TextCache
from textmover.scoring.text_chunk import TextChunk
from textmover.scoring.text_table import Reference, TextTable
from textmover.scoring.workers import read_ahead, spread, worker_count
from textmover.types import InputError, PairScores, SegmentMetric, TokenBatch

__all__ = ["Engine", "RawScores", "default_batch_tokens", "unusual"]

logger = logging.getLogger(__name__)

WINDOW = 4096
"""Segments worked on at a time: bounds memory however long the input is."""

WINDOW_BYTES = 3 << 27
"""Memory that the features of their texts may take; one segment at the least."""

AHEAD = 4
"""Batches of tokens that wait for the encoder."""

ROW_GROUPS = 1
"""Groups of tokens that wait for an encoder that reads texts side by side."""

ROW_CHARACTERS = 8
"""Characters to a token of texts that may stand side by side; longer texts are not tried."""

SAMPLE = 64
"""Texts that tell how many tokens there are to a character."""

JOINT_PAIRS = 32
"""Pairs to a batch where texts are read together; the batch of the TWMD paper's scripts."""

ENCODING = 0.9
"""Share of the work on a window that is behind us when its texts are encoded, as progress is told."""

PAIR_TOKENS = 8
"""Tokens of both sides of the pairs that are matched together, as a multiple of those that are encoded together."""

STRETCH = 1 << 18
"""Pairs within groups that are matched before their scores are collected."""


def default_batch_tokens(device: torch.device) -> int:
    """Tokens to a batch of the encoder: what stays in a processor's caches, or what fills a GPU."""
    return 1024 if device.type == "cpu" else 16384


@dataclass
class RawScores:
    """Values by name, float64 ``[n]`` in input order, and how many segments were out of the ordinary."""

    values: dict[str, np.ndarray]
    counts: Counter[str] = field(default_factory=Counter)


class Engine:
    """Runs a metric over lists of segments.

    Args:
        metric: The metric; a ``torch.nn.Module`` on the device to use. It is put into evaluation mode while it scores.
        batch_tokens: Tokens to an encoder batch, padding included; :func:`default_batch_tokens` if ``None``. Where they
            are too many for the memory of a GPU, they are halved until they are not.
        cache: Keep the features of texts between calls.
        cache_bytes: Memory that the kept features may take.
    """

    def __init__(
        self, metric: SegmentMetric, *, batch_tokens: int | None = None, cache: bool = True, cache_bytes: int = 1 << 29
    ) -> None:
        if batch_tokens is not None and batch_tokens < 1:
            raise InputError(f"Expected `batch_tokens` to be at least 1, but got {batch_tokens}.")
        self.metric = metric
        self.batch_tokens = default_batch_tokens(metric.device) if batch_tokens is None else batch_tokens
        self._cache: TextCache[str, TextChunk] = TextCache(cache_bytes if cache else 0)
        self._block = BLOCK
        self._warned: set[str] = set()
        self._lock = threading.RLock()

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_lock": None}  # which neither copies nor other processes share

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state, _lock=threading.RLock())

    @contextlib.contextmanager
    def matching_by(self, metric: SegmentMetric) -> Iterator[Engine]:
        """The engine with another metric in place of its own, whose features of texts are the same ones."""
        with self._lock:
            own, self.metric = self.metric, metric
            try:
                yield self
            finally:
                self.metric = own

    def clear_cache(self) -> None:
        """Forget the features of all texts."""
        with self._lock:
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
        """Score each hypothesis against its references; calls from several threads wait for one another.

        Args:
            hypotheses: ``n`` texts.
            references: For each, one or more texts.
            on_progress: Called with the number of segments that have been finished since the last call, as far as the
                share of the work that is done tells: texts are encoded before pairs are matched.
            warn: Warn of segments that were out of the ordinary; else the caller does, with :meth:`warn`.
            by_pair: Give the values of every pair of a hypothesis and one of its references, not one per segment.

        Returns:
            Values in input order.

        Raises:
            InputError: If the metric gives a value that is not a finite number, or a text is too long for the memory
                of the GPU.
        """
        parts: list[RawScores] = []
        with self._lock, _evaluation_mode(self.metric), torch.inference_mode():
            for rows in self._windows(hypotheses, references):
                progress = Progress(rows.stop - rows.start, on_progress)
                parts.append(self._window(hypotheses[rows], references[rows], rows.start, progress, by_pair))
                progress.reach(1.0)
        counts = sum((part.counts for part in parts), Counter())
        if warn:
            self.warn(counts)
        names = parts[0].values if parts else {"score": None}
        empty = np.zeros(0, dtype=np.float64)
        return RawScores(
            {name: np.concatenate([empty, *(part.values[name] for part in parts)]) for name in names}, counts
        )

    def _window(
        self,
        hypotheses: Sequence[str],
        references: Sequence[Sequence[str]],
        start: int,
        progress: Progress,
        by_pair: bool,
    ) -> RawScores:
        together = self.metric.multi_reference == "all"
        groups: list[tuple[Reference, ...]] = [(tuple(texts),) if together else tuple(texts) for texts in references]
        owners = np.repeat(np.arange(len(hypotheses)), [len(group) for group in groups])
        pairs = [(one, reference) for one, group in zip(hypotheses, groups, strict=True) for reference in group]
        table = self._text_table(_distinct_texts(pairs), progress)
        if table is None:
            if together:
                raise InputError(
                    "Expected texts to be read one by one where multi_reference='all' joins references, but this "
                    "metric reads them together (centering='batch'): choose 'best' or 'mean'."
                )
            scored, where = self._score_jointly(pairs, progress), np.arange(len(pairs))
        else:
            distinct = {pair: index for index, pair in enumerate(dict.fromkeys(pairs))}
            self._add_joined(table, [reference for _, reference in distinct])
            scored = self._score_pairs(list(distinct), table, progress)
            where = np.array([distinct[pair] for pair in pairs])
        flags = {name: np.bincount(owners, values[where]) > 0 for name, values in scored.flags.items()}
        values = {name: array[where] for name, array in scored.values.items()}
        check_finite(values, owners + start)
        if not by_pair:
            values = {name: self._combine(array, owners) for name, array in values.items()}
        return RawScores(values, Counter({name: int(array.sum()) for name, array in flags.items() if array.any()}))

    def score_within(
        self,
        groups: Sequence[Sequence[str]],
        places: Sequence[np.ndarray],
        on_progress: Callable[[int], None] | None = None,
    ) -> tuple[list[np.ndarray], Counter[str]]:
        """Score pairs of the texts of each group; all texts of a group are held together and read once.

        Args:
            groups: ``n`` groups of texts, none of them empty.
            places: Of each group, the places of hypothesis and reference of its pairs, int ``[P, 2]``.
            on_progress: Called with the number of groups that have been finished since the last call.

        Returns:
            The scores of each group's pairs, float64 ``[P]``, and how many groups had a pair out of the ordinary.

        Raises:
            InputError: See :meth:`score`; also if the metric reads texts together.
        """
        found: list[np.ndarray] = []
        counts: Counter[str] = Counter()
        firsts, rests = [group[0] for group in groups], [group[1:] for group in groups]
        with self._lock, _evaluation_mode(self.metric), torch.inference_mode():
            for rows in self._windows(firsts, rests):
                progress = Progress(rows.stop - rows.start, on_progress)
                sizes = [len(pairs) for pairs in places[rows]]
                scores, flags = self._score_groups(groups[rows], places[rows], sizes, rows.start, progress)
                found += np.split(scores, np.cumsum(sizes)[:-1])
                counts += flags
                progress.reach(1.0)
        return found, counts

    def _score_groups(
        self,
        groups: Sequence[Sequence[str]],
        places: Sequence[np.ndarray],
        sizes: Sequence[int],
        start: int,
        progress: Progress,
    ) -> tuple[np.ndarray, Counter[str]]:
        """Scores of the pairs of a window of groups, one behind the other, and the groups out of the ordinary."""
        table = self._text_table(list(dict.fromkeys(text for group in groups for text in group)), progress)
        if table is None:
            raise InputError(
                "Expected a metric that reads texts one by one, but this one reads them together "
                "(centering='batch'), so that the score of a pair depends on other texts: choose another centering."
            )
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
        return scores, Counter({name: int(one.sum()) for name, one in marked.items() if one.any()})

    def _windows(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Iterator[slice]:
        """Stretches of segments that are worked on at a time, a function of their texts alone."""
        start = 0
        while start < len(hypotheses):
            stop = min(start + WINDOW, len(hypotheses))
            texts = [[one, *more] for one, more in zip(hypotheses[start:stop], references[start:stop], strict=True)]
            sizes = np.cumsum([sum(map(len, group)) for group in texts])
            most = WINDOW_BYTES / (self.metric.token_bytes * self._tokens_to_a_character(texts))
            count = max(1, int(np.searchsorted(sizes, most, side="right")))
            yield slice(start, start + count)
            start += count

    def _tokens_to_a_character(self, texts: Sequence[Sequence[str]]) -> float:
        """Of some of the texts, at least one for every twenty."""
        every = max(1, len(texts) // SAMPLE)
        some = [text for group in texts[::every] for text in group[:2]]
        tokens = int(self.metric.tokenize(some).mask.sum())
        return max(tokens / max(1, sum(map(len, some))), 0.05)

    def _combine(self, values: np.ndarray, owners: np.ndarray) -> np.ndarray:
        """One value per segment from those of its references."""
        starts = np.flatnonzero(np.r_[True, owners[1:] != owners[:-1]])
        if self.metric.multi_reference == "mean":
            return np.add.reduceat(values, starts) / np.diff(np.r_[starts, len(owners)])
        best = np.maximum if self.metric.higher_is_better else np.minimum
        return best.reduceat(values, starts)

    # --- texts --------------------------------------------------------------------------------------------------------

    def _text_table(self, texts: list[str], progress: Progress) -> TextTable | None:
        """What is needed of each text, from the cache or made now; ``None`` where texts are read together."""
        table = TextTable()
        for names, chunk in self._cache.find(texts):
            table.add(names, chunk)
        missing = [text for text in texts if text not in table.rows]
        encoded_characters, characters = 0, sum(map(len, missing))
        for names, encoded in self._encoded(missing):
            if encoded is None:
                return None
            table.add(names, encoded)
            self._cache.keep(names, encoded)
            encoded_characters += sum(map(len, names))
            progress.reach(ENCODING * encoded_characters / max(1, characters))
        return table

    def _encoded(self, texts: Sequence[str]) -> Iterator[tuple[list[str], TextChunk | None]]:
        """What is needed of each text, in batches; they are tokenised in a thread of its own."""
        runner = None if self.metric.runnable_encoder is None else self.metric.runnable_encoder.row_runner
        if runner is not None and self.batch_tokens >= math.prod(runner.row_shape):
            longest = ROW_CHARACTERS * runner.row_shape[1]
            short, texts = [one for one in texts if len(one) <= longest], [one for one in texts if len(one) > longest]
            with read_ahead(row_groups(self.metric.tokenize, short, runner), ROW_GROUPS) as groups:
                # One thread more than compute at a time: while it uses what was made, the back-end goes on.
                for rows, chunk in encoded_in_rows(groups, runner, self._encode, self.batch_tokens, self._workers + 1):
                    yield [short[row] for row in rows], chunk
        with read_ahead(self._token_batches(texts), AHEAD) as batches:
            for rows, chunk in spread(self._encode, batches, self._workers):
                yield [texts[row] for row in rows], chunk

    @property
    def _workers(self) -> int:
        encoder = self.metric.runnable_encoder
        return worker_count(self.metric.device) if encoder is None or encoder.concurrent else 1

    def _token_batches(self, texts: Sequence[str]) -> Generator[tuple[list[int], TokenBatch], None, None]:
        return token_batches(self.metric.tokenize, texts, lambda: self.batch_tokens)

    def _encode(self, given: tuple[list[int], TokenBatch]) -> tuple[list[int], TextChunk | None]:
        """Rows as they were given, and what is needed of their texts."""
        rows, batch = given
        return rows, self._chunk(batch)

    def _chunk(self, batch: TokenBatch) -> TextChunk | None:
        try:
            features = self.metric.text_features(batch.to(self.metric.device, non_blocking=True))
        except torch.OutOfMemoryError as error:
            halves = self._halves(len(batch), error)
        else:
            lengths = batch.lengths.numpy()
            return None if features is None else TextChunk(features.pack(lengths), lengths, np.array(batch.truncated))
        longest = int(batch.lengths.max())
        self.batch_tokens = max(1, min(self.batch_tokens, len(batch) * longest) // 2)
        logger.warning(
            "Out of memory on %s: going on with batches of %d tokens.", self.metric.device, self.batch_tokens
        )
        chunks = [self._chunk(batch.select(half)) for half in halves]
        return TextChunk.join([chunk for chunk in chunks if chunk is not None])

    def _halves(self, size: int, error: torch.OutOfMemoryError) -> tuple[range, range]:
        """The rows of a batch that was too large for the memory of the device, as two smaller ones."""
        if size == 1:
            raise InputError(
                f"Expected texts that the memory of {self.metric.device} has room for, but a single one is too long: "
                "set `max_length`, choose a smaller encoder, or score on the CPU with --device cpu."
            ) from error
        if self.metric.device.type == "cuda":
            torch.cuda.empty_cache()
        return range(size // 2), range(size // 2, size)

    def _add_joined(self, table: TextTable, references: Sequence[Reference]) -> None:
        """Several references as one text; a single one is itself."""
        groups = [group for group in dict.fromkeys(references) if not isinstance(group, str)]
        for group in groups:
            if len(group) == 1:
                table.rows[group] = table.rows[group[0]]
        joined = [group for group in groups if len(group) > 1]
        if not joined:
            return
        for group in joined:
            rows = [table.rows[text] for text in group]
            features = self.metric.join([table.pad([row]) for row in rows])
            lengths, truncated = table.lengths[rows].sum(keepdims=True), np.array([table.truncated[rows].any()])
            table.add([group], TextChunk(features.pack(lengths), lengths, truncated))

    # --- pairs --------------------------------------------------------------------------------------------------------

    def _score_pairs(self, pairs: list[tuple[str, Reference]], table: TextTable, progress: Progress) -> PairTable:
        where = np.array([[table.rows[text] for text in pair] for pair in pairs]).reshape(-1, 2)
        return self._match_pairs(table, where, progress)

    def _match_pairs(
        self, table: TextTable, where: np.ndarray, progress: Progress, before: int = 0, total: int | None = None
    ) -> PairTable:
        """Match the pairs of texts ``[P, 2]``, of ``total`` of a window of which those ``before`` them are matched."""
        scored = PairTable(len(where))

        def match(rows: list[int]) -> list[tuple[list[int], PairScores]]:
            return self._match(table, where, rows)

        batches = self._pair_batches(table.lengths[where])
        matched, total = before, total or len(where)
        for found in spread(match, batches, worker_count(self.metric.device)):
            for rows, scores in found:
                scored.put(rows, scores)
                matched += len(rows)
            progress.reach(ENCODING + (1 - ENCODING) * matched / total)
        scored.put_flag("truncated", table.truncated[where].any(axis=1))
        return scored

    def _pair_batches(self, lengths: np.ndarray) -> Iterator[list[int]]:
        return pair_batches(lengths, PAIR_TOKENS * self.batch_tokens, self._block)

    def _match(self, table: TextTable, where: np.ndarray, rows: list[int]) -> list[tuple[list[int], PairScores]]:
        try:
            hypotheses, references = (table.pad(where[rows, side]) for side in (0, 1))
            return [(rows, self.metric.pair_scores(hypotheses, references))]
        except torch.OutOfMemoryError as error:
            halves = self._halves(len(rows), error)
        self._block = max(1, self._block // 2)
        logger.warning("Out of memory on %s: going on with fewer pairs at a time.", self.metric.device)
        return [one for half in halves for one in self._match(table, where, [rows[place] for place in half])]

    def _score_jointly(self, pairs: Sequence[tuple[str, Reference]], progress: Progress) -> PairTable:
        """Pairs whose texts are read together: as they come, since their batch mates matter."""
        table = PairTable(len(pairs))
        for start in range(0, len(pairs), JOINT_PAIRS):
            rows = list(range(start, min(start + JOINT_PAIRS, len(pairs))))
            hypotheses, references = (self.metric.tokenize([str(pairs[row][side]) for row in rows]) for side in (0, 1))
            try:
                scores = self.metric.pair_scores(hypotheses.to(self.metric.device), references.to(self.metric.device))
            except torch.OutOfMemoryError as error:  # fewer of them would have other scores
                raise InputError(
                    f"Expected room in the memory of {self.metric.device} for the {len(rows)} pairs that are read "
                    "together, but there is none: set `max_length`, or score on the CPU with --device cpu."
                ) from error
            cut = [one or other for one, other in zip(hypotheses.truncated, references.truncated, strict=True)]
            table.put(rows, scores, {"truncated": np.array(cut)})
            progress.reach(rows[-1] / len(pairs))
        return table

    def warn(self, counts: Mapping[str, int]) -> None:
        """Say once of each kind how many segments were out of the ordinary."""
        for name, number in counts.items():
            if name not in self._warned:
                self._warned.add(name)
                logger.warning("%s.", unusual(name, number))


class _evaluation_mode:  # noqa: N801 - a context manager reads like a function
    """Evaluation mode inside, the earlier mode of every module afterwards."""

    def __init__(self, metric: SegmentMetric) -> None:
        self.module = metric if isinstance(metric, nn.Module) else None

    def __enter__(self) -> None:
        if self.module is not None:
            self.training = [module for module in self.module.modules() if module.training]
            self.module.eval()

    def __exit__(self, *_: object) -> None:
        if self.module is not None:
            for module in self.training:
                module.training = True


def _distinct_texts(pairs: Sequence[tuple[str, Reference]]) -> list[str]:
    """All texts of the pairs, each once, in order."""
    found: dict[str, None] = {}
    for hypothesis, reference in pairs:
        found[hypothesis] = None
        found.update(dict.fromkeys((reference,) if isinstance(reference, str) else reference))
    return list(found)
