"""Compute the features of each distinct text: tokenise ahead, encode in batches or rows, and cache."""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from textmover.modules.devices import weights_version
from textmover.modules.tokens.text_flags import other_script, text_flags
from textmover.scoring.cache.text_cache import TextCache
from textmover.scoring.engine.batches import encoded_in_rows, row_groups, token_batches
from textmover.scoring.engine.pair_results import Progress
from textmover.scoring.engine.threads import map_in_threads, prefetch, worker_count
from textmover.types import InputError, PackedFeatures, SegmentMetric, TextFeatures, TokenBatch, check_whole


@dataclass(frozen=True, eq=False)
class TextChunk:
    """Features, lengths and flags of ``N`` texts."""

    features: PackedFeatures
    lengths: np.ndarray  # tokens of each, int64 `[N]`
    flags: Mapping[str, np.ndarray]
    """Flags by name, bool ``[N]``, from :func:`text_flags`."""

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def nbytes(self) -> int:
        """Size of the features in bytes."""
        return self.features.nbytes

    def select(self, rows: Sequence[int]) -> TextChunk:
        """Return the texts at the given rows."""
        flags = {name: marked[rows] for name, marked in self.flags.items()}
        return TextChunk(self.features.select(rows), self.lengths[rows], flags)


Reference = str | tuple[str, ...]  # a text, or several references that are joined to one


class TextTable:
    """Features of texts, indexed by the text or by the tuple of joined references."""

    def __init__(self) -> None:
        self.rows: dict[Any, int] = {}
        self._chunks: list[TextChunk] = []
        self._size = 0

    def add(self, names: Sequence[Reference], chunk: TextChunk) -> None:
        """Add a chunk of texts under their names."""
        start, self._size = self._size, self._size + len(names)
        self.rows.update(zip(names, range(start, self._size), strict=True))
        self._chunks.append(chunk)

    def pad(self, rows: Sequence[int] | np.ndarray) -> TextFeatures:
        """Return the features of the texts at ``rows``, padded to one batch."""
        features, sizes = [chunk.features for chunk in self._chunks], list(map(len, self._chunks))
        ends = np.cumsum(sizes)
        owners = np.searchsorted(ends, rows, side="right")
        return type(features[0]).pad(features, np.stack([owners, rows - (ends - sizes)[owners]], axis=1))

    @property
    def lengths(self) -> np.ndarray:
        """Number of tokens of each text, int64 ``[N]``."""
        return np.concatenate([chunk.lengths for chunk in self._chunks])

    def flags(self, rows: np.ndarray | slice) -> dict[str, np.ndarray]:
        """Flags by name of the texts at ``rows``."""
        names = self._chunks[0].flags
        return {name: np.concatenate([chunk.flags[name] for chunk in self._chunks])[rows] for name in names}


logger = logging.getLogger(__name__)

AHEAD = 4  # batches of tokens queued for the encoder
EXAMPLES, SHOWN = 3, 40  # examples in a warning, and characters shown of each
ROW_CHARACTERS = 8  # characters per token; texts too long for a row by this estimate are not tried in rows
ENCODING = 0.9  # share of the progress of a window that encoding counts for; matching is the rest


SIGNS = (
    "CUDA out of memory",
    "CUDA error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "CUSOLVER_STATUS_ALLOC_FAILED",
    "HIP out of memory",
    "MPS backend out of memory",
)
"""Out-of-memory messages of errors that are not raised by torch's allocator."""


class DeviceMemoryError(RuntimeError):
    """The device ran out of memory; the tensors of the failed attempt are freed."""


@contextlib.contextmanager
def _collect_memory_errors(errors: list[RuntimeError]) -> Iterator[None]:
    """Append out-of-memory errors of any library to ``errors`` instead of raising them; raise all others."""
    try:
        yield
    except RuntimeError as error:
        if not isinstance(error, torch.OutOfMemoryError) and not any(sign in str(error) for sign in SIGNS):
            raise
        errors.append(error.with_traceback(None))  # frames of the traceback hold the tensors of the attempt


Attempts = Iterator[contextlib.AbstractContextManager[None]]


