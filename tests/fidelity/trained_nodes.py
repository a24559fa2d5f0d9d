"""Nodes and weights of a transformer that is trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tests.fidelity.transformer_nodes import TransformerNodes

from tilescope.engine import load_onnx
from tilescope.engine.ir import Model

__all__ = ["TrainedNodes"]

#: Share of values that dropout leaves out. Sources: arXiv 1810.04805, appendix A.2;
#: graphcore/examples, speech/conformer/pytorch/configs/train.yaml.
_DROPPED = 0.1


class TrainedNodes(TransformerNodes):
    """Collects nodes, and weights, which are zeros: no cycle depends on their values."""

    def weight(self, shape: tuple[int, ...], name: str) -> str:
        """Add a weight that is trained."""
        return self.stored(np.zeros(shape, self.dtype), name)

    def stored(self, values: NDArray[Any], name: str) -> str:
        """Add a constant, or a weight; integers are of 64 bits."""
        if values.dtype.kind == "i":
            values = values.astype(np.int64)
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def parted(self, x: str, parts: Sequence[str], axis: int) -> None:
        """Add a split into equal parts."""
        self.nodes.append(
            helper.make_node(
                "Split", [x], parts, name=f"{x}/split", axis=axis, num_outputs=len(parts)
            )
        )

    def dense(self, x: str, n_in: int, n_out: int, name: str) -> str:
        """Add a product with weights and a bias."""
        weights = self.weight((n_in, n_out), f"w/{name}/w")
        product = self.node("MatMul", [x, weights], f"{name}/product")
        return self.node("Add", [product, self.weight((n_out,), f"w/{name}/b")], name)

    def norm(self, x: str, width: int, name: str) -> str:
        """Add a layer normalisation of the last dimension."""
        factors = [self.weight((width,), f"w/{name}/{part}") for part in ("scale", "shift")]
        return self.node("LayerNormalization", [x, *factors], name, axis=-1)

    def dropped(self, x: str, name: str) -> str:
        """Add dropout."""
        ratio = self.stored(np.array(_DROPPED, self.dtype), f"{name}/ratio")
        return self.node("Dropout", [x, ratio, self.stored(np.array(True), f"{name}/mode")], name)

    def model(
        self, name: str, inputs: Mapping[str, tuple[int, tuple[int, ...]]], loss: str
    ) -> Model:
        """Return the model of what was added.

        Parameters
        ----------
        name
            Of the model.
        inputs
            Type and shape by name.
        loss
            Name of the output, a scalar of float.
        """
        graph = helper.make_graph(
            self.nodes,
            name,
            [helper.make_tensor_value_info(n, *of) for n, of in inputs.items()],
            [helper.make_tensor_value_info(loss, TensorProto.FLOAT, [])],
            self.weights,
        )
        opsets = [helper.make_opsetid("", 20), helper.make_opsetid("ai.graphcore", 1)]
        with TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
            return load_onnx(path, trainable=("w/*",))
