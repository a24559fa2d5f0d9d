"""Gradients of models of one node, against finite differences of a reference in float64.

The loss is the sum of a case's floating-point results times random factors. Its slope along random
directions is that of ONNX's reference, with the case's own data or, as these often lie where a
function has no slope, with data beside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tilescope.engine import Engine, load_machine
from tilescope.engine.errors import BadModel, UnsupportedOperators
from tilescope.engine.frontend.onnx import load_onnx
from tilescope.engine.ir import Model
from tilescope.engine.session.compilation import compile_model
from tilescope.engine.training import Loss, Sgd, for_training
from tilescope.engine.transform import transform

__all__ = ["NodeCase", "wrong_slopes"]

Arrays = dict[str, NDArray[Any]]

_MACHINE = load_machine("gc200", tiles_per_ipu=4)

#: Half of a difference in float64 and, for references that take float32 only, in that; and how far
#: slopes may be off, of the largest of a gradient's norm, the slope, and 0.1.
_Steps = tuple[tuple[type[np.floating[Any]], float], ...]
_WIDE: _Steps
_NARROW: _Steps
_WIDE, _WIDE_TOLERANCE = ((np.float64, 1e-6), (np.float64, 1e-3)), 2e-3
_NARROW, _NARROW_TOLERANCE = ((np.float32, 3e-2), (np.float32, 1e-2), (np.float32, 3e-3)), 1e-2

#: Why a case may have no gradient.
_REASONS = (
    "statistics, further outputs, are not supported",
    "has no parameter that can be trained",
    "depends on no parameter that can be trained",
    "must be known at compile time",
    "data decide how many entries",
    "depends on no floating-point value of that name",
    "fails the ONNX checker",
    "do not broadcast",
    "numbers of its own",
)


@dataclass(frozen=True)
class NodeCase:
    """A case of ONNX whose floating-point inputs are parameters."""

    name: str
    model: onnx.ModelProto
    inputs: Arrays
    outputs: Arrays

    @property
    def parameters(self) -> Arrays:
        return {n: a for n, a in self.inputs.items() if a.dtype == np.float32 and a.size and a.ndim}

    def beside(self, rng: np.random.Generator) -> NodeCase:
        """Return the case with other parameters, which differ by 0.03 to 0.3."""
        moved = {
            name: (
                array + rng.uniform(0.03, 0.3, array.shape) * rng.choice([-1, 1], array.shape)
            ).astype(np.float32)
            for name, array in self.parameters.items()
        }
        return NodeCase(self.name, self.model, {**self.inputs, **moved}, self.outputs)


def _file(case: NodeCase, factors: Mapping[str, NDArray[Any]], path: Path) -> None:
    """Write the model of a case with its loss, ``total``."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    graph = model.graph
    del graph.input[:]
    del graph.output[:]
    graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in case.inputs.items())
    parts = []
    for i, (name, factor) in enumerate(factors.items()):
        graph.initializer.append(numpy_helper.from_array(factor, f"factor{i}"))
        graph.node.append(helper.make_node("Mul", [name, f"factor{i}"], [f"scaled{i}"]))
        graph.node.append(
            helper.make_node("ReduceSum", [f"scaled{i}"], [f"part{i}"], name=f"s{i}", keepdims=0)
        )
        parts.append(f"part{i}")
    graph.node.append(helper.make_node("Sum", parts, ["total"], name="total"))
    graph.output.append(helper.make_tensor_value_info("total", TensorProto.FLOAT, []))
    onnx.save(model, path)


def _trained(path: Path, names: list[str]) -> Model:
    """Return the model that trains what may be trained: not what decides shapes or positions."""
    while True:
        try:
            model = load_onnx(path, trainable=names)
            trained = [p.name for p in model.parameters if p.is_trainable]
            loss = Loss(kind="identity", reduction="sum")
            model = for_training(model, loss, Sgd(lr=0.0), anchors=trained)
            transform(model)
        except (BadModel, UnsupportedOperators) as error:
            named = [name for name in names if f"'{name}'" in str(error)]
            if not named or len(names) == 1:
                raise
            names = [name for name in names if name != named[0]]
        else:
            return model


