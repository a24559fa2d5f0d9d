"""Nodes and weights of a transformer's graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

__all__ = ["TransformerNodes"]


class TransformerNodes:
    """Collects the nodes and random weights of a transformer."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.random = np.random.default_rng(0)
        self.dtype: type[np.floating[Any]] = np.float16

    def by_erf(self, x: str, name: str) -> str:
        """Add erf(x / √2)."""
        root = self.constant(np.sqrt(2), f"{name}/root")
        return self.node("Erf", [self.node("Div", [x, root], f"{name}/inside")], f"{name}/erf")

    def gated(self, x: str, curve: str, name: str, out: str) -> str:
        """Add x · (1 + curve) / 2, as exporters write GELU."""
        item, half = self.constant(1, f"{name}/one"), self.constant(0.5, f"{name}/half")
        grown = self.node("Add", [curve, item], f"{name}/plus")
        return self.node("Mul", [self.node("Mul", [x, grown], f"{name}/times"), half], out)

    def reshaped(self, x: str, shape: tuple[int, ...]) -> str:
        """Add a reshape."""
        name = f"{x}/shape"
        self.weights.append(numpy_helper.from_array(np.array(shape, np.int64), name))
        return self.node("Reshape", [x, name], f"{x}/reshaped")

    def weight(self, shape: tuple[int, ...], name: str) -> str:
        """Add random weights."""
        values = self.random.standard_normal(shape).astype(self.dtype) / 32
        self.weights.append(numpy_helper.from_array(values.astype(self.dtype), name))
        return name

    def constant(self, value: float, name: str) -> str:
        """Add a number."""
        self.weights.append(numpy_helper.from_array(np.array(value, self.dtype), name))
        return name

    def node(self, kind: str, inputs: list[str], name: str, **attributes: Any) -> str:
        """Add a node; its result has its name."""
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name
