"""ONNX Runtime: float32 and int8 on the CPU."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from textmover.modules.forking import keep_for_ever, new_lock
from textmover.scoring.backends.graph import converting, export_graph
from textmover.scoring.backends.int8 import quantize
from textmover.scoring.backends.names import BackendError
from textmover.scoring.backends.packages import package
from textmover.scoring.backends.runner import ArtefactRunner
from textmover.types import RunnableEncoder

MODEL = "model.onnx"

INPUTS = ("input_ids", "attention_mask")


def export(encoder: RunnableEncoder, example: tuple[Tensor, Tensor], precision: str, folder: Path) -> None:
    """Write the graph of an encoder into a folder.

    Args:
        encoder: The encoder.
        example: Token ids and mask of several texts, int64 ``[B, L]``.
        precision: ``exact`` keeps float32, ``int8`` see :mod:`textmover.scoring.backends.int8`.
        folder: Where to.

    Raises:
        BackendError: If it cannot be converted.
    """
    program = export_graph(encoder, example)
    with converting("ONNX"), _quiet(), torch.no_grad():
        import onnx

        exported = torch.onnx.export(program, dynamo=True, input_names=INPUTS, verbose=False)
        if exported is None:
            raise RuntimeError("Expected torch.onnx.export to return a program, but got None.")
        model = exported.model_proto
        if precision == "int8":
            quantize(model)
        # Weights beside the graph: a file of the format holds 2 GB at the most.
        onnx.save(model, str(folder / MODEL), save_as_external_data=True, location=f"{MODEL}.data")


class Runner(ArtefactRunner):
    """Runs an ONNX graph.

    Args:
        folder: The artefact.
        precision: ``exact`` or ``int8``.

    Raises:
        BackendError: If the artefact cannot be read, or the package is broken.
    """

    backend = "onnxruntime"

    def __init__(self, folder: Path, precision: str) -> None:
        super().__init__(folder, precision)
        self._lock = new_lock()
        self._session: Any = None
        self._open()

    def run(self, ids: np.ndarray, mask: np.ndarray) -> list[np.ndarray]:
        """Arrays of the hidden states, made anew by each call."""
        with self._lock:
            session = self._session or self._open()
        given = dict(zip(INPUTS, (ids, mask), strict=True))
        # A graph that needs no mask has no input for it.
        inputs = {one.name for one in session.get_inputs()}
        found: list[np.ndarray] = session.run(None, {name: one for name, one in given.items() if name in inputs})
        return found

    def renew(self) -> None:
        """See :meth:`ArtefactRunner.renew`."""
        keep_for_ever(self._session)
        self._session = None

    def _open(self) -> Any:
        onnxruntime = package("onnxruntime")
        options = onnxruntime.SessionOptions()
        # Each call computes in the thread that makes it; those that are over help whichever call has work.
        options.intra_op_num_threads = self.threads - self.streams + 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3  # errors: its warnings are about how a graph was made faster
        try:
            self._session = onnxruntime.InferenceSession(
                str(self.folder / MODEL), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # its exceptions have no base of their own
            raise BackendError(
                f"Expected {self.folder} to hold a graph for ONNX Runtime, but reading it failed: "
                f"{' '.join(str(error).split())}"
            ) from error
        return self._session


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep out of the log how the exporter simplifies a graph, and which operators it does not find."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [one.level for one in loggers]
    for one in loggers:
        one.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for one, level in zip(loggers, levels, strict=True):
            one.setLevel(level)
