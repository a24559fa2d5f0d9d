"""Gradients of small ONNX graphs on the machine and in PyTorch, which computes in double precision.

A graph has parameters, all of which are trained, values that are known, and data. The loss is the
sum of its outputs times random factors, so that every element has a gradient of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

from tilescope.engine.frontend.onnx import load_onnx
from tilescope.engine.ir import Model
from tilescope.engine.machine import load_machine
from tilescope.engine.options import resolve
from tilescope.engine.session.compilation import compile_model
from tilescope.engine.session.compiled_model import CompiledModel
from tilescope.engine.session.engine import Engine
from tilescope.engine.training import Loss, Sgd, for_training
from tilescope.engine.transform import transform

__all__ = [
    "MACHINE",
    "Case",
    "agree",
    "agree_in_numpy",
    "case",
    "compiled",
    "drawn",
    "loaded",
    "single",
    "to_train",
]

Array = np.ndarray[Any, np.dtype[Any]]
#: An array, or the shape of one that is drawn.
Stated = Array | Sequence[int]

MACHINE = load_machine("gc200", tiles_per_ipu=8)

#: Of the largest gradient of a tensor.
TOLERANCE = 1e-5

_IR_VERSION = 10


def drawn(shape: Sequence[int], seed: int = 0) -> Array:
    """Return random numbers of both signs, none of them near 0."""
    rng = np.random.default_rng([seed, *shape])
    numbers = rng.uniform(0.2, 1.5, shape) * rng.choice([-1, 1], shape)
    return np.asarray(numbers, np.float32)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A graph, and what computes its outputs in PyTorch.

    Parameters
    ----------
    nodes
        Of ONNX.
    reference
        Takes the parameters, then the data, and returns the output or a sequence of them.
    parameters
        Trained; by name.
    known, data
        Other initializers, and inputs; by name.
    outputs
        Names of the values that the loss is made of.
    """

    name: str
    nodes: Sequence[onnx.NodeProto]
    reference: Callable[..., Any]
    parameters: Mapping[str, Array]
    known: Mapping[str, Array] = field(default_factory=dict)
    data: Mapping[str, Array] = field(default_factory=dict)
    outputs: Sequence[str] = ("y",)
    opset: int = 21
    tolerance: float = TOLERANCE
    has_second_use: bool = False


def _arrays(stated: Mapping[str, Stated]) -> dict[str, Array]:
    return {
        name: item if isinstance(item, np.ndarray) else drawn(item, seed)
        for seed, (name, item) in enumerate(stated.items())
    }


def case(
    name: str,
    nodes: Sequence[tuple[Any, ...]],
    parameters: Mapping[str, Stated],
    reference: Callable[..., Any],
    **options: Any,
) -> Case:
    """Return a case; a node is an operator type, names of inputs and outputs, and attributes."""
    built = [
        helper.make_node(
            kind, inputs.split(","), outputs.split(","), name=f"n{i}", **dict(*attributes)
        )
        for i, (kind, inputs, outputs, *attributes) in enumerate(nodes)
    ]
    return Case(
        name=name,
        nodes=built,
        reference=reference,
        parameters=_arrays(parameters),
        **options,
    )


def single(
    name: str,
    kind: str,
    parameters: Mapping[str, Stated],
    reference: Callable[..., Any],
    *,
    inputs: str = "",
    known: Mapping[str, Any] | None = None,
    data: Mapping[str, Any] | None = None,
    outputs: Sequence[str] = ("y",),
    opset: int = 21,
    **attributes: Any,
) -> Case:
    """Return a case of one node, which takes parameters, data and what is known in this order."""
    known = {name: np.asarray(array) for name, array in (known or {}).items()}
    data = {name: np.asarray(array) for name, array in (data or {}).items()}
    return case(
        name or kind,
        [(kind, inputs or ",".join([*parameters, *data, *known]), ",".join(outputs), attributes)],
        parameters,
        reference,
        known=known,
        data=data,
        outputs=tuple(name for name in outputs if name),
        opset=opset,
    )


def _info(name: str, array: Array) -> onnx.ValueInfoProto:
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, kind, array.shape)


def _expected(given: Case, results: Sequence[torch.Tensor]) -> dict[str, Array]:
    """Return the factors of the outputs, by name."""
    return {
        f"factors_{name}": drawn(tuple(result.shape), 7 + i)
        for i, (name, result) in enumerate(zip(given.outputs, results, strict=True))
    }


