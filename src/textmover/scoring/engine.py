"""Scores many segments: distinct texts once, in batches of like length, results in input order.

The engine knows a metric through :class:`~textmover.types.SegmentMetric` alone.
"""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from textmover.types import InputError, PairScores, SegmentMetric, TextFeatures

__all__ = ["Engine", "RawScores"]

logger = logging.getLogger(__name__)

WINDOW = 4096
"""Segments worked on at a time: bounds memory however long the input is."""

BLOCK = 1 << 20
"""Largest number of entries of a similarity block."""

JOINT_PAIRS = 32
"""Pairs to a batch where texts are read together; the batch of the TWMD paper's scripts."""

Reference = str | tuple[str, ...]
"""What a hypothesis is paired with: a text, or several that are taken as one."""

VALUES = ("score", "precision", "recall", "f")

WARNINGS = {
    "empty": "had an empty side: their values are those of unrelated texts",
    "unweighted": "had a text whose idf weights are all 0: uniform weights stood in for them",
    "truncated": "had a text that is longer than the encoder allows and was cut",
    "undefined": "had a self-similarity of 0 or below: their value is 0",
    "not converged": "did not converge: raise `max_iterations`, or the temperature",
}


@dataclass
class RawScores:
    """Values by name, float64 ``[n]`` in input order, and how many segments were out of the ordinary."""

    values: dict[str, np.ndarray]
    counts: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class _Text:
    """What is kept of a text: its features, its length in tokens, and whether it was cut."""

    features: TextFeatures
    length: int
    truncated: bool