def _in_numpy(model: Model) -> Arrays:
    """Return the outputs of a model of parameters only.

    Raises
    ------
    TypeError
        When an operation has no value in numpy.
    """
    values: dict[Any, Any] = {value: value.array for value in model.held}
    arrays = {value.name: value.array for value in model.held}
    for operation in model.operations:
        operands = [
            None
            if value is None
            else values[value]
            if value in values
            else arrays[value.name]
            if value.known is None
            else np.asarray(value.known)
            for value in operation.inputs
        ]
        evaluate = operation.operator.evaluate
        if evaluate is None:
            raise TypeError(operation.operator.key)
        values.update(zip(operation.outputs, evaluate(operation, operands), strict=False))
    return {
        name: values[value] if value in values else np.asarray(value.known)
        for name, value in model.outputs
    }


def _gradients(case: NodeCase, factors: Arrays, folder: Path) -> Arrays:
    path = folder / "case.onnx"
    _file(case, factors, path)
    model = _trained(path, [*case.parameters])
    with np.errstate(all="ignore"):
        try:
            outputs = _in_numpy(transform(model))
        except TypeError:
            compiled = compile_model(model, _MACHINE)
            with Engine(compiled.executable) as engine:
                outputs = compiled.run(engine, {})
    before = "Gradient___"
    return {n.removeprefix(before): a for n, a in outputs.items() if n.startswith(before)}


def _differences(case: NodeCase, factors: Arrays, folder: Path) -> list[str]:
    """Return what is wrong with the gradients of a case."""
    reference, wrong = ReferenceEvaluator(case.model), []

    def loss(arrays: Arrays, dtype: type[np.floating[Any]]) -> float:
        fed = {
            name: array.astype(dtype) if array.dtype.kind == "f" else array
            for name, array in {**case.inputs, **arrays}.items()
        }
        results = reference.run([*factors], fed)
        return sum(
            float((np.asarray(result, np.float64)[factor != 0] * factor[factor != 0]).sum())
            for result, factor in zip(results, factors.values(), strict=True)
        )

    steps, tolerance = _WIDE, _WIDE_TOLERANCE
    try:
        loss({}, np.float64)
    except (RuntimeError, TypeError, ValueError):  # constants of the model are float32
        steps, tolerance = _NARROW, _NARROW_TOLERANCE
    rng = np.random.default_rng(1)
    for name, gradient in _gradients(case, factors, folder).items():
        x = case.inputs[name].astype(np.float64)
        assert gradient.shape == x.shape
        for direction in (rng.normal(size=x.shape), np.ones(x.shape)):
            expected = [
                (loss({name: x + h * direction}, dtype) - loss({name: x - h * direction}, dtype))
                / (2 * h)
                for dtype, h in steps
            ]
            slope = float((gradient.astype(np.float64) * direction).sum())
            size = max(float(np.linalg.norm(gradient)), abs(slope), 0.1)
            if not min(abs(number - slope) for number in expected) <= tolerance * size:
                wrong.append(f"{name}: slope {slope:.6g}, expected {expected[0]:.6g}")
    return wrong


def wrong_slopes(case: NodeCase, folder: Path) -> list[str]:
    """Return what is wrong with a case: with its own data, and with those beside them."""
    rng = np.random.default_rng(0)
    factors = {
        name: (rng.uniform(0.5, 1.5, array.shape) * np.isfinite(array)).astype(np.float32)
        for name, array in case.outputs.items()
    }
    try:
        wrong = _differences(case, factors, folder)
        return wrong and _differences(case.beside(rng), factors, folder)
    except (BadModel, UnsupportedOperators) as error:
        return [] if any(reason in str(error) for reason in _REASONS) else [str(error)]
