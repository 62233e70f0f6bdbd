"""Hidden states of texts, computed once for all metrics that read the same encoder, and on request kept on disk."""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from textmover.modules.encoder import POST_NORM_TYPES, Encoder
from textmover.scoring.state_files import StateFiles
from textmover.scoring.text_cache import TextCache
from textmover.types import InputError, SegmentMetric, TokenBatch
from textmover.types.packed import Ragged

__all__ = ["EncoderMemory"]

DIGEST = 16
"""Bytes of the hash that stands for the tokens of a text."""


class EncoderMemory:
    """Hidden states that metrics share, so that each distinct text is encoded once for all of them.

    Give it to several :class:`~textmover.Scorer` or :class:`~textmover.TextMoverScore` objects. Those that read the
    same encoder (the same weights, device, precision and back-end) then hold one copy of its weights and compute the
    layers that any of them reads in one pass; others are kept apart. With a folder the states outlive the process: what
    was encoded for the same weights, layers, precision and back-end is read instead. A state depends on the batch in
    which it was computed to the rounding of its arithmetic alone, so scores move by less than 1e-6.

    Encoders that are being trained leave the memory.

    Args:
        limit: Bytes that states may take in memory; the longest unused are forgotten first.
        folder: Where states are kept on disk as well; ``None`` keeps none there.
        folder_limit: Bytes that they may take there; the longest unused files are removed first.
        evict: Whether new states in memory drive old ones out; else a full memory takes in no more.

    Example:
        >>> memory = EncoderMemory()
        >>> ours = Scorer.from_pretrained("twmd", memory=memory)  # doctest: +SKIP
        >>> theirs = Scorer.from_pretrained("bertscore-f1", memory=memory)  # doctest: +SKIP
    """

    def __init__(
        self, limit: int = 1 << 30, *, folder: str | Path | None = None, folder_limit: int = 1 << 33, evict: bool = True
    ) -> None:
        for name, value in (("limit", limit), ("folder_limit", folder_limit)):
            if value < 0:
                raise InputError(f"Expected `{name}` to be 0 bytes or more, but got {value}.")
        self._limit, self.folder_limit, self.evict = limit, folder_limit, evict
        self.folder = None if folder is None else Path(folder).expanduser()
        self.is_asleep = False
        self._groups: list[_Group] = []
        if self.folder is not None:
            atexit.register(_flush, weakref.ref(self))

    @property
    def limit(self) -> int:
        """Bytes that states may take in memory."""
        return self._limit

    @limit.setter
    def limit(self, limit: int) -> None:
        self._limit = limit
        for group in self._groups:
            group.bound(limit)

    def join(self, metric: SegmentMetric, arithmetic: str) -> None:
        """Let a metric take part; one without an encoder, such as over static vectors, has nothing to share.

        Args:
            metric: The metric, on its device and with its final weights.
            arithmetic: Precision and back-end that its encoder will run with.
        """
        encoder = metric.runnable_encoder
        if not isinstance(encoder, Encoder):
            return
        weights = _Weights.of(encoder.model)
        kind = (arithmetic, str(encoder.device), str(encoder.window), str(next(encoder.parameters()).dtype))
        for group in self._groups:
            if group.kind == kind and group.weights.agree(weights):
                group.add(encoder, weights)
                return
        self._groups.append(_Group(self, kind, weights, encoder))

    @contextlib.contextmanager
    def asleep(self) -> Iterator[None]:
        """Keep nothing and look nothing up inside."""
        self.is_asleep = True
        try:
            yield
        finally:
            self.is_asleep = False

    def forget(self) -> None:
        """Forget the states in memory; those on disk stay."""
        for group in self._groups:
            group.forget()

    def flush(self) -> None:
        """Write states that wait for company to disk, as happens at the end of the process too."""
        for group in self._groups:
            group.flush()

    def __deepcopy__(self, _: dict[int, Any]) -> EncoderMemory:
        return self  # whatever was copied can go on sharing


@dataclass(frozen=True)
class _Weights:
    """Hashes of an encoder's weights: of what comes before its layers, and of each layer."""

    type: str
    base: str
    layers: tuple[str, ...]

    @classmethod
    def of(cls, model: Any) -> _Weights:
        blocks = next((one for one in model.modules() if isinstance(one, nn.ModuleList) and len(one)), nn.ModuleList())
        cut = model.config.model_type in POST_NORM_TYPES
        inside = {id(one) for block in blocks for one in block.parameters()} if cut else set()
        base = {name: one for name, one in model.named_parameters() if id(one) not in inside}
        config = {name: value for name, value in model.config.to_dict().items() if name in SHAPING}
        layers = tuple(_digest(dict(block.named_parameters())) for block in blocks) if cut else ()
        return cls(model.config.model_type, _digest(base, json.dumps(config, sort_keys=True)), layers)

    def agree(self, other: _Weights) -> bool:
        """Whether the deeper of the two encoders begins with the other."""
        shared = min(len(self.layers), len(other.layers))
        same = self.layers[:shared] == other.layers[:shared]
        return (self.type, self.base) == (other.type, other.base) and same


SHAPING = ("hidden_act", "layer_norm_eps", "num_attention_heads", "position_embedding_type", "max_position_embeddings")
"""What of an encoder's configuration changes its states without changing the shape of its weights."""