class Engine:
    """Runs a metric over lists of segments.

    Args:
        metric: The metric; a ``torch.nn.Module`` on the device to use. It is put into evaluation mode while it scores.
        batch_tokens: Tokens to an encoder batch, padding included.
        cache: Keep the features of texts between calls.
        cache_bytes: Memory that the kept features may take.
    """

    def __init__(
        self, metric: SegmentMetric, *, batch_tokens: int = 4096, cache: bool = True, cache_bytes: int = 1 << 29
    ) -> None:
        if batch_tokens < 1:
            raise InputError(f"Expected `batch_tokens` to be at least 1, but got {batch_tokens}.")
        self.metric = metric
        self.batch_tokens = batch_tokens
        self.cache_bytes = cache_bytes if cache else 0
        self._cache: OrderedDict[str, _Text] = OrderedDict()
        self._cached_bytes = 0
        self._warned: set[str] = set()

    def clear_cache(self) -> None:
        """Forget the features of all texts."""
        self._cache.clear()
        self._cached_bytes = 0

    def score(
        self,
        hypotheses: Sequence[str],
        references: Sequence[Sequence[str]],
        on_progress: Callable[[int], None] | None = None,
    ) -> RawScores:
        """Score each hypothesis against its references.

        Args:
            hypotheses: ``n`` texts.
            references: For each, one or more texts.
            on_progress: Called with the number of segments that have been finished since the last call.

        Returns:
            Values in input order.

        Raises:
            InputError: If the metric gives a value that is not a finite number.
        """
        parts: list[RawScores] = []
        with _evaluation_mode(self.metric), torch.inference_mode():
            for start in range(0, len(hypotheses), WINDOW):
                rows = slice(start, start + WINDOW)
                parts.append(self._window(hypotheses[rows], references[rows], start))
                if on_progress is not None:
                    on_progress(len(hypotheses[rows]))
        counts = sum((part.counts for part in parts), Counter())
        self._warn(counts)
        names = parts[0].values if parts else {"score": None}
        empty = np.zeros(0, dtype=np.float64)
        return RawScores(
            {name: np.concatenate([empty, *(part.values[name] for part in parts)]) for name in names}, counts
        )

    def _window(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]], start: int) -> RawScores:
        together = self.metric.multi_reference == "all"
        groups: list[tuple[Reference, ...]] = [(tuple(texts),) if together else tuple(texts) for texts in references]
        owners = np.repeat(np.arange(len(hypotheses)), [len(group) for group in groups])
        pairs = [(one, reference) for one, group in zip(hypotheses, groups, strict=True) for reference in group]
        texts = self._text_features(_distinct_texts(pairs))
        if texts is None:
            if together:
                raise InputError(
                    "Expected texts to be read one by one where multi_reference='all' joins references, but this "
                    "metric reads them together (centering='batch'): choose 'best' or 'mean'."
                )
            scored, where = self._score_jointly(pairs), np.arange(len(pairs))
        else:
            distinct = {pair: index for index, pair in enumerate(dict.fromkeys(pairs))}
            sides: dict[Reference, _Text] = dict(texts.items())
            for _, reference in distinct:
                if reference not in sides:
                    sides[reference] = self._joined([texts[text] for text in reference])
            scored, where = self._score_pairs(list(distinct), sides), np.array([distinct[pair] for pair in pairs])
        flags = {name: np.bincount(owners, values[where]) > 0 for name, values in scored.flags.items()}
        values = {name: self._combine(array[where], owners, name) for name, array in scored.values.items()}
        for name, array in values.items():
            if not np.isfinite(array).all():
                row = int(np.flatnonzero(~np.isfinite(array))[0])
                raise InputError(
                    f"Expected finite values from the metric, but its {name} of segment {start + row + 1} is "
                    f"{array[row]}: the checkpoint's weights are damaged, or its arithmetic overflowed."
                )
        return RawScores(values, Counter({name: int(array.sum()) for name, array in flags.items() if array.any()}))

    def _combine(self, values: np.ndarray, owners: np.ndarray, name: str) -> np.ndarray:
        """One value per segment from those of its references."""
        starts = np.flatnonzero(np.r_[True, owners[1:] != owners[:-1]])
        if self.metric.multi_reference == "mean":
            return np.add.reduceat(values, starts) / np.diff(np.r_[starts, len(owners)])
        best = np.maximum if self.metric.higher_is_better else np.minimum
        return best.reduceat(values, starts)

    def _joined(self, texts: Sequence[_Text]) -> _Text:
        """Several references as one text; a single one is itself."""
        if len(texts) == 1:
            return texts[0]
        features = self.metric.join([text.features for text in texts])
        return _Text(features, sum(text.length for text in texts), any(text.truncated for text in texts))

    def _score_pairs(self, pairs: list[tuple[str, Reference]], texts: Mapping[Reference, _Text]) -> _PairTable:
        table = _PairTable(len(pairs))
        lengths = np.array([[texts[text].length for text in pair] for pair in pairs]).reshape(-1, 2)
        for rows in self._pair_batches(lengths):
            sides = [[texts[pairs[row][side]] for row in rows] for side in (0, 1)]
            collate = type(sides[0][0].features).collate
            scores = self.metric.pair_scores(*(collate([text.features for text in side]) for side in sides))
            table.put(rows, scores)
        table.put_flag("truncated", [texts[h].truncated or texts[r].truncated for h, r in pairs])
        return table

    def _score_jointly(self, pairs: Sequence[tuple[str, Reference]]) -> _PairTable:
        """Pairs whose texts are read together: as they come, since their batch mates matter."""
        table = _PairTable(len(pairs))
        for rows in _chunks(range(len(pairs)), JOINT_PAIRS):
            hypotheses, references = (self.metric.tokenize([str(pairs[row][side]) for row in rows]) for side in (0, 1))
            scores = self.metric.pair_scores(hypotheses.to(self.metric.device), references.to(self.metric.device))
            cut = [one or other for one, other in zip(hypotheses.truncated, references.truncated, strict=True)]
            table.put(rows, scores, {"truncated": np.array(cut)})
        return table

    def _text_features(self, texts: list[str]) -> dict[str, _Text] | None:
        """What is needed of each text, from the cache or made now; ``None`` where texts are read together."""
        found = {text: self._cache[text] for text in texts if text in self._cache}
        for text in found:
            self._cache.move_to_end(text)
        missing = [text for text in texts if text not in found]
        if not missing:
            return found
        tokens = self.metric.tokenize(missing)
        lengths = tokens.lengths.tolist()
        for rows in self._text_batches(lengths):
            features = self.metric.text_features(tokens.select(rows).to(self.metric.device))
            if features is None:
                return None
            for row, one in zip(rows, features.unbind(), strict=True):
                kept = _Text(one, lengths[row], tokens.truncated[row])
                found[missing[row]] = kept
                self._keep(missing[row], kept)
        return found

    def _keep(self, text: str, kept: _Text) -> None:
        if not self.cache_bytes:
            return
        self._cache[text] = kept
        self._cached_bytes += kept.features.nbytes
        while self._cached_bytes > self.cache_bytes:
            _, oldest = self._cache.popitem(last=False)
            self._cached_bytes -= oldest.features.nbytes

    def _text_batches(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """Rows in batches of like length, the longest first, within the token budget."""
        order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
        start = 0
        while start < len(order):
            size = max(1, self.batch_tokens // max(1, lengths[order[start]]))
            yield order[start : start + size]
            start += size

    def _pair_batches(self, lengths: np.ndarray) -> Iterator[list[int]]:
        """Rows in batches of like shape, the largest first, within the size of a similarity block."""
        order = np.lexsort((lengths[:, 0], lengths[:, 1]))[::-1]
        batch: list[int] = []
        width = height = 0
        for row in order.tolist():
            new_width, new_height = max(width, int(lengths[row, 0])), max(height, int(lengths[row, 1]))
            full = (len(batch) + 1) * new_width * new_height > BLOCK
            if batch and (full or (len(batch) + 1) * (new_width + new_height) > 4 * self.batch_tokens):
                yield batch
                batch, new_width, new_height = [], int(lengths[row, 0]), int(lengths[row, 1])
            batch.append(row)
            width, height = new_width, new_height
        if batch:
            yield batch

    def _warn(self, counts: Counter[str]) -> None:
        for name, number in counts.items():
            if name not in self._warned:
                self._warned.add(name)
                logger.warning("%d segment%s %s.", number, "s" if number > 1 else "", WARNINGS.get(name, name))


class _PairTable:
    """Values and flags of pairs, filled batch by batch."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.values: dict[str, np.ndarray] = {}
        self.flags: dict[str, np.ndarray] = {}

    def put(self, rows: Sequence[int], scores: PairScores, flags: dict[str, np.ndarray] | None = None) -> None:
        named: dict[str, Any] = {name: getattr(scores, name) for name in VALUES} | dict(scores.components)
        for name, values in named.items():
            if values is not None:
                self.values.setdefault(name, np.full(self.size, np.nan))[rows] = values.double().cpu().numpy()
        for name, marked in scores.flags.items():
            self.flags.setdefault(name, np.zeros(self.size, dtype=bool))[rows] = marked.cpu().numpy()
        for name, array in (flags or {}).items():
            self.flags.setdefault(name, np.zeros(self.size, dtype=bool))[rows] = array

    def put_flag(self, name: str, marked: Sequence[bool]) -> None:
        self.flags[name] = np.array(marked, dtype=bool)


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


def _chunks(rows: range, size: int) -> Iterator[list[int]]:
    for start in range(0, len(rows), size):
        yield list(rows[start : start + size])
