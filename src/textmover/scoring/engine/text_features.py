"""Features of each distinct text: tokenised ahead, encoded in batches or rows, and kept."""

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
from textmover.modules.tokens.reliability_flags import other_script, text_flags
from textmover.scoring.cache.text_cache import TextCache
from textmover.scoring.engine.batches import encoded_in_rows, row_groups, token_batches
from textmover.scoring.engine.pair_table import Progress
from textmover.scoring.engine.threads import read_ahead, spread, worker_count
from textmover.types import InputError, PackedFeatures, SegmentMetric, TextFeatures, TokenBatch


@dataclass(frozen=True, eq=False)
class TextChunk:
    """Features of ``N`` texts, and what the engine has to know of them."""

    features: PackedFeatures
    lengths: np.ndarray  # tokens of each, int64 `[N]`
    flags: Mapping[str, np.ndarray]
    """Flags of the texts by name, bool ``[N]``, as :func:`text_flags` gives them."""

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def nbytes(self) -> int:
        """Memory that the features hold, in bytes."""
        return self.features.nbytes

    def select(self, rows: Sequence[int]) -> TextChunk:
        """The texts of the given rows."""
        flags = {name: marked[rows] for name, marked in self.flags.items()}
        return TextChunk(self.features.select(rows), self.lengths[rows], flags)


Reference = str | tuple[str, ...]  # reference of a hypothesis: a text, or several that are taken as one


class TextTable:
    """Texts by what they are called, and what was made of them."""

    def __init__(self) -> None:
        self.rows: dict[Any, int] = {}
        self._chunks: list[TextChunk] = []
        self._places: list[tuple[int, int]] = []

    def add(self, names: Sequence[Reference], chunk: TextChunk) -> None:
        """Take in further texts."""
        start = len(self._places)
        self.rows.update({name: start + place for place, name in enumerate(names)})
        self._places += [(len(self._chunks), place) for place in range(len(names))]
        self._chunks.append(chunk)

    def pad(self, rows: Sequence[int] | np.ndarray) -> TextFeatures:
        """Texts as a batch."""
        features = [chunk.features for chunk in self._chunks]
        return type(features[0]).pad(features, [self._places[row] for row in rows])

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of all texts, int64 ``[N]``."""
        return np.concatenate([chunk.lengths for chunk in self._chunks])

    def flags(self, rows: np.ndarray | slice) -> dict[str, np.ndarray]:
        """Flags by name of the texts of the given rows."""
        names = self._chunks[0].flags
        return {name: np.concatenate([chunk.flags[name] for chunk in self._chunks])[rows] for name in names}


logger = logging.getLogger(__name__)

AHEAD = 4  # batches of tokens that wait for the encoder
EXAMPLES, SHOWN = 3, 40  # examples that a warning gives, and characters of a text that it shows
ROW_CHARACTERS = 8  # characters to a token of texts that may stand side by side; longer texts are not tried
ENCODING = 0.9  # share of the work on a window that is done when its texts are encoded, as progress counts it


SIGNS = (
    "CUDA out of memory",
    "CUDA error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "CUSOLVER_STATUS_ALLOC_FAILED",
    "HIP out of memory",
    "MPS backend out of memory",
)
"""Out-of-memory messages that do not come from torch's own allocator."""


class NoRoomError(RuntimeError):
    """The device ran out of memory; the work that failed holds none of it any more."""


@contextlib.contextmanager
def _held_back(lacks: list[RuntimeError]) -> Iterator[None]:
    """Hold an error back that says that a device lacks memory, whichever library raised it."""
    try:
        yield
    except RuntimeError as error:
        if not isinstance(error, torch.OutOfMemoryError) and not any(sign in str(error) for sign in SIGNS):
            raise
        lacks.append(error.with_traceback(None))  # its frames hold the tensors of the attempt


Attempts = Iterator[contextlib.AbstractContextManager[None]]


def attempts(device: torch.device, *, last: bool, spare: Callable[[], bool] = lambda: False) -> Attempts:
    """Contexts in which to try some work: twice if ``spare`` frees memory, or if it is the ``last``, smallest piece."""
    for again in (True, False):
        lacks: list[RuntimeError] = []
        yield _held_back(lacks)
        if not lacks:
            return
        again = again and (spare() or last)
        if device.type == "cuda":
            torch.cuda.empty_cache()
        if not again:
            raise NoRoomError(str(lacks[0])) from lacks[0]


def default_batch_tokens(metric: SegmentMetric) -> int:
    """Tokens to a batch: what an encoder keeps in a processor's caches, what a table looks up, or what fills a GPU."""
    if metric.device.type != "cpu":
        return 16384
    return 1024 if metric.runnable_encoder is not None else 8192


