"""A user's operator on the simulated machine beside its function in numpy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import IrBuilder, Model, Node, Operator, Value
from tilescope.engine.ir.standard import attributes_of, version_of
from tilescope.engine.machine import Machine, load_machine
from tilescope.engine.options import resolve
from tilescope.engine.session.compilation import compile_model
from tilescope.engine.session.engine import Engine

__all__ = ["check_operator"]

_TILES = 16


def check_operator(
    operator: Operator,
    inputs: Sequence[ArrayLike],
    attributes: Mapping[str, Any] | None = None,
    *,
    n_outputs: int = 1,
    machine: Machine | None = None,
    rtol: float = 1e-5,
    atol: float = 1e-6,
) -> tuple[NDArray[Any], ...]:
    """Compute a node of an operator on the machine, and compare with the operator's numpy function.

    Parameters
    ----------
    operator
        With ``evaluate``.
    inputs
        One array per input; those at the operator's `known_operands` are constants.
    attributes
        Of the node.
    n_outputs
        Number of results.
    machine
        The machine; one IPU of 16 tiles by default.
    rtol, atol
        Tolerances, as those of ``numpy.testing.assert_allclose``.

    Returns
    -------
    tuple of ndarray
        The results of the machine.

    Raises
    ------
    BadModel
        When the operator has no function in numpy, or cannot be used with the inputs.
    AssertionError
        When results differ.
    """
    if operator.evaluate is None:
        raise BadModel(f"Operator {operator.key!r} has no function in numpy to compare with")
    arrays = [np.asarray(array) for array in inputs]
    model, node = _model_of(operator, arrays, attributes or {}, n_outputs)
    expected = [np.asarray(array) for array in operator.evaluate(node, arrays)]
    machine = load_machine("gc200", tiles_per_ipu=_TILES) if machine is None else machine
    compiled = compile_model(model, machine)
    options = resolve(code={"autoReport.all": False})
    with Engine(compiled.executable, options=options) as engine:
        feeds = {v.name: arrays[int(v.name.removeprefix("in"))] for v in compiled.model.inputs}
        results = compiled.run(engine, feeds)
    actual = tuple(np.asarray(results[name]) for name, _ in model.outputs)
    for index, (ours, theirs) in enumerate(zip(actual, expected, strict=True)):
        assert ours.shape == theirs.shape, (
            f"output {index} of {operator.key} has shape {ours.shape}, and evaluate returned"
            f" {theirs.shape}"
        )
        message = f"output {index} of {operator.key}"
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=atol, err_msg=message)
    return actual


def _model_of(
    operator: Operator,
    arrays: Sequence[NDArray[Any]],
    attributes: Mapping[str, Any],
    n_outputs: int,
) -> tuple[Model, Node]:
    """Return a model of one node, and the node."""
    builder = IrBuilder(operator.name)
    values: list[Value] = []
    for index, array in enumerate(arrays):
        if index in operator.known_operands:
            values.append(builder.constant(array, f"in{index}"))
        else:
            values.append(builder.input(f"in{index}", array.shape, array.dtype.name))
    version = version_of(operator)
    node = Node(
        operator=operator,
        name="node",
        source=operator.name,
        inputs=tuple(values),
        attributes=attributes_of(operator, version, "Node 'node'", attributes),
        version=version,
        n_outputs=n_outputs,
    )
    names = [f"out{index}" for index in range(n_outputs)]
    results = builder.add(node, names)
    pairs = zip(names, results, strict=True)
    outputs = [(name, value) for name, value in pairs if value is not None]
    return replace(builder.finish(outputs), front_end="check"), node
