r"""ONNX Runtime: float32 and int8 on the CPU.

ONNX Runtime's own quantiser uses one scale for the whole batch, so a text's vectors depend on the other texts of its
batch (scores move by up to .02). Here each product with a weight, :math:`Y = X W`, becomes

.. math:: Y_{ij} = m_i \, s_j \, \tfrac{1}{127} \sum_k \mathrm{round}(127 X_{ik} / m_i)\,\mathrm{round}(W_{kj} / s_j)

with :math:`m_i = \max_k |X_{ik}|` for each token and :math:`s_j = \max_k |W_{kj}| / 63` for each output. Weights use 7
of 8 bits, since sums of two full products overflow 16 bits on processors without VNNI.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from textmover.lazy import new_lock
from textmover.modules.devices import keep_for_ever
from textmover.scoring.backends.graph import ArtefactRunner, converting, errors_only, export_graph, reading
from textmover.scoring.backends.names import BackendError, package
from textmover.types import RunnableEncoder

INPUT_LEVELS, WEIGHT_LEVELS = 127, 63

SMALLEST = 1e-12  # lower bound of scales, for tokens that are all zeros


def quantize(model: Any) -> None:
    """Quantise every product with a constant matrix to 8 bits, in place."""
    from onnx import helper, numpy_helper

    graph = model.graph
    weights = {tensor.name: tensor for tensor in graph.initializer if len(tensor.dims) == 2}
    added: list[Any] = []

    def constant(name: str, value: np.ndarray) -> str:
        added.append(numpy_helper.from_array(value, name))
        return name

    step = constant("int8.step", np.array(1 / INPUT_LEVELS, np.float32))
    zero = constant("int8.zero", np.array(INPUT_LEVELS + 1, np.uint8))
    last = constant("int8.last", np.array([-1], np.int64))
    smallest = constant("int8.smallest", np.array(SMALLEST, np.float32))
    nodes: list[Any] = []
    scaled: set[str] = set()
    for node in graph.node:
        weight = weights.get(node.input[1]) if node.op_type == "MatMul" else None
        if weight is None:
            nodes.append(node)
            continue
        source, name = node.input[0], f"{node.output[0]}.int8"
        parts = {part: f"{source}.int8.{part}" for part in ("size", "most", "scale", "share", "whole")}
        if source not in scaled:  # queries, keys and values share their input
            scaled.add(source)
            nodes += [
                helper.make_node("Abs", [source], [parts["size"]]),
                helper.make_node("ReduceMax", [parts["size"], last], [parts["most"]], keepdims=1),
                helper.make_node("Max", [parts["most"], smallest], [parts["scale"]]),
                helper.make_node("Div", [source, parts["scale"]], [parts["share"]]),
                helper.make_node("QuantizeLinear", [parts["share"], step, zero], [parts["whole"]]),
            ]
        exact = numpy_helper.to_array(weight)
        scales = np.maximum(np.abs(exact).max(axis=0), SMALLEST).astype(np.float32) / WEIGHT_LEVELS  # one per column
        values = np.round(exact / scales).astype(np.int8)
        inputs = [parts["whole"], constant(f"{name}.weight", values), step, constant(f"{name}.scale", scales), zero]
        nodes += [
            helper.make_node("MatMulIntegerToFloat", inputs, [f"{name}.share"], domain="com.microsoft"),
            helper.make_node("Mul", [f"{name}.share", parts["scale"]], list(node.output)),
        ]
    if not scaled:
        raise BackendError(
            "Expected products with weights to put into int8, but the encoder's graph has none: set precision='exact'."
        )
    used_names = {name for node in nodes for name in node.input}
    remaining = [tensor for tensor in graph.initializer if tensor.name in used_names]
    for repeated, content in ((graph.node, nodes), (graph.initializer, [*remaining, *added])):
        del repeated[:]
        repeated.extend(content)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))


MODEL = "model.onnx"

INPUTS = ("input_ids", "attention_mask")


def export(encoder: RunnableEncoder, example: tuple[Tensor, Tensor], precision: str, folder: Path) -> None:
    """Write the graph of an encoder to a folder."""
    program = export_graph(encoder, example)
    # Silence the exporter's log of simplifications and missing operators.
    with converting("ONNX"), errors_only("torch.onnx", "onnxscript", "onnx_ir"), torch.no_grad():
        import onnx

        exported = torch.onnx.export(program, dynamo=True, input_names=INPUTS, verbose=False)
        if exported is None:
            raise RuntimeError("Expected torch.onnx.export to return a program, but got None.")
        model = exported.model_proto
        if precision == "int8":
            quantize(model)
        # Store weights in a separate file: an ONNX file is limited to 2 GB.
        onnx.save(model, str(folder / MODEL), save_as_external_data=True, location=f"{MODEL}.data")


class Runner(ArtefactRunner):
    """Runs an ONNX graph."""

    backend = "onnxruntime"

    def __init__(self, folder: Path, precision: str) -> None:
        self._lock = new_lock()
        self._session: Any = None
        super().__init__(folder, precision)
        self._open()

    def run(self, ids: np.ndarray, mask: np.ndarray) -> list[np.ndarray]:
        """Return arrays of hidden states, newly allocated by each call."""
        with self._lock:
            session = self._session or self._open()
        arrays = dict(zip(INPUTS, (ids, mask), strict=True))
        # Graphs that need no mask have no input for it.
        inputs = {node.name for node in session.get_inputs()}
        states: list[np.ndarray] = session.run(None, {name: array for name, array in arrays.items() if name in inputs})
        return states

    def forked(self) -> None:
        """See :meth:`ArtefactRunner.forked`."""
        super().forked()
        keep_for_ever(self._session)
        self._session = None

    def _open(self) -> Any:
        onnxruntime = package("onnxruntime")
        options = onnxruntime.SessionOptions()
        # Each call computes in its own thread; the remaining threads help any call.
        options.intra_op_num_threads = self.threads - self.streams + 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3  # errors only; its warnings are about graph optimisation
        with reading(self.folder, "ONNX Runtime"):
            self._session = onnxruntime.InferenceSession(
                str(self.folder / MODEL), options, providers=["CPUExecutionProvider"]
            )
        return self._session
