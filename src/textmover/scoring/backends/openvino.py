"""OpenVINO: float32, bfloat16 where the processor has it, and int8 weights, on the CPU."""

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

from textmover.modules.devices import keep_for_ever, new_lock
from textmover.modules.encoder.known_encoders import sees_locally
from textmover.scoring.backends.graph import (
    ArtefactRunner,
    converting,
    errors_alone,
    export_graph,
    graph_limit,
    reading,
)
from textmover.scoring.backends.names import package, without_telemetry
from textmover.scoring.engine.batches import FULL, best_fit, states_in_rows
from textmover.types import RowRunner, RunnableEncoder

MODEL = "model.xml"

ROWS, ROW_LENGTH = 8, 64
"""Rows of several texts that are read at a time, and tokens of each. In longer rows attention takes more, shorter ones
fill worse; more rows are no faster."""

MASK = 3  # input of the attention operation that says which places see which
OPERATION = 1 << 10  # bytes that an operation takes in the description of a graph, rather too many than too few

GROUP = 128
"""Values that share a scale where int8 products quantise their inputs: a text's never depends on its batch mates. With
32 an encoder is a quarter slower, and scores move by a third less on the mean and by as much at the most."""


def export(encoder: RunnableEncoder, example: tuple[Tensor, Tensor], precision: str, folder: Path) -> None:
    """Write the graph of an encoder into a folder."""
    openvino = package("openvino")
    program = export_graph(encoder, example, rows=graph_limit(encoder) >= ROW_LENGTH)
    graph: Any = encoder.graph()
    with converting("OpenVINO"), without_telemetry(), torch.no_grad():
        model = openvino.convert_model(program)
        if sees_locally(graph.model.config):
            _let_padding_see(model)
        if precision == "int8":
            model = _compressed(model)
        _save(model, folder)


