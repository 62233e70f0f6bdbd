"""Hidden states of texts, computed once for all metrics that read the same encoder, and on request kept on disk."""

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

from textmover.modules.devices import machine_of, new_lock
from textmover.modules.encoder.encoder import Encoder, weights_stamp
from textmover.modules.encoder.known_encoders import POST_NORM_TYPES, UNTRACED
from textmover.scoring.cache.state_files import StateFiles
from textmover.scoring.cache.state_folders import VERSIONS
from textmover.scoring.cache.text_cache import TextCache
from textmover.types import InputError, SegmentMetric, TokenBatch
from textmover.types.tokens import Ragged

DIGEST = 16  # bytes of the hash that stands for the tokens of a text


class EncoderMemory:
    """Hidden states that metrics share, so that each distinct text is encoded once for all of them.

    Give it to several :class:`~textmover.Scorer` or :class:`~textmover.TextMoverScore` objects. Those that read the
    same encoder (the same weights, device, precision and back-end) then hold one copy of its weights and compute the
    layers that any of them reads in one pass; others are kept apart. With a folder the states outlive the process: what
    was encoded for the same weights, layers, precision and back-end is read instead. A state depends on the batch in
    which it was computed to the rounding of its arithmetic alone, so scores move by less than 1e-6.

    Encoders that are trained, moved, cast, or given other weights leave the memory and keep their weights; those that
    stay get a copy of them. Make an optimiser after ``train()`` has been called, or from a metric that is in no memory.

    Args:
        limit: Bytes that states may take in memory; the longest unused are forgotten first.
        folder: Where states are kept on disk as well; ``None`` keeps none there.
        folder_limit: Bytes that they may take there; files of other versions, then the longest unused, go first.
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
        self.is_asleep = self.any_arithmetic = False  # the latter: under autocast, too, as a training alone may
        self._groups: list[_Group] = []
        self._files: list[StateFiles] = []
        # When nobody needs it any more, and at the latest when the process ends.
        weakref.finalize(self, _flush, self._files)
        _WITH_FOLDER.add(self)

    @property
    def limit(self) -> int:
        """Bytes that states may take in memory."""
        return self._limit

    @limit.setter
    def limit(self, limit: int) -> None:
        """Set the bytes that states may take from now on."""
        self._limit = limit
        for group in self._groups:
            group.cache.limit = limit

    def join(self, metric: SegmentMetric, arithmetic: str) -> bool:
        """Let a metric take part; one without an encoder, such as over static vectors, has nothing to share.

        Args:
            metric: The metric, on its device and with its final weights.
            arithmetic: Precision and back-end that its encoder will run with.

        Returns:
            Whether it took no part before; the back-end of its encoder is to be chosen again then.
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
        """Forget a group that has no members left."""
        group.forget()
        self._groups.remove(group)

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

    def let_go(self, device: str) -> bool:
        """Forget the states in the memory of a device, which lacks room for something else; whether there were any."""
        caches = [group.cache for group in self._groups if group.device == device]
        held = any(cache.nbytes > 0 for cache in caches)
        for cache in caches:
            cache.clear()
        return held

    def flush(self) -> None:
        """Write states that wait for company to disk, as happens at the end of the process too."""
        _flush(self._files)

    def open_files(self, identity: Mapping[str, str]) -> StateFiles | None:
        """The states on disk of what an identity describes; ``None`` without a folder."""
        if self.folder is None:
            return None
        files = StateFiles(self.folder, identity, self.folder_limit)
        self._files.append(files)
        return files

    def close_files(self, files: StateFiles) -> None:
        """Write what waits for company there, and look at it no longer."""
        files.flush()
        self._files.remove(files)

    def __deepcopy__(self, _: dict[int, Any]) -> EncoderMemory:
        return self  # whatever was copied can go on sharing


def flush_all() -> None:
    """Write what any memory still holds back; for processes that end without the interpreter's leave."""
    for memory in list(_WITH_FOLDER):
        memory.flush()


_WITH_FOLDER: weakref.WeakSet[EncoderMemory] = weakref.WeakSet()


@dataclass(frozen=True)
class _Weights:
    """Hashes of what an encoder computes with: of all that its layers share, and of each layer."""

    type: str
    base: str
    layers: tuple[str, ...]

    @classmethod
    def of(cls, model: Any) -> _Weights:
        blocks = next((one for one in model.modules() if isinstance(one, nn.ModuleList) and len(one)), nn.ModuleList())
        cut = model.config.model_type in POST_NORM_TYPES
        inside = {id(one) for block in blocks for one in block.parameters()} if cut else set()
        base = {name: one for name, one in model.named_parameters() if id(one) not in inside}
        base |= dict(model.named_buffers())
        # Everything in the configuration may change the states, but for where it came from, and how deep it was cut.
        left_out = (*UNTRACED, *(("num_hidden_layers", "n_layers", "num_layers") if cut else ()))
        config = {name: value for name, value in model.config.to_dict().items() if name not in left_out}
        layers = tuple(_digest(dict(block.named_parameters())) for block in blocks) if cut else ()
        return cls(model.config.model_type, _digest(base, json.dumps(config, sort_keys=True, default=str)), layers)

    def agree(self, other: _Weights) -> bool:
        """Return whether the deeper of the two encoders begins with the other."""
        shared = min(len(self.layers), len(other.layers))
        same = self.layers[:shared] == other.layers[:shared]
        return (self.type, self.base) == (other.type, other.base) and same