def out_of_memory_retries(device: torch.device, *, last: bool, spare: Callable[[], bool] = lambda: False) -> Attempts:
    """Yield contexts to try work in; retry once if ``spare`` freed memory or the batch cannot be split (``last``)."""
    for retry in (True, False):
        errors: list[RuntimeError] = []
        yield _collect_memory_errors(errors)
        if not errors:
            return
        retry = retry and (spare() or last)
        if device.type == "cuda":
            torch.cuda.empty_cache()
        if not retry:
            raise DeviceMemoryError(str(errors[0])) from errors[0]


def default_batch_tokens(metric: SegmentMetric) -> int:
    """Return the default tokens per batch: few for an encoder on a CPU, more for a table look-up and on a GPU."""
    return 1024 if metric.device.type == "cpu" and metric.runnable_encoder is not None else 16384


class TextEncoding:
    """The part of the engine that encodes texts; if the device runs out of memory, cached features go first."""

    def __init__(self, metric: SegmentMetric, *, batch_tokens: int | None, cache_bytes: int) -> None:
        if batch_tokens is not None:
            check_whole("batch_tokens", batch_tokens, alternative=" or None")
        self.metric = metric
        self.batch_tokens = default_batch_tokens(metric) if batch_tokens is None else batch_tokens
        self._cache: TextCache[str, TextChunk] = TextCache(cache_bytes)
        self._version = weights_version(metric)
        self._warned_of_memory = False
        self._examples: dict[str, dict[str, None]] = {}

    def _text_table(self, texts: list[str], progress: Progress) -> TextTable | None:
        """Return the features of each text, cached or new; ``None`` if the metric encodes texts jointly."""
        table = TextTable()
        version = weights_version(self.metric)
        if version != self._version:
            self._cache.clear()  # the metric was trained since the last call
            self._version = version
        for attempt in self._attempts(last=True):
            with attempt:
                cached = self._cache.find(texts)
        for names, chunk in cached:
            table.add(names, chunk)
        texts_to_encode = [text for text in texts if text not in table.rows]
        encoded_characters, characters = 0, sum(map(len, texts_to_encode))
        for names, encoded in self._encoded(texts_to_encode):
            if encoded is None:
                return None
            table.add(names, encoded)
            self._cache.keep(names, encoded)
            encoded_characters += sum(map(len, names))
            progress.reach(ENCODING * encoded_characters / max(1, characters))
        return table

    def _encoded(self, texts: Sequence[str]) -> Iterator[tuple[list[str], TextChunk | None]]:
        """Yield features batch by batch; a thread tokenises ahead."""
        runner = None if self.metric.runnable_encoder is None else self.metric.runnable_encoder.row_runner
        if runner is not None and self.batch_tokens >= math.prod(runner.row_shape):
            longest = ROW_CHARACTERS * runner.row_shape[1]
            short, texts = [one for one in texts if len(one) <= longest], [one for one in texts if len(one) > longest]
            with prefetch(row_groups(self.metric.tokenize, short, runner)) as groups:
                # One thread more than the back-end computes with: one consumes results while the others compute.
                for results in encoded_in_rows(groups, self._encode, self.batch_tokens, self._workers + 1):
                    yield from (([short[row] for row in rows], chunk) for rows, chunk in results)
        with prefetch(token_batches(self.metric.tokenize, texts, lambda: self.batch_tokens), AHEAD) as batches:
            for results in map_in_threads(self._encode, batches, self._workers):
                yield from (([texts[row] for row in rows], chunk) for rows, chunk in results)

    @property
    def _workers(self) -> int:
        encoder = self.metric.runnable_encoder
        return worker_count(self.metric.device) if encoder is None or encoder.concurrent else 1

    def _encode(self, indexed_batch: tuple[list[int], TokenBatch]) -> list[tuple[list[int], TextChunk | None]]:
        """Encode a batch; return its row indices and features, in several parts if the batch had to be split."""
        rows, batch = indexed_batch
        try:
            for attempt in self._attempts(last=len(batch) == 1):
                with attempt:
                    features = self.metric.text_features(batch.to(self.metric.device, non_blocking=True))
                    lengths = batch.lengths.numpy()
                    packed = None if features is None else features.pack(lengths)
        except DeviceMemoryError as error:
            halves = self._halves(len(batch), error)
        else:
            return [(rows, None if packed is None else TextChunk(packed, lengths, self._flags(batch)))]
        longest = int(batch.lengths.max())
        self.batch_tokens = max(1, min(self.batch_tokens, len(batch) * longest) // 2)
        logger.warning(
            "Out of memory on %s: going on with batches of %d tokens.", self.metric.device, self.batch_tokens
        )
        halved_batches = [([rows[place] for place in half], batch.select(half)) for half in halves]
        return [one for part in halved_batches for one in self._encode(part)]

    def _attempts(self, *, last: bool) -> Attempts:
        return out_of_memory_retries(self.metric.device, last=last, spare=self._free_memory)

    def _free_memory(self) -> bool:
        """Free cached features and the hidden states that metrics share; return whether there were any."""
        encoder = self.metric.runnable_encoder
        freed = self._cache.nbytes > 0
        self._cache.clear()
        freed = (encoder is not None and encoder.let_go()) or freed
        if freed and not self._warned_of_memory:
            self._warned_of_memory = True
            logger.warning(
                "Out of memory on %s: features of earlier texts were removed from its memory.", self.metric.device
            )
        return freed

    def _flags(self, batch: TokenBatch) -> dict[str, np.ndarray]:
        """Return the flags of texts, and store a few texts as examples for warnings."""
        languages = getattr(self.metric, "languages", ())
        flags = text_flags(batch, languages)
        for name, marked in flags.items():
            # Whether a text is a hypothesis, which alone counts as repeating, is not known here.
            for row in np.flatnonzero(marked)[: EXAMPLES if name not in ("truncated", "repetition") else 0]:
                words = batch.unknown_words[row] if name == "unknown" and batch.unknown_words else ()
                script = f" ({other_script(batch.texts[row], languages)})" if name == "script" else ""
                for word in words or (batch.texts[row],):
                    self._remember(name, word, script)
        if batch.unknown is not None:
            has_known_words = (batch.ordinary & (batch.unknown == 0)).any(dim=1).numpy()
            for row in np.flatnonzero(flags["unknown"] & ~has_known_words)[:EXAMPLES]:
                self._remember("empty", batch.texts[row])
        return flags

    def _remember(self, kind: str, text: str, note: str = "") -> None:
        examples = self._examples.setdefault(kind, {})
        if len(examples) < EXAMPLES:
            examples[f"{text if len(text) <= SHOWN else f'{text[:SHOWN]}…'!r}{note}"] = None

    def _halves(self, size: int, error: DeviceMemoryError) -> tuple[range, range]:
        """Split the rows of a batch that did not fit the device's memory into two halves."""
        if size == 1:
            raise InputError(
                f"Expected texts that fit into the memory of {self.metric.device}, but a single one is too long: "
                "set `max_length`, choose a smaller encoder, or score on the CPU with --device cpu."
            ) from error
        return range(size // 2), range(size // 2, size)

    def _add_joined(self, table: TextTable, groups: Sequence[tuple[str, ...]]) -> None:
        """Add joined references, each group as one text; a single reference is not joined."""
        lengths, flagged = table.lengths, table.flags(slice(None))
        for group in groups:
            rows = [table.rows[text] for text in group]
            if len(group) == 1:
                table.rows[group] = rows[0]
                continue
            token_count = lengths[rows].sum(keepdims=True)
            flags = {name: np.array([marked[rows].any()]) for name, marked in flagged.items()}
            try:
                for attempt in self._attempts(last=True):
                    with attempt:
                        packed = self.metric.join([table.pad([row]) for row in rows]).pack(token_count)
            except DeviceMemoryError as error:
                raise InputError(
                    f"Expected references that fit into the memory of {self.metric.device}, but {len(group)} of a "
                    "segment are too long together: set `max_length`, choose 'best' or 'mean' as `multi_reference`, or "
                    "score on the CPU with --device cpu."
                ) from error
            table.add([group], TextChunk(packed, token_count, flags))