class Runner(ArtefactRunner):
    """Runs an OpenVINO graph; each calling thread has a request of its own."""

    backend = "openvino"

    def __init__(self, folder: Path, precision: str) -> None:
        # Before the rest: another thread may fork while this one reads.
        self._graphs: dict[bool, Any] = {}
        self._lock = new_lock()
        self._requests = threading.local()
        super().__init__(folder, precision)
        model = self._read()
        self.state_sizes = tuple(one.partial_shape[2].get_length() for one in model.outputs)
        self._reads_rows = len(model.inputs) == 3  # several texts side by side; other graphs take ids and mask
        self._compile(model, in_rows=False)

    @property
    def row_runner(self) -> RowRunner | None:
        """The same, where its graph reads several short texts side by side."""
        return self if self._reads_rows else None

    @property
    def row_shape(self) -> tuple[int, int]:
        """Rows that are read at a time, and tokens of each."""
        return ROWS, ROW_LENGTH

    def run(self, ids: np.ndarray, mask: np.ndarray) -> list[np.ndarray]:
        """Arrays of the hidden states, which nothing else writes to."""
        if self._reads_rows and ids.shape[1] <= ROW_LENGTH:
            lengths = mask.sum(axis=1)
            rows = best_fit(lengths.tolist(), ROW_LENGTH)
            if lengths.sum() >= FULL * -(-len(rows) // ROWS) * ROWS * ROW_LENGTH:
                return [one.numpy() for one in states_in_rows(self, ids, lengths, rows)]
        given = [ids, mask]
        if self._reads_rows:
            positions = np.broadcast_to(np.arange(ids.shape[1]), ids.shape)
            given = [ids, np.ascontiguousarray(positions), mask]
        request = self._request(in_rows=False)
        request.infer(given, share_inputs=True)
        # The next call of this thread overwrites what the request holds.
        return [tensor.data.copy() for tensor in request.output_tensors]

    def rows(self, input_ids: np.ndarray, positions: np.ndarray, texts: np.ndarray, into: Sequence[np.ndarray]) -> None:
        """Make the hidden states of rows; see :meth:`~textmover.types.RowRunner.rows`."""
        request = self._request(in_rows=True)
        for number, place in enumerate(into):
            request.set_output_tensor(number, package("openvino").Tensor(place, shared_memory=True))
        request.infer([input_ids, positions, texts], share_inputs=True)

    def _request(self, *, in_rows: bool) -> Any:
        """This thread's own request to the graph for rows, or for inputs of any shape."""
        mine: dict[bool, Any] = self._requests.__dict__.setdefault("mine", {})
        if in_rows not in mine:
            with self._lock:
                if in_rows not in self._graphs:
                    self._compile(self._read(), in_rows=in_rows)
            mine[in_rows] = self._graphs[in_rows].create_infer_request()
        return mine[in_rows]

    def renew(self) -> None:
        """See :meth:`ArtefactRunner.renew`."""
        keep_for_ever(self._graphs, self._requests.__dict__)
        if _core.cache_info().currsize:  # else another runner was first
            keep_for_ever(_core())
            _core.cache_clear()
        self._graphs, self._requests = {}, threading.local()

    def _read(self) -> Any:
        with reading(self.folder, "OpenVINO"):
            return _core().read_model(str(self.folder / MODEL))

    def _compile(self, model: Any, *, in_rows: bool) -> None:
        """Compile the graph for rows of one shape, which are faster, or for inputs of any shape; each holds weights."""
        settings = {
            # Left to itself, OpenVINO picks bfloat16 wherever the processor has it.
            "INFERENCE_PRECISION_HINT": "bf16" if self.precision == "bf16" else "f32",
            "NUM_STREAMS": self.streams,
            "INFERENCE_NUM_THREADS": self.threads,
            # Several processes on one computer would pin their threads to the same cores.
            "ENABLE_CPU_PINNING": False,
            "DYNAMIC_QUANTIZATION_GROUP_SIZE": GROUP if self.precision == "int8" else 0,
        }
        with reading(self.folder, "OpenVINO"):
            if in_rows:
                model.reshape({one: list(self.row_shape) for one in model.inputs})
            self._graphs[in_rows] = _core().compile_model(model, "CPU", settings)


def _let_padding_see(model: Any) -> None:
    """Let places that see nothing see everything: OpenVINO makes NaN of them, which spread to the text."""
    from openvino import opset13

    for operation in model.get_ordered_ops():
        if operation.get_type_name() == "ScaledDotProductAttention" and operation.get_input_size() > MASK:
            seen = operation.input_value(MASK)
            if seen.get_element_type().is_dynamic() or seen.get_element_type().get_type_name() != "boolean":
                continue  # masks of numbers are finite
            nothing = opset13.logical_not(opset13.reduce_logical_or(seen, np.array([-1]), keep_dims=True))
            operation.input(MASK).replace_source_output(opset13.logical_or(seen, nothing).output(0))
    model.validate_nodes_and_infer_types()


def _compressed(model: Any) -> Any:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):  # progress bars, a table
        import nncf

        with errors_alone("nncf"):
            return nncf.compress_weights(model, mode=nncf.CompressWeightsMode.INT8_ASYM)


def _save(model: Any, folder: Path) -> None:
    try:
        package("openvino").save_model(model, str(folder / MODEL), compress_to_fp16=False)
    except RuntimeError:
        operations = model.get_ops()
        weights = sum(one.get_byte_size() for one in operations if one.get_type_name() == "Constant")
        _fill_up(folder, int(weights + OPERATION * len(operations)))
        raise


def _fill_up(folder: Path, size: int) -> None:
    """Write as many bytes into a folder and remove them, to hear from the system itself what it may refuse."""
    piece = os.urandom(1 << 20)  # which no file system that compresses makes any smaller
    with tempfile.TemporaryFile(dir=folder, buffering=0) as stream:
        while size > 0:
            size -= stream.write(piece[:size])


@functools.cache
def _core() -> Any:
    return package("openvino").Core()
