"""Export of an encoder as a graph with dynamic batch size and length, and the base class of its runners."""

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

from textmover.lazy import reset_after_fork
from textmover.modules.devices import evaluating
from textmover.modules.encoder.encoder import row_graph
from textmover.modules.encoder.known_encoders import position_limit
from textmover.scoring.backends.names import BackendError, version
from textmover.scoring.engine.threads import worker_count
from textmover.types import RowRunner, RunnableEncoder

MOST_TEXTS = 1 << 16  # maximum batch size of an exported graph; token limits keep batches far smaller


def graph_limit(encoder: RunnableEncoder) -> int:
    """Return the maximum number of tokens per text."""
    return position_limit(encoder.weights.config)


def export_graph(
    encoder: RunnableEncoder, example: tuple[Tensor, Tensor], *, rows: bool = False
) -> torch.export.ExportedProgram:
    """Export an encoder as a graph that accepts any batch size and texts of 2 tokens up to the limit."""
    dynamic = {0: torch.export.Dim("texts", min=1, max=MOST_TEXTS)}
    dynamic[1] = torch.export.Dim("tokens", min=2, max=graph_limit(encoder))
    graph: torch.nn.Module = encoder.graph()
    inputs: tuple[Tensor, ...] = example
    graph_of_rows = row_graph(graph) if rows else None
    if graph_of_rows is not None:
        ids, mask = example
        graph, inputs = graph_of_rows, (ids, torch.arange(ids.shape[1]).expand_as(ids).contiguous(), mask)
    with converting("torch.export"), evaluating(graph), torch.no_grad():
        return torch.export.export(graph, inputs, dynamic_shapes=(dynamic,) * len(inputs))


@contextlib.contextmanager
def converting(what: str) -> Iterator[None]:
    """Raise any failure of a conversion as a one-sentence error."""
    with quiet_converters():
        try:
            yield
        except (BackendError, OSError):
            raise
        except Exception as error:  # converters raise all kinds of exceptions for unsupported operations
            reason = next((line.strip().rstrip(".") for line in str(error).splitlines() if line.strip()), "no reason")
            raise BackendError(
                f"Expected {what} to convert this encoder, but got {type(error).__name__}: {reason:.300}. "
                "Set backend='torch'."
            ) from error


@contextlib.contextmanager
def quiet_converters() -> Iterator[None]:
    """Silence converter warnings about torch internals, which users cannot act on."""
    with warnings.catch_warnings():
        for category in (DeprecationWarning, FutureWarning, UserWarning):
            warnings.filterwarnings("ignore", category=category, module=r"(torch|openvino|onnx|nncf|copyreg)\b.*")
        yield


@contextlib.contextmanager
def errors_only(*names: str) -> Iterator[None]:
    """Set loggers to level ERROR inside the context."""
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextlib.contextmanager
def reading(folder: Path, what: str) -> Iterator[None]:
    """Raise any failure to read a graph as a one-sentence error."""
    try:
        yield
    except (BackendError, MemoryError):
        raise
    except Exception as error:  # back-ends' exceptions have no common base class
        reason = " ".join(str(error).split())
        raise BackendError(f"Expected {folder} to hold a graph for {what}, but reading it failed: {reason}") from error


class ArtefactRunner(ABC):
    """Runs the graph of an artefact; copies share it, and a pickle holds its path, for the same computer only."""

    backend: str
    concurrent = True

    def __init__(self, folder: Path, precision: str) -> None:
        self.folder, self.precision = folder, precision
        self.name = f"{self.backend}-{version(self.backend)}"
        self.streams, self.threads = worker_count(torch.device("cpu")), torch.get_num_threads()
        reset_after_fork(self)

    @property
    def row_runner(self) -> RowRunner | None:
        """This runner, if its graph supports rows of several short texts."""
        return None

    def __call__(self, input_ids: Tensor, mask: Tensor) -> list[Tensor]:
        """Return the hidden states ``[B, L, D]`` of each layer for token ids (int64) and mask (bool) ``[B, L]``."""
        length = input_ids.shape[1]
        if length == 1:  # graphs need at least two tokens
            input_ids, mask = (torch.nn.functional.pad(array, (0, 1)) for array in (input_ids, mask))
        ids, mask_array = (array.long().contiguous().numpy() for array in (input_ids, mask))
        return [torch.from_numpy(array)[:, :length] for array in self.run(ids, mask_array)]

    @abstractmethod
    def run(self, ids: np.ndarray, mask: np.ndarray) -> list[np.ndarray]:
        """Return arrays of hidden states that the caller owns."""

    def forked(self) -> None:
        """Reset to one thread in a forked child; what computed in the parent's threads is recreated on demand."""
        self.streams = self.threads = 1

    def __deepcopy__(self, _: dict[int, Any]) -> ArtefactRunner:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.folder, self.precision)