class _Group:
    """Encoders with the same weights, and the states that they share.

    It is their :class:`~textmover.modules.encoder.SharedStates`. Only the deepest of their models is kept.
    """

    def __init__(self, memory: EncoderMemory, kind: tuple[str, ...], weights: _Weights, encoder: Encoder) -> None:
        self.memory, self.kind, self.weights = memory, kind, weights
        self.model: Any = encoder.model
        self.computed: tuple[int, ...] = ()
        self._members: weakref.WeakSet[Encoder] = weakref.WeakSet()
        self._cache: TextCache[bytes, Ragged] = TextCache(memory.limit, evict=memory.evict)
        self._files: StateFiles | None = None
        self._lock = threading.RLock()
        self.add(encoder, weights)

    @property
    def encoders(self) -> Iterable[Encoder]:
        """The encoders that share the states."""
        return [encoder for encoder in self._members if encoder._states is self]

    def add(self, encoder: Encoder, weights: _Weights) -> None:
        """Let another encoder take part."""
        if len(weights.layers) > len(self.weights.layers):
            self.model, self.weights = encoder.model, weights
        self.computed = tuple(sorted({*self.computed, *encoder.layers}))
        self._members.add(encoder)
        for one in [encoder, *self.encoders]:
            one.share(self, self.model, self.computed)
        self.forget()

    def forget(self) -> None:
        """Drop the states in memory, and look for those on disk anew."""
        with self._lock:
            self.flush()
            self._cache.clear()
            self._files = None

    def bound(self, limit: int) -> None:
        """Set the bytes that the states in memory may take from now on."""
        with self._lock:
            self._cache.limit = limit

    def flush(self) -> None:
        """Write what waits for company."""
        if self._files is not None:
            self._files.flush()

    def states(self, batch: TokenBatch, encode: Callable[[TokenBatch], list[Tensor]]) -> list[Tensor]:
        """Hidden states of the computed layers, ``[B, L, D]`` each, those that are not kept made by ``encode``."""
        if self.memory.is_asleep:
            return encode(batch)
        lengths = batch.lengths.cpu().numpy()
        ids = batch.input_ids.cpu().numpy()
        keys = [_key(ids[row, :length]) for row, length in enumerate(lengths.tolist())]
        rows = {key: row for row, key in enumerate(keys)}
        with self._lock:
            found = self._find(rows, batch.mask.device)
        known = {key for names, _ in found for key in names}
        missing = [key for key in rows if key not in known]
        if missing:
            chosen = [rows[key] for key in missing]
            layers = encode(batch.select(chosen))
            named = {_name(layer): states for layer, states in zip(self.computed, layers, strict=True)}
            made = Ragged.from_padded(lengths[chosen], named, {})
            found.append((missing, made))
            with self._lock:
                self._cache.keep(missing, made)
                if self._files is not None:
                    self._files.keep(missing, made)
            if len(missing) == len(keys):
                return [_widened(states, batch.mask.shape[1]) for states in layers]
        places = {key: (part, row) for part, (names, _) in enumerate(found) for row, key in enumerate(names)}
        _, tokens, _ = Ragged.padded([part for _, part in found], [places[key] for key in keys])
        width = batch.mask.shape[1]
        return [_widened(tokens[_name(layer)], width) for layer in self.computed]

    def _find(self, keys: Iterable[bytes], device: torch.device) -> list[tuple[list[bytes], Ragged]]:
        found = self._cache.find(keys)
        if self.memory.folder is None:
            return found
        if self._files is None:
            self._files = StateFiles(self.memory.folder, self._identity(), self.memory.folder_limit)
        known = {key for names, _ in found for key in names}
        for names, states in self._files.find([key for key in keys if key not in known]):
            moved = Ragged(states.lengths, {name: one.to(device) for name, one in states.tokens.items()})
            self._cache.keep(names, moved)
            found.append((names, moved))
        return found

    def _identity(self) -> Mapping[str, str]:
        """Everything that the states depend on beside the tokens."""
        encoder = next(iter(self.encoders))
        runner, depth = encoder.runner, max(self.computed)
        weights = hashlib.sha256("".join((self.weights.base, *self.weights.layers[:depth])).encode()).hexdigest()
        return {
            "type": self.weights.type,
            "weights": weights,
            "layers": ",".join(map(str, self.computed)),
            "window": str(encoder.window),
            "backend": "torch" if runner is None else runner.name,
            "precision": str(next(encoder.parameters()).dtype) if runner is None else runner.precision,
        }


def _flush(memory: weakref.ref[EncoderMemory]) -> None:
    there = memory()
    if there is not None:
        there.flush()


def _digest(tensors: Mapping[str, Tensor], more: str = "") -> str:
    """Hash of named tensors."""
    found = hashlib.sha256(more.encode())
    for name, tensor in sorted(tensors.items()):
        found.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        found.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def _key(ids: np.ndarray) -> bytes:
    return hashlib.blake2b(ids.tobytes(), digest_size=DIGEST).digest()


def _name(layer: int) -> str:
    return f"layer.{layer}"


def _widened(states: Tensor, width: int) -> Tensor:
    return torch.nn.functional.pad(states, (0, 0, 0, width - states.shape[1])) if states.shape[1] < width else states
