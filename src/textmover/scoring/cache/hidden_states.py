"""Cache of hidden states, shared by all metrics with the same encoder and optionally stored on disk."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import _disable_current_modes

from textmover.lazy import new_lock
from textmover.modules.devices import machine_of, weights_version
from textmover.modules.encoder.encoder import Encoder
from textmover.modules.encoder.known_encoders import POST_NORM_TYPES, UNTRACED
from textmover.safe_reading import expanded
from textmover.scoring.cache.state_files import VERSIONS, StateFiles
from textmover.scoring.cache.text_cache import TextCache
from textmover.types import InputError, SegmentMetric, TokenBatch
from textmover.types.argument_checks import check_bytes
from textmover.types.tokens import Ragged

DIGEST = 16  # bytes of the hash of a text's tokens


class EncoderMemory:
    """Cache of hidden states shared by metrics, so that each distinct text is encoded once for all of them.

    Pass it to several :class:`~textmover.Scorer` or :class:`~textmover.TextMoverScore` objects. Metrics with the same
    encoder (same weights, device, precision and back-end) share one copy of its weights, and compute all layers that
    any of them needs in one pass. Metrics with different encoders are cached separately. With a folder, states are
    reused across processes if weights, layers, precision and back-end are the same. States depend on the batch in which
    they were computed up to rounding, so scores differ by less than 1e-6.

    An encoder that is trained, moved, cast, or given other weights leaves the cache and keeps its weights; the others
    get a copy. Create an optimiser after calling ``train()``, or from a metric that is in no cache.

    Args:
        limit: Maximum size of the states in memory, in bytes; the least recently used are evicted first.
        folder: Folder for states on disk; ``None`` stores nothing on disk.
        folder_limit: Maximum size on disk, in bytes; other versions, then the least recently used, are removed first.
        evict: Whether new states evict old ones from memory; otherwise a full cache rejects new states.

    Example:
        >>> memory = EncoderMemory()
        >>> ours = Scorer.from_pretrained("twmd", memory=memory)  # doctest: +SKIP
        >>> theirs = Scorer.from_pretrained("bertscore-f1", memory=memory)  # doctest: +SKIP
    """

    def __init__(
        self, limit: int = 1 << 30, *, folder: str | Path | None = None, folder_limit: int = 1 << 33, evict: bool = True
    ) -> None:
        check_bytes("limit", limit)
        check_bytes("folder_limit", folder_limit)
        self._limit, self.folder_limit, self.evict = limit, folder_limit, evict
        self.folder = None if folder is None else expanded(folder)
        self.is_asleep = self.any_arithmetic = False  # the latter: share states under autocast too; for training
        self._groups: list[_Group] = []
        self._files: list[StateFiles] = []
        # Runs when the cache is garbage-collected, or at the latest at exit.
        weakref.finalize(self, _flush, self._files)
        _WITH_FOLDER.add(self)

    @property
    def limit(self) -> int:
        """Maximum size of the states in memory, in bytes."""
        return self._limit

    @limit.setter
    def limit(self, limit: int) -> None:
        """Set the maximum size from now on."""
        check_bytes("limit", limit)
        self._limit = limit
        for group in self._groups:
            group.cache.limit = limit

    def join(self, metric: SegmentMetric, arithmetic: str) -> bool:
        """Register a metric; does nothing for a metric without an encoder, such as one with static vectors.

        Args:
            metric: The metric, on its device and with its final weights.
            arithmetic: Precision and back-end of its encoder.

        Returns:
            Whether it was added; if so, the caller has to choose the back-end of its encoder again.
        """
        encoder = metric.runnable_encoder
        if not isinstance(encoder, Encoder) or any(encoder in group.encoders for group in self._groups):
            return False
        weights = _Weights.of(encoder.model)
        kind = (arithmetic, str(encoder.device), str(encoder.window), str(next(encoder.parameters()).dtype))
        for group in self._groups:
            if group.kind == kind and group.weights.agree(weights):
                group.add(encoder, weights)
                return True
        self._groups.append(_Group(self, kind, weights, encoder))
        return True

    def drop(self, group: _Group) -> None:
        """Drop a group without members."""
        group.forget()
        self._groups.remove(group)

    @contextlib.contextmanager
    def asleep(self) -> Iterator[None]:
        """Disable the cache inside the context."""
        self.is_asleep = True
        try:
            yield
        finally:
            self.is_asleep = False

    def forget(self) -> None:
        """Drop the states in memory; those on disk stay."""
        for group in self._groups:
            group.forget()

    def let_go(self, device: str) -> bool:
        """Free the states in the memory of a device; return whether there were any."""
        caches = [group.cache for group in self._groups if group.device == device]
        freed = any(cache.nbytes > 0 for cache in caches)
        for cache in caches:
            cache.clear()
        return freed

    def flush(self) -> None:
        """Write buffered states to disk; this also happens at exit."""
        _flush(self._files)

    def open_files(self, identity: Mapping[str, str]) -> StateFiles | None:
        """Open the states on disk for an identity; return ``None`` without a folder."""
        if self.folder is None:
            return None
        files = StateFiles(self.folder, identity, self.folder_limit)
        self._files.append(files)
        return files

    def close_files(self, files: StateFiles) -> None:
        """Write buffered states and close the files."""
        files.flush()
        self._files.remove(files)

    def __deepcopy__(self, _: dict[int, Any]) -> EncoderMemory:
        return self  # copies share the cache


def flush_all() -> None:
    """Write the buffered states of all caches, for processes that skip the interpreter's exit handlers."""
    for memory in list(_WITH_FOLDER):
        memory.flush()


