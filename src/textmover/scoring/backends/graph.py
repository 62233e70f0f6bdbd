"""From an encoder's model to a graph with free batch size and length, which back-ends convert."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from textmover.modules.devices import evaluating
from textmover.modules.encoder.known_encoders import position_limit
from textmover.modules.encoder.row_attention import row_graph
from textmover.scoring.backends.names import BackendError
from textmover.types import RunnableEncoder

MOST_TEXTS = 1 << 16
"""Largest batch of an exported graph; batches are cut by their tokens long before."""


def graph_limit(encoder: RunnableEncoder) -> int:
    """Longest text of an encoder in tokens."""
    graph: Any = encoder.graph()
    return position_limit(graph.model.config)


def export_graph(
    encoder: RunnableEncoder, example: tuple[Tensor, Tensor], *, rows: bool = False
) -> torch.export.ExportedProgram:
    """The computation of an encoder as a graph that takes batches of any size and texts of 2 tokens up to its limit.

    Args:
        encoder: The encoder; it is left as it is.
        example: Token ids and mask of several texts, int64 ``[B, L]``.
        rows: Let several texts stand side by side where the model allows: the graph takes ids, positions and the
            number of each token's text then, all int64 ``[R, C]`` (see
            :class:`~textmover.modules.encoder.row_attention.RowGraph`).

    Raises:
        BackendError: If the model cannot be traced.
    """
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
