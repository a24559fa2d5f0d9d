"""Models of one operator of PopART: results in numpy, gradients by finite differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper
from tests.engine.operators.graphs import info, model_of

from tilescope.engine import Engine, compile_model, load_machine, load_onnx, resolve_options
from tilescope.engine.training import Loss, Sgd, for_training

__all__ = [
    "DOMAIN",
    "MACHINE",
    "Case",
    "agrees",
    "drawn",
    "gradient_of",
    "gradients_agree",
    "node_of",
    "results_of",
    "saved",
]

Array = np.ndarray[Any, np.dtype[Any]]
Reference = Callable[..., Any]

DOMAIN = "ai.graphcore"
MACHINE = load_machine("gc200", tiles_per_ipu=4)
#: What a number is changed by for a difference, and how near a gradient is to that, of the largest.
_STEP, _TOLERANCE = 1e-6, 2e-5


def drawn(shape: Sequence[int], seed: int = 0, dtype: str = "float32") -> Array:
    """Return random numbers of both signs, none of them near 0."""
    rng = np.random.default_rng([seed, *shape])
    numbers = rng.uniform(0.2, 1.5, shape) * rng.choice([-1, 1], shape)
    return np.asarray(numbers, dtype)


@dataclass(frozen=True)
class Case:
    """An operator with operands, and its results in numpy.

    Parameters
    ----------
    reference
        Takes the operands, floats in double precision, and returns a result or a tuple of them.
    known
        Positions of operands that are initializers.
    trained
        Positions of operands whose gradients are compared.
    """

    op_type: str
    operands: Sequence[Array | None]
    reference: Reference
    attributes: dict[str, Any] = field(default_factory=dict)
    known: Sequence[int] = ()
    trained: Sequence[int] = (0,)
    tolerance: float = 1e-6
    name: str = ""
    domain: str = DOMAIN

    def __str__(self) -> str:
        return self.name or self.op_type

    def expected(self, operands: Sequence[Array | None] | None = None) -> list[Array]:
        """Return the results in double precision."""
        arrays = self.operands if operands is None else operands
        wide = [
            a.astype(np.float64) if a is not None and a.dtype.kind == "f" else a for a in arrays
        ]
        results = self.reference(*wide)
        return [np.asarray(r) for r in (results if isinstance(results, tuple) else (results,))]


def node_of(
    op_type: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any
) -> onnx.NodeProto:
    return helper.make_node(
        op_type, inputs, outputs, name=op_type.lower(), domain=DOMAIN, **attributes
    )


def _saved(
    case: Case, path: Path, known: Sequence[int], factors: Sequence[Array] = ()
) -> dict[str, Array]:
    """Write the model of a case, with a weighted sum of its results as ``total``; return inputs."""
    names = ["" if a is None else f"x{i}" for i, a in enumerate(case.operands)]
    results = [f"y{i}" for i in range(len(case.expected()))]
    nodes = [node_of(case.op_type, names, results, **case.attributes)]
    nodes[0].domain = case.domain
    arrays = {n: a for n, a in zip(names, case.operands, strict=True) if a is not None}
    outputs = [helper.make_tensor_value_info(n, TensorProto.UNDEFINED, None) for n in results]
    if factors:
        for i, name in enumerate(results):
            nodes += [
                helper.make_node("Mul", [name, f"f{i}"], [f"scaled{i}"]),
                helper.make_node("ReduceSum", [f"scaled{i}"], [f"part{i}"], keepdims=0),
            ]
        parts = [f"part{i}" for i in range(len(results))]
        nodes.append(helper.make_node("Sum", parts, ["total"]))
        outputs = [info("total", ())]
        arrays |= {f"f{i}": factor for i, factor in enumerate(factors)}
    held = {f"x{i}" for i in known} | {n for n in arrays if n.startswith("f")}
    inputs = {n: a for n, a in arrays.items() if n not in held}
    saved(nodes, inputs, outputs, {n: a for n, a in arrays.items() if n in held}, path)
    return inputs


def results_of(case: Case, path: Path, known: Sequence[int] | None = None) -> list[Array]:
    """Return the results on the machine, or folded where all operands are known."""
    inputs = _saved(case, path, case.known if known is None else known)
    compiled = compile_model(load_onnx(path), MACHINE, is_checked=True)
    with Engine(compiled.executable, resolve_options(environ={})) as engine:
        outputs = compiled.run(engine, inputs)
    return [outputs[f"y{i}"] for i in range(len(case.expected()))]


def agrees(case: Case, folder: Path) -> None:
    """Compare the results on the machine, and those in numpy, with what is expected."""
    every = [i for i, array in enumerate(case.operands) if array is not None]
    for known in {tuple(case.known), tuple(every)}:
        actual = results_of(case, folder / "one.onnx", known)
        for array, expected in zip(actual, case.expected(), strict=True):
            assert array.shape == expected.shape
            np.testing.assert_allclose(array, expected, case.tolerance, case.tolerance)


def _difference(case: Case, factors: Sequence[Array], index: int) -> Array:
    """Return the gradient of an operand by central differences."""
    x = case.operands[index]
    assert x is not None
    gradient = np.zeros(x.shape)
    for place in np.ndindex(*x.shape):
        totals = []
        for step in (_STEP, -_STEP):
            moved = np.array(x, np.float64)
            moved[place] += step
            arrays = [moved if i == index else a for i, a in enumerate(case.operands)]
            pairs = zip(case.expected(arrays), factors, strict=True)
            totals.append(sum(float((r * f).sum()) for r, f in pairs))
        gradient[place] = (totals[0] - totals[1]) / (2 * _STEP)
    return gradient


def gradients_agree(case: Case, folder: Path) -> None:
    """Compare the gradients on the machine with finite differences."""
    factors = [drawn(array.shape, 7 + i) for i, array in enumerate(case.expected())]
    path = folder / "trained.onnx"
    trained = [f"x{i}" for i in case.trained]
    inputs = _saved(case, path, [*case.known, *case.trained], factors)
    actual = _trained(path, trained, inputs)
    for index in case.trained:
        expected = _difference(case, factors, index)
        largest = max(0.1, float(np.abs(expected).max()))
        found = actual[f"x{index}"]
        np.testing.assert_allclose(found, expected, rtol=0, atol=_TOLERANCE * largest)


def _trained(path: Path, names: Sequence[str], inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return the gradients of initializers of a model whose only output is its loss."""
    model = for_training(
        load_onnx(path, trainable=names),
        Loss(kind="identity", reduction="sum"),
        Sgd(lr=0.0),
        anchors=names,
    )
    compiled = compile_model(model, MACHINE, is_checked=True)
    with Engine(compiled.executable, resolve_options(environ={})) as engine:
        engine.load()
        outputs = compiled.run(engine, inputs)
    return {name: outputs[f"Gradient___{name}"] for name in names}


def saved(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Array],
    outputs: Sequence[onnx.ValueInfoProto],
    initializers: Mapping[str, Array],
    path: Path,
) -> None:
    """Write a model of ONNX's operators and PopART's."""
    infos = [
        info(name, array.shape, helper.np_dtype_to_tensor_dtype(array.dtype))
        for name, array in inputs.items()
    ]
    model = model_of(nodes, infos, outputs, initializers, opset=11)
    for domain in {DOMAIN, *(node.domain for node in nodes)} - {""}:
        model.opset_import.append(helper.make_opsetid(domain, 1))
    onnx.save(model, path)


def gradient_of(
    nodes: Sequence[onnx.NodeProto], parameters: Mapping[str, Array], folder: Path
) -> dict[str, Array]:
    """Return the gradients of parameters; the last node is the loss, called ``loss``."""
    path = folder / "loss.onnx"
    saved(nodes, {}, [info("loss", ())], parameters, path)
    return _trained(path, list(parameters), {})