_WITH_FOLDER: weakref.WeakSet[EncoderMemory] = weakref.WeakSet()


@dataclass(frozen=True)
class _Weights:
    """Hashes of an encoder's weights: one of the parts that all layers share, and one of each layer."""

    type: str
    base: str
    layers: tuple[str, ...]

    @classmethod
    def of(cls, model: Any) -> _Weights:
        blocks = next((one for one in model.modules() if isinstance(one, nn.ModuleList) and len(one)), nn.ModuleList())
        cut = model.config.model_type in POST_NORM_TYPES
        inside = {id(parameter) for block in blocks for parameter in block.parameters()} if cut else set()
        base = {name: parameter for name, parameter in model.named_parameters() if id(parameter) not in inside}
        base |= dict(model.named_buffers())
        # Exclude entries of the configuration that record the origin or the truncation depth; all others may matter.
        excluded = (*UNTRACED, *(("num_hidden_layers", "n_layers", "num_layers") if cut else ()))
        config = {name: value for name, value in model.config.to_dict().items() if name not in excluded}
        layers = tuple(_digest(dict(block.named_parameters())) for block in blocks) if cut else ()
        return cls(model.config.model_type, _digest(base, json.dumps(config, sort_keys=True, default=str)), layers)

    def agree(self, other: _Weights) -> bool:
        """Return whether the deeper of the two encoders starts with all layers of the other."""
        shared = min(len(self.layers), len(other.layers))
        same_layers = self.layers[:shared] == other.layers[:shared]
        return (self.type, self.base) == (other.type, other.base) and same_layers


