"""OpenVINO back-end on the CPU: float32, bfloat16 if the processor supports it, and int8 weights."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from textmover.lazy import new_lock
from textmover.modules.devices import keep_for_ever
from textmover.modules.encoder.known_encoders import has_local_attention
from textmover.scoring.backends.graph import (
    ArtefactRunner,
    converting,
    errors_only,
    export_graph,
    graph_limit,
    reading,
)
from textmover.scoring.backends.names import package, without_telemetry
from textmover.scoring.engine.batches import FULL, best_fit, states_in_rows
from textmover.types import RowRunner, RunnableEncoder

MODEL = "model.xml"

ROWS, ROW_LENGTH = 8, 64
"""Rows of packed texts per batch, and tokens per row. Longer rows cost more attention, shorter ones waste more space,
and more rows are no faster."""

MASK = 3  # index of the attention operation's mask input
OPERATION = 1 << 10  # bytes per operation in the graph's XML file, an overestimate

GROUP = 128
"""Values that share a quantisation scale in int8 products, so that a text hardly depends on the others of its batch.
With 32, an encoder is a quarter slower, and mean score deviations shrink by a third, but the largest do not."""


def export(encoder: RunnableEncoder, example: tuple[Tensor, Tensor], precision: str, folder: Path) -> None:
    """Write the graph of an encoder to a folder."""
    openvino = package("openvino")
    program = export_graph(encoder, example, rows=graph_limit(encoder) >= ROW_LENGTH)
    graph: Any = encoder.graph()
    with converting("OpenVINO"), without_telemetry(), torch.no_grad():
        model = openvino.convert_model(program)
        if has_local_attention(graph.model.config):
            _unmask_fully_masked_rows(model)
        if precision == "int8":
            model = _compressed(model)
        _save(model, folder)


class Runner(ArtefactRunner):
    """Runs an OpenVINO graph; each calling thread has its own request."""

    backend = "openvino"
    row_shape = ROWS, ROW_LENGTH

    def __init__(self, folder: Path, precision: str) -> None:
        # Set before the rest, as another thread may fork during loading.
        self._graphs: dict[bool, Any] = {}
        self._lock = new_lock()
        self._requests = threading.local()
        super().__init__(folder, precision)
        model = self._read()
        self.state_sizes = tuple(output.partial_shape[2].get_length() for output in model.outputs)
        self._reads_rows = len(model.inputs) == 3  # packed rows have a third input, positions
        self._compile(model, in_rows=False)

    @property
    def row_runner(self) -> RowRunner | None:
        """This runner, if its graph supports rows of several short texts."""
        return self if self._reads_rows else None

    def run(self, ids: np.ndarray, mask: np.ndarray) -> list[np.ndarray]:
        """Return arrays of hidden states that the caller owns."""
        if self._reads_rows and ids.shape[1] <= ROW_LENGTH:
            lengths = mask.sum(axis=1)
            rows = best_fit(lengths.tolist(), ROW_LENGTH)
            if lengths.sum() >= FULL * -(-len(rows) // ROWS) * ROWS * ROW_LENGTH:
                return [tensor.numpy() for tensor in states_in_rows(self, ids, lengths, rows)]
        inputs = [ids, mask]
        if self._reads_rows:
            positions = np.broadcast_to(np.arange(ids.shape[1]), ids.shape)
            inputs = [ids, np.ascontiguousarray(positions), mask]
        request = self._request(in_rows=False)
        request.infer(inputs, share_inputs=True)
        # The next call of this thread overwrites the request's tensors.
        return [tensor.data.copy() for tensor in request.output_tensors]

    def rows(self, input_ids: np.ndarray, positions: np.ndarray, texts: np.ndarray, into: Sequence[np.ndarray]) -> None:
        """Compute the hidden states of rows; see :meth:`~textmover.types.RowRunner.rows`."""
        request = self._request(in_rows=True)
        for number, array in enumerate(into):
            request.set_output_tensor(number, package("openvino").Tensor(array, shared_memory=True))
        request.infer([input_ids, positions, texts], share_inputs=True)

    def _request(self, *, in_rows: bool) -> Any:
        """Return this thread's request to the graph for rows, or to the one for any shape."""
        requests: dict[bool, Any] = self._requests.__dict__.setdefault("mine", {})
        if in_rows not in requests:
            with self._lock:
                if in_rows not in self._graphs:
                    self._compile(self._read(), in_rows=in_rows)
            requests[in_rows] = self._graphs[in_rows].create_infer_request()
        return requests[in_rows]

    def forked(self) -> None:
        """See :meth:`ArtefactRunner.forked`."""
        super().forked()
        keep_for_ever(self._graphs, self._requests.__dict__)
        if _core.cache_info().currsize:  # otherwise another runner has done this
            keep_for_ever(_core())
            _core.cache_clear()
        self._graphs, self._requests = {}, threading.local()

    def _read(self) -> Any:
        with reading(self.folder, "OpenVINO"):
            return _core().read_model(str(self.folder / MODEL))

    def _compile(self, model: Any, *, in_rows: bool) -> None:
        """Compile the graph for rows of fixed shape, which is faster, or for any shape; each copy holds the weights."""
        # With AMX, products in bfloat16 are faster than those in 8 bits, and closer, so only the weights have 8 bits.
        wide = self.precision == "int8" and torch.cpu._is_amx_tile_supported()
        settings = {
            # By default, OpenVINO uses bfloat16 if the processor supports it.
            "INFERENCE_PRECISION_HINT": "bf16" if self.precision == "bf16" or wide else "f32",
            "NUM_STREAMS": self.streams,
            "INFERENCE_NUM_THREADS": self.threads,
            # Pinning would put the threads of several processes on the same cores.
            "ENABLE_CPU_PINNING": False,
            "DYNAMIC_QUANTIZATION_GROUP_SIZE": GROUP if self.precision == "int8" else 0,
        }
        with reading(self.folder, "OpenVINO"):
            if in_rows:
                model.reshape({input_node: list(self.row_shape) for input_node in model.inputs})
            self._graphs[in_rows] = _core().compile_model(model, "CPU", settings)