def loaded(given: Case, folder: Path, factors: Mapping[str, Array]) -> Model:
    """Return the graph of a case with its loss, as an output ``total``."""
    nodes, parts = [*given.nodes], []
    for i, (name, factor) in enumerate(zip(given.outputs, factors, strict=True)):
        nodes += [
            helper.make_node("Mul", [name, factor], [f"scaled{i}"], name=f"scaled{i}"),
            helper.make_node("ReduceSum", [f"scaled{i}"], [f"part{i}"], name=f"p{i}", keepdims=0),
        ]
        parts.append(f"part{i}")
    nodes.append(helper.make_node("Sum", parts, ["total"], name="total"))
    graph = helper.make_graph(
        nodes,
        given.name,
        [_info(name, array) for name, array in {**given.data, **factors}.items()],
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in (
                ("total", ()),
                *((n, f.shape) for n, f in zip(given.outputs, factors.values(), strict=True)),
            )
        ],
        [
            numpy_helper.from_array(array, name)
            for name, array in {**given.parameters, **given.known}.items()
        ],
    )
    proto = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", given.opset)], ir_version=_IR_VERSION
    )
    path = folder / "graph.onnx"
    onnx.save(proto, path)
    return load_onnx(path, trainable=list(given.parameters))


def to_train(given: Case, folder: Path, factors: Mapping[str, Array]) -> Model:
    """Return the model of a case that trains it at a rate of 0, with all its gradients."""
    return for_training(
        loaded(given, folder, factors),
        Loss(kind="identity", reduction="sum"),
        Sgd(lr=0.0),
        anchors=list(given.parameters),
    )


def compiled(model: Model) -> CompiledModel:
    """Return a model on eight tiles, checked for vertices that write what others access."""
    return compile_model(model, MACHINE, is_checked=True)


def _in_torch(given: Case) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Return the results, and the parameters that they depend on."""
    parameters = [
        torch.tensor(array, dtype=torch.float64, requires_grad=True)
        for array in given.parameters.values()
    ]
    data = [torch.tensor(array) for array in given.data.values()]
    data = [x.double() if x.is_floating_point() else x for x in data]
    results = given.reference(*parameters, *data)
    return [results] if isinstance(results, torch.Tensor) else list(results), parameters


def _differentiated(
    given: Case,
) -> tuple[list[torch.Tensor], list[torch.Tensor], dict[str, Array]]:
    """Return the results, the parameters with their gradients, and the factors of the outputs."""
    results, parameters = _in_torch(given)
    factors = _expected(given, results)
    total = sum(
        (result * torch.tensor(factor)).sum()
        for result, factor in zip(results, factors.values(), strict=True)
    )
    assert isinstance(total, torch.Tensor)
    total.backward()
    return results, parameters, factors


def agree(given: Case, folder: Path) -> None:
    """Compare outputs and gradients of a case."""
    results, parameters, factors = _differentiated(given)
    program = compiled(to_train(given, folder, factors))
    with Engine(program.executable, resolve(environ={})) as engine:
        engine.load()
        actual = program.run(engine, {**given.data, **factors})
    for name, result in zip(given.outputs, results, strict=True):
        near(actual[name], result.detach().numpy(), name, given.tolerance)
    for name, parameter in zip(given.parameters, parameters, strict=True):
        assert parameter.grad is not None, f"PyTorch has no gradient of {name}"
        near(actual[f"Gradient___{name}"], parameter.grad.numpy(), name, given.tolerance)


def agree_in_numpy(given: Case, folder: Path) -> None:
    """Compare the gradients that operations have in numpy with those of PyTorch."""
    _, parameters, factors = _differentiated(given)
    model = transform(to_train(given, folder, factors))
    values: dict[Any, Any] = {}
    arrays = {value.name: value.array for value in model.held} | {**given.data, **factors}
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
        assert evaluate is not None, operation.operator.key
        values.update(zip(operation.outputs, evaluate(operation, operands), strict=False))
    outputs = dict(model.outputs)
    for name, parameter in zip(given.parameters, parameters, strict=True):
        assert parameter.grad is not None
        actual = values[outputs[f"Gradient___{name}"]]
        near(actual, parameter.grad.numpy(), name, given.tolerance)


def near(actual: Array, expected: Array, name: str = "", tolerance: float = TOLERANCE) -> None:
    """Compare two arrays relative to the largest number of the second, of 0.1 at least."""
    assert actual.shape == expected.shape, name
    largest = np.abs(expected).max(initial=0)
    difference = np.abs(actual - expected).max(initial=0)
    assert difference <= tolerance * max(largest, 0.1), (
        f"{name}: off by {difference:.3g} of {largest:.3g}"
    )


def ids(cases: Iterable[Case]) -> list[str]:
    """Return the names of cases."""
    return [given.name for given in cases]
