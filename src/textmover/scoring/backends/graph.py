"""Export of an encoder as a graph with free batch size and length, and the base of its runners."""

from __future__ import annotations

import contextlib
import logging
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from textmover.modules.devices import evaluating, renew_in_child
from textmover.modules.encoder.encoder import row_graph
from textmover.modules.encoder.known_encoders import position_limit
from textmover.scoring.backends.names import BackendError, version
from textmover.scoring.engine.threads import worker_count
from textmover.types import RowRunner, RunnableEncoder

MOST_TEXTS = 1 << 16  # largest batch of an exported graph; batches are cut by their tokens long before


def graph_limit(encoder: RunnableEncoder) -> int:
    """Longest text of an encoder in tokens."""
    graph: Any = encoder.graph()
    return position_limit(graph.model.config)


def export_graph(
    encoder: RunnableEncoder, example: tuple[Tensor, Tensor], *, rows: bool = False
) -> torch.export.ExportedProgram:
    """The computation of an encoder as a graph that takes batches of any size and texts of 2 tokens up to its limit."""
    free = {0: torch.export.Dim("texts", min=1, max=MOST_TEXTS)}
    free[1] = torch.export.Dim("tokens", min=2, max=graph_limit(encoder))
    graph: torch.nn.Module = encoder.graph()
    given: tuple[Tensor, ...] = example
    found = row_graph(graph) if rows else None
    if found is not None:
        ids, mask = example
        graph, given = found, (ids, torch.arange(ids.shape[1]).expand_as(ids).contiguous(), mask)
    with converting("torch.export"), evaluating(graph), torch.no_grad():
        return torch.export.export(graph, given, dynamic_shapes=(free,) * len(given))


@contextlib.contextmanager
def converting(what: str) -> Iterator[None]:
    """Turn what goes wrong in a conversion into one sentence."""
    with quiet_converters():
        try:
            yield
        except (BackendError, OSError):
            raise
        except Exception as error:  # converters fail on what they do not know with exceptions of every kind
            reason = next((line.strip().rstrip(".") for line in str(error).splitlines() if line.strip()), "no reason")
            raise BackendError(
                f"Expected {what} to convert this encoder, but got {type(error).__name__}: {reason:.300}. "
                "Set backend='torch'."
            ) from error


@contextlib.contextmanager
def quiet_converters() -> Iterator[None]:
    """Keep back the converters' notes on the insides of torch, which nobody who scores can do anything about."""
    with warnings.catch_warnings():
        for category in (DeprecationWarning, FutureWarning, UserWarning):
            warnings.filterwarnings("ignore", category=category, module=r"(torch|openvino|onnx|nncf|copyreg)\b.*")
        yield


@contextlib.contextmanager
def errors_alone(*names: str) -> Iterator[None]:
    """Let loggers say nothing below errors."""
    loggers = [logging.getLogger(name) for name in names]
    levels = [one.level for one in loggers]
    for one in loggers:
        one.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for one, level in zip(loggers, levels, strict=True):
            one.setLevel(level)


@contextlib.contextmanager
def reading(folder: Path, what: str) -> Iterator[None]:
    """Turn what goes wrong in reading a graph into one sentence."""
    try:
        yield
    except (BackendError, MemoryError):
        raise
    except Exception as error:  # exceptions of back-ends have no base of their own
        reason = " ".join(str(error).split())
        raise BackendError(f"Expected {folder} to hold a graph for {what}, but reading it failed: {reason}") from error


class ArtefactRunner(ABC):
    """Runs the graph of an artefact; copies share it, and a pickle, for the same computer, holds the folder's name."""

    backend: str
    concurrent = True

    def __init__(self, folder: Path, precision: str) -> None:
        self.folder, self.precision = folder, precision
        self.name = f"{self.backend}-{version(self.backend)}"
        self.streams, self.threads = worker_count(torch.device("cpu")), torch.get_num_threads()
        renew_in_child(self)

    @property
    def row_runner(self) -> RowRunner | None:
        """The same, where its graph reads several short texts side by side."""
        return None

    def __call__(self, input_ids: Tensor, mask: Tensor) -> list[Tensor]:
        """Hidden states of the layers ``[B, L, D]`` each, from token ids (int64) and mask (bool) ``[B, L]``."""
        length = input_ids.shape[1]
        if length == 1:  # graphs take two tokens at least
            input_ids, mask = (torch.nn.functional.pad(one, (0, 1)) for one in (input_ids, mask))
        ids, present = (one.long().contiguous().numpy() for one in (input_ids, mask))
        return [torch.from_numpy(one)[:, :length] for one in self.run(ids, present)]

    @abstractmethod
    def run(self, ids: np.ndarray, mask: np.ndarray) -> list[np.ndarray]:
        """Arrays of the hidden states, which nothing else writes to."""

    def forked(self) -> None:
        """Make what computes again in a forked child, where it has one thread."""
        self.streams = self.threads = 1
        self.renew()

    @abstractmethod
    def renew(self) -> None:
        """Let go of what computes in threads of the parent, and make it again when it is asked for."""

    def __deepcopy__(self, _: dict[int, Any]) -> ArtefactRunner:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.folder, self.precision)