class TextWork:
    """The half of an engine that reads texts; where the device lacks memory, what is kept there goes first."""

    def __init__(self, metric: SegmentMetric, *, batch_tokens: int | None, cache_bytes: int) -> None:
        if batch_tokens is not None and batch_tokens < 1:
            raise InputError(f"Expected `batch_tokens` to be at least 1, but got {batch_tokens}.")
        self.metric = metric
        self.batch_tokens = default_batch_tokens(metric) if batch_tokens is None else batch_tokens
        self._cache: TextCache[str, TextChunk] = TextCache(cache_bytes)
        self._version = weights_version(metric.runnable_encoder)
        self._told = False
        self._examples: dict[str, dict[str, None]] = {}

    def _text_table(self, texts: list[str], progress: Progress) -> TextTable | None:
        """Features of each text, from the cache or made now; ``None`` if pairs are read together."""
        table = TextTable()
        version = weights_version(self.metric.runnable_encoder)
        if version != self._version:
            self._cache.clear()  # the encoder was trained meanwhile
            self._version = version
        for attempt in self._attempts(last=True):
            with attempt:
                kept = self._cache.find(texts)
        for names, chunk in kept:
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
        """Yield features in batches; texts are tokenised in a thread."""
        runner = None if self.metric.runnable_encoder is None else self.metric.runnable_encoder.row_runner
        if runner is not None and self.batch_tokens >= math.prod(runner.row_shape):
            longest = ROW_CHARACTERS * runner.row_shape[1]
            short, texts = [one for one in texts if len(one) <= longest], [one for one in texts if len(one) > longest]
            with read_ahead(row_groups(self.metric.tokenize, short, runner)) as groups:
                # One thread more than compute at a time: while it uses what was made, the back-end goes on.
                for parts in encoded_in_rows(groups, self._encode, self.batch_tokens, self._workers + 1):
                    yield from (([short[row] for row in rows], chunk) for rows, chunk in parts)
        with read_ahead(token_batches(self.metric.tokenize, texts, lambda: self.batch_tokens), AHEAD) as batches:
            for parts in spread(self._encode, batches, self._workers):
                yield from (([texts[row] for row in rows], chunk) for rows, chunk in parts)

    @property
    def _workers(self) -> int:
        encoder = self.metric.runnable_encoder
        return worker_count(self.metric.device) if encoder is None or encoder.concurrent else 1

    def _encode(self, given: tuple[list[int], TokenBatch]) -> list[tuple[list[int], TextChunk | None]]:
        """Rows as they were given, and what is needed of their texts; in parts where the device lacks memory."""
        rows, batch = given
        try:
            for attempt in self._attempts(last=len(batch) == 1):
                with attempt:
                    features = self.metric.text_features(batch.to(self.metric.device, non_blocking=True))
                    lengths = batch.lengths.numpy()
                    packed = None if features is None else features.pack(lengths)
        except NoRoomError as error:
            halves = self._halves(len(batch), error)
        else:
            return [(rows, None if packed is None else TextChunk(packed, lengths, self._flags(batch)))]
        longest = int(batch.lengths.max())
        self.batch_tokens = max(1, min(self.batch_tokens, len(batch) * longest) // 2)
        logger.warning(
            "Out of memory on %s: going on with batches of %d tokens.", self.metric.device, self.batch_tokens
        )
        parts = [([rows[place] for place in half], batch.select(half)) for half in halves]
        return [one for part in parts for one in self._encode(part)]

    def _attempts(self, *, last: bool) -> Attempts:
        return attempts(self.metric.device, last=last, spare=self._let_go)

    def _let_go(self) -> bool:
        """Let go of features, and of hidden states that metrics share; whether there were any."""
        encoder = self.metric.runnable_encoder
        held = self._cache.nbytes > 0
        self._cache.clear()
        held = (encoder is not None and encoder.let_go()) or held
        if held and not self._told:
            self._told = True
            logger.warning(
                "Out of memory on %s: going on without what was kept there of earlier texts.", self.metric.device
            )
        return held

    def _flags(self, batch: TokenBatch) -> dict[str, np.ndarray]:
        """Flags of texts, of which a few are remembered as examples."""
        languages = getattr(self.metric, "languages", ())
        flags = text_flags(batch, languages)
        for name, marked in flags.items():
            for row in np.flatnonzero(marked)[: EXAMPLES if name != "truncated" else 0]:
                words = batch.unknown_words[row] if name == "unknown" and batch.unknown_words else ()
                script = f" ({other_script(batch.texts[row], languages)})" if name == "script" else ""
                for one in words or (batch.texts[row],):
                    self._remember(name, one, script)
        if batch.unknown is not None:
            known = (batch.ordinary & (batch.unknown == 0)).any(dim=1).numpy()
            for row in np.flatnonzero(flags["unknown"] & ~known)[:EXAMPLES]:
                self._remember("empty", batch.texts[row])
        return flags

    def _remember(self, kind: str, text: str, more: str = "") -> None:
        examples = self._examples.setdefault(kind, {})
        if len(examples) < EXAMPLES:
            examples[f"{text if len(text) <= SHOWN else f'{text[:SHOWN]}…'!r}{more}"] = None

    def _halves(self, size: int, error: NoRoomError) -> tuple[range, range]:
        """The rows of a batch that was too large for the memory of the device, as two smaller ones."""
        if size == 1:
            raise InputError(
                f"Expected texts that fit into the memory of {self.metric.device}, but a single one is too long: "
                "set `max_length`, choose a smaller encoder, or score on the CPU with --device cpu."
            ) from error
        return range(size // 2), range(size // 2, size)

    def _add_joined(self, table: TextTable, groups: Sequence[tuple[str, ...]]) -> None:
        """Add several references as one text; a single one is itself."""
        lengths, flagged = table.lengths, table.flags(slice(None))
        for group in groups:
            rows = [table.rows[text] for text in group]
            if len(group) == 1:
                table.rows[group] = rows[0]
                continue
            total = lengths[rows].sum(keepdims=True)
            flags = {name: np.array([marked[rows].any()]) for name, marked in flagged.items()}
            try:
                for attempt in self._attempts(last=True):
                    with attempt:
                        packed = self.metric.join([table.pad([row]) for row in rows]).pack(total)
            except NoRoomError as error:
                raise InputError(
                    f"Expected references that fit into the memory of {self.metric.device}, but {len(group)} of a "
                    "segment are too long together: set `max_length`, choose 'best' or 'mean' as `multi_reference`, or "
                    "score on the CPU with --device cpu."
                ) from error
            table.add([group], TextChunk(packed, total, flags))