def _unmask_fully_masked_rows(model: Any) -> None:
    """Let fully masked positions attend to everything: OpenVINO computes NaN for them, which spreads to the text."""
    from openvino import opset13

    for operation in model.get_ordered_ops():
        if operation.get_type_name() == "ScaledDotProductAttention" and operation.get_input_size() > MASK:
            mask = operation.input_value(MASK)
            if mask.get_element_type().is_dynamic() or mask.get_element_type().get_type_name() != "boolean":
                continue  # numeric masks are finite
            fully_masked = opset13.logical_not(opset13.reduce_logical_or(mask, np.array([-1]), keep_dims=True))
            operation.input(MASK).replace_source_output(opset13.logical_or(mask, fully_masked).output(0))
    model.validate_nodes_and_infer_types()


def _compressed(model: Any) -> Any:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):  # progress bars, a table
        import nncf

        with errors_only("nncf"):
            return nncf.compress_weights(model, mode=nncf.CompressWeightsMode.INT8_ASYM)


def _save(model: Any, folder: Path) -> None:
    try:
        package("openvino").save_model(model, str(folder / MODEL), compress_to_fp16=False)
    except RuntimeError:
        operations = model.get_ops()
        weights = sum(operation.get_byte_size() for operation in operations if operation.get_type_name() == "Constant")
        _probe_free_space(folder, int(weights + OPERATION * len(operations)))
        raise


def _probe_free_space(folder: Path, size: int) -> None:
    """Write ``size`` bytes to a folder and remove them, so that a full disk raises the system's own error."""
    chunk = os.urandom(1 << 20)  # not compressible by a file system
    with tempfile.TemporaryFile(dir=folder, buffering=0) as stream:
        while size > 0:
            size -= stream.write(chunk[:size])


@functools.cache
def _core() -> Any:
    return package("openvino").Core()