class _Group:
    """Encoders with the same weights, and their shared states; holds the deepest encoder."""

    def __init__(self, memory: EncoderMemory, kind: tuple[str, ...], weights: _Weights, encoder: Encoder) -> None:
        self.memory, self.kind, self.weights = memory, kind, weights
        self.device = kind[1]
        self.any_arithmetic = memory.any_arithmetic
        self.model: Any = encoder.model
        self.computed: tuple[int, ...] = ()
        self._members: weakref.WeakSet[Encoder] = weakref.WeakSet()
        self.cache: TextCache[bytes, Ragged] = TextCache(memory.limit, evict=memory.evict)
        self._files: StateFiles | None = None
        self._lock = new_lock()
        self.add(encoder, weights)

    @property
    def encoders(self) -> Iterable[Encoder]:
        return [encoder for encoder in self._members if encoder._states is self]

    def add(self, encoder: Encoder, weights: _Weights) -> None:
        if len(weights.layers) > len(self.weights.layers):
            self.model, self.weights = encoder.model, weights
        self.computed = tuple(sorted({*self.computed, *encoder.layers}))
        self._members.add(encoder)
        for member in [encoder, *self.encoders]:
            member.share(self, self.model, self.computed)
        self._stamp = weights_version(self.model)
        self.forget()

    def leave(self, encoder: Encoder) -> None:
        """Remove an encoder, which keeps the weights; the others get a copy."""
        with self._lock:
            self._members.discard(encoder)
            remaining = list(self.encoders)
            if not remaining:
                self.memory.drop(self)
                return
            model = encoder.copied_model()
            # A compiled runner refers to the weights, so it has to be copied with them.
            runner = copy.deepcopy(encoder.runner, {id(self.model): model})
            self.model, self._stamp = model, weights_version(model)
            for member in remaining:
                member.model = model
                member.runner, member._stamp = runner, self._stamp

    def _check_weights(self) -> bool:
        """Return whether the weights are unchanged since the states were computed."""
        if self._stamp == weights_version(self.model):
            return True
        members = list(self.encoders)
        if len(members) > 1:
            raise InputError(
                f"Expected the weights that {len(members)} metrics share through an EncoderMemory to stay as they are, "
                "but they were changed in place: call train() on a metric before its weights are changed, or load it "
                "without `memory`."
            )
        for member in members:
            member.leave()
        return False

    def forget(self) -> None:
        """Drop the states in memory, and reopen those on disk at the next use."""
        with self._lock:
            if self._files is not None:
                self.memory.close_files(self._files)
            self.cache.clear()
            self._files = None

    def let_go(self) -> bool:
        """Free all states on this device, of all encoders."""
        return self.memory.let_go(self.device)

    def states(self, batch: TokenBatch, encode: Callable[[TokenBatch], list[Tensor]]) -> list[Tensor]:
        """Return hidden states of the computed layers, ``[B, L, D]`` each; ``encode`` computes missing ones."""
        if self.memory.is_asleep or not self._check_weights():
            return encode(batch)
        lengths = batch.lengths.cpu().numpy()
        ids = batch.input_ids.cpu().numpy()
        keys = [_key(ids[row, :length]) for row, length in enumerate(lengths.tolist())]
        rows = {key: row for row, key in enumerate(keys)}
        with self._lock:
            found = self._find(rows, batch.mask.device)
        found_keys = {key for names, _ in found for key in names}
        missing_keys = [key for key in rows if key not in found_keys]
        if missing_keys:
            chosen = [rows[key] for key in missing_keys]
            layers = encode(batch.select(chosen))
            named = {f"layer.{layer}": states for layer, states in zip(self.computed, layers, strict=True)}
            new = Ragged.from_padded(lengths[chosen], named, {})
            found.append((missing_keys, new))
            with self._lock:
                self.cache.keep(missing_keys, new)
                if self._files is not None:
                    self._files.keep(missing_keys, new)
            if len(missing_keys) == len(keys):
                return [_padded_to(states, batch.mask.shape[1]) for states in layers]
        indices = {key: (part, row) for part, (names, _) in enumerate(found) for row, key in enumerate(names)}
        _, tokens, _ = Ragged.padded([part for _, part in found], [indices[key] for key in keys])
        width = batch.mask.shape[1]
        return [_padded_to(tokens[f"layer.{layer}"], width) for layer in self.computed]

    def _find(self, keys: Iterable[bytes], device: torch.device) -> list[tuple[list[bytes], Ragged]]:
        found = self.cache.find(keys)
        if self._files is None and self.memory.folder is not None:
            self._files = self.memory.open_files(self._identity())
        if self._files is None:
            return found
        found_keys = {key for names, _ in found for key in names}
        for names, states in self._files.find([key for key in keys if key not in found_keys]):
            moved = Ragged(states.lengths, {name: layer.to(device) for name, layer in states.tokens.items()})
            self.cache.keep(names, moved)
            found.append((names, moved))
        return found

    def _identity(self) -> Mapping[str, str]:
        """Identity of the states: everything that they depend on except the tokens."""
        import transformers

        encoder = next(iter(self.encoders))
        runner, depth, device = encoder.runner, max(self.computed), encoder.device
        dtype = next(encoder.parameters()).dtype
        exact = dtype == torch.float32 if runner is None else runner.precision == "exact"
        precision = str(dtype) if runner is None else runner.precision
        name, release = ("torch", "") if runner is None else _name_and_version(runner.name)
        weights = hashlib.sha256("".join((self.weights.base, *self.weights.layers[:depth])).encode()).hexdigest()
        return {
            "type": self.weights.type,
            "weights": weights,
            "layers": ",".join(map(str, self.computed)),
            "window": str(encoder.window),
            "backend": name,
            "precision": precision,
            # In float32, processor models differ in the last digit only, as batches do.
            "device": device.type if exact else machine_of(device),
            VERSIONS: f"{release}torch {torch.__version__}, transformers {transformers.__version__}",
        }


def _flush(all_files: list[StateFiles]) -> None:
    with _disable_current_modes():  # finalizers may run while torch traces a graph
        for files in all_files:
            files.flush()


def _name_and_version(backend: str) -> tuple[str, str]:
    """Split the name of a back-end into its name and, if it has one, its package version as a list prefix."""
    name, _, release = backend.rpartition("-")
    return (name, f"{name} {release}, ") if release[:1].isdigit() else (backend, "")


def _digest(tensors: Mapping[str, Tensor], extra: str = "") -> str:
    digest = hashlib.sha256(extra.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _key(ids: np.ndarray) -> bytes:
    return hashlib.blake2b(ids.tobytes(), digest_size=DIGEST).digest()


def _padded_to(states: Tensor, width: int) -> Tensor:
    return torch.nn.functional.pad(states, (0, 0, 0, width - states.shape[1])) if states.shape[1] < width else states