class _Group:
    """Encoders with the same weights, of which the deepest is kept, and their shared states."""

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
        for one in [encoder, *self.encoders]:
            one.share(self, self.model, self.computed)
        self._stamp = weights_stamp(self.model)
        self.forget()

    def leave(self, encoder: Encoder) -> None:
        """Go on without an encoder, which takes the weights along: the others get a copy."""
        with self._lock:
            self._members.discard(encoder)
            others = list(self.encoders)
            if not others:
                self.memory.drop(self)
                return
            model = encoder.copied_model()
            # A compiled runner computes with the weights themselves, and has to change over as well.
            runner = copy.deepcopy(encoder.runner, {id(self.model): model})
            self.model, self._stamp = model, weights_stamp(model)
            for one in others:
                one.model = model
                one._runner, one._stamp = runner, self._stamp

    def _check_weights(self) -> bool:
        """Return whether the weights are still those that the states are of."""
        if self._stamp == weights_stamp(self.model):
            return True
        members = list(self.encoders)
        if len(members) > 1:
            raise InputError(
                f"Expected the weights that {len(members)} metrics share through an EncoderMemory to stay as they are, "
                "but they were changed in place: call train() on a metric before its weights are changed, or load it "
                "without `memory`."
            )
        for one in members:
            one.leave()
        return False

    def forget(self) -> None:
        """Drop the states in memory, and look for those on disk again."""
        with self._lock:
            if self._files is not None:
                self.memory.close_files(self._files)
            self.cache.clear()
            self._files = None

    def let_go(self) -> bool:
        """Let go of all states in the memory of this device, whichever encoder they are of."""
        return self.memory.let_go(self.device)

    def states(self, batch: TokenBatch, encode: Callable[[TokenBatch], list[Tensor]]) -> list[Tensor]:
        """Hidden states of the computed layers, ``[B, L, D]`` each, those that are not kept made by ``encode``."""
        if self.memory.is_asleep or not self._check_weights():
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
            named = {f"layer.{layer}": states for layer, states in zip(self.computed, layers, strict=True)}
            made = Ragged.from_padded(lengths[chosen], named, {})
            found.append((missing, made))
            with self._lock:
                self.cache.keep(missing, made)
                if self._files is not None:
                    self._files.keep(missing, made)
            if len(missing) == len(keys):
                return [_widened(states, batch.mask.shape[1]) for states in layers]
        places = {key: (part, row) for part, (names, _) in enumerate(found) for row, key in enumerate(names)}
        _, tokens, _ = Ragged.padded([part for _, part in found], [places[key] for key in keys])
        width = batch.mask.shape[1]
        return [_widened(tokens[f"layer.{layer}"], width) for layer in self.computed]

    def _find(self, keys: Iterable[bytes], device: torch.device) -> list[tuple[list[bytes], Ragged]]:
        found = self.cache.find(keys)
        if self._files is None and self.memory.folder is not None:
            self._files = self.memory.open_files(self._identity())
        if self._files is None:
            return found
        known = {key for names, _ in found for key in names}
        for names, states in self._files.find([key for key in keys if key not in known]):
            moved = Ragged(states.lengths, {name: one.to(device) for name, one in states.tokens.items()})
            self.cache.keep(names, moved)
            found.append((names, moved))
        return found

    def _identity(self) -> Mapping[str, str]:
        """Everything that the states depend on beside the tokens."""
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
            # In float32 kinds of processors differ in the last digit alone, as batches do.
            "device": device.type if exact else machine_of(device),
            VERSIONS: f"{release}torch {torch.__version__}, transformers {transformers.__version__}",
        }


def _flush(opened: list[StateFiles]) -> None:
    with _disable_current_modes():  # the last user may go while torch follows a graph, to which this does not belong
        for files in opened:
            files.flush()


def _name_and_version(backend: str) -> tuple[str, str]:
    """Name of a back-end, and its package's version as the beginning of a list, where its name has one."""
    name, _, release = backend.rpartition("-")
    return (name, f"{name} {release}, ") if release[:1].isdigit() else (backend, "")


def _digest(tensors: Mapping[str, Tensor], more: str = "") -> str:
    found = hashlib.sha256(more.encode())
    for name, tensor in sorted(tensors.items()):
        found.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        found.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def _key(ids: np.ndarray) -> bytes:
    return hashlib.blake2b(ids.tobytes(), digest_size=DIGEST).digest()


def _widened(states: Tensor, width: int) -> Tensor:
    return torch.nn.functional.pad(states, (0, 0, 0, width - states.shape[1])) if states.shape[1] < width else states
