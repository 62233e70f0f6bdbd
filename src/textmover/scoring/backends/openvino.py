"""OpenVINO: float32, bfloat16 where the processor has it, and int8 weights, on the CPU."""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import threading
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from textmover.scoring.backends.graph import converting, export_graph
from textmover.scoring.backends.names import BackendError
from textmover.scoring.backends.packages import package, without_telemetry
from textmover.scoring.backends.runner import ArtefactRunner
from textmover.types import RunnableEncoder

__all__ = ["Runner", "export"]

MODEL = "model.xml"

GROUP = 32
"""Values that share a scale where int8 products quantise their inputs: a text's never depends on its batch mates."""


def export(encoder: RunnableEncoder, example: tuple[Tensor, Tensor], precision: str, folder: Path) -> None:
    """Write the graph of an encoder into a folder.

    Args:
        encoder: The encoder.
        example: Token ids and mask of several texts, int64 ``[B, L]``.
        precision: ``exact`` keeps float32, ``int8`` stores the weights of all products in 8 bits, one scale and zero
            point per output channel.
        folder: Where to.

    Raises:
        BackendError: If it cannot be converted, or the package is broken.
    """
    openvino = package("openvino")
    program = export_graph(encoder, example)
    with converting("OpenVINO"), without_telemetry(), torch.no_grad():
        model = openvino.convert_model(program)
        if precision == "int8":
            model = _compressed(model)
        openvino.save_model(model, str(folder / MODEL), compress_to_fp16=False)


class Runner(ArtefactRunner):
    """Runs an OpenVINO graph; each calling thread has a request of its own.

    Args:
        folder: The artefact.
        precision: ``exact``, ``bf16`` or ``int8``.

    Raises:
        BackendError: If the artefact cannot be read, or the package is broken.
    """

    backend = "openvino"

    def __init__(self, folder: Path, precision: str) -> None:
        super().__init__(folder, precision)
        settings = {
            # Left to itself, OpenVINO picks bfloat16 wherever the processor has it.
            "INFERENCE_PRECISION_HINT": "bf16" if precision == "bf16" else "f32",
            "NUM_STREAMS": self.streams,
            "INFERENCE_NUM_THREADS": self.threads,
            # Several processes on one computer would pin their threads to the same cores.
            "ENABLE_CPU_PINNING": False,
            "DYNAMIC_QUANTIZATION_GROUP_SIZE": GROUP if precision == "int8" else 0,
        }
        try:
            self._compiled = _core().compile_model(str(folder / MODEL), "CPU", settings)
        except RuntimeError as error:
            raise BackendError(
                f"Expected {folder} to hold a graph for OpenVINO, but reading it failed: {' '.join(str(error).split())}"
            ) from error
        self._requests = threading.local()

    def run(self, ids: np.ndarray, mask: np.ndarray) -> list[np.ndarray]:
        """Arrays of the hidden states, which nothing else writes to."""
        request = getattr(self._requests, "mine", None)
        if request is None:
            request = self._requests.mine = self._compiled.create_infer_request()
        request.infer([ids, mask], share_inputs=True)
        # The next call of this thread overwrites what the request holds.
        return [tensor.data.copy() for tensor in request.output_tensors]


def _compressed(model: Any) -> Any:
    """The model with weights in 8 bits."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):  # progress bars, a table
        import nncf

        log = logging.getLogger("nncf")
        level = log.level
        log.setLevel(logging.ERROR)
        try:
            return nncf.compress_weights(model, mode=nncf.CompressWeightsMode.INT8_ASYM)
        finally:
            log.setLevel(level)


@functools.cache
def _core() -> Any:
    return package("openvino").Core()
