"""Rules of parts: the results of the parts, joined, are those of the whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tilescope.engine.codelets.popops.elementwise.expression import call, operand
from tilescope.engine.ir import (
    Constant,
    Expansion,
    IrBuilder,
    Node,
    Operation,
    Operator,
    Parts,
    Value,
)
from tilescope.engine.ir.standard import attributes_of, standard, version_of
from tilescope.engine.operators import OPERATORS
from tilescope.engine.operators.parts import parts_of

Array = NDArray[Any]

_RNG = np.random.default_rng(7)


def _drawn(*shape: int) -> Array:
    return _RNG.standard_normal(shape).astype(np.float32)


def _whole(most: int, *shape: int, dtype: str = "int64") -> Array:
    return _RNG.integers(0, most, shape).astype(dtype)


@dataclass(frozen=True)
class _Case:
    """A use of an operator.

    Parameters
    ----------
    operands
        None for one that is left out.
    attributes
        Beside the defaults.
    known
        Positions of operands whose content is known.
    n_results
        Number of results.
    """

    operands: Sequence[Array | None]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    known: tuple[int, ...] = ()
    n_results: int = 1


_WINDOW = {
    "kernel": (3, 3),
    "stride": (1, 1),
    "dilation": (1, 1),
    "padding_before": (1, 1),
    "padding_after": (1, 1),
}
_LAYER = (_drawn(4, 6, 2), _drawn(1, 2), _drawn(6, 2))
_IMAGE, _SCALES = _drawn(4, 6, 4), (_drawn(6), _drawn(6))


def _recurrent(n_units: int, layout: int) -> _Case:
    """Return a layer in one direction with lengths and a first state."""
    batch, steps, hidden = 4, 2, 4
    sequence = (batch, steps, 6) if layout else (steps, batch, 6)
    state = (batch, 1, hidden) if layout else (1, batch, hidden)
    weights = [_drawn(1, n_units * hidden, 6), _drawn(1, n_units * hidden, hidden)]
    operands = [_drawn(*sequence), *weights, _drawn(1, 2 * n_units * hidden), None, _drawn(*state)]
    if n_units == 4:
        operands.append(_drawn(*state))
    attributes = {"hidden_size": hidden, "layout": layout}
    return _Case(operands, attributes, n_results=3 if n_units == 4 else 2)


#: Uses of every operator that has a rule.
CASES: Mapping[str, Sequence[_Case]] = {
    "unary": [_Case([_drawn(4, 6)], {"function": "exp"})],
    "binary": [
        _Case([_drawn(4, 6), _drawn(6)], {"function": "add"}),
        _Case([_drawn(4, 1, 6), _drawn(2, 1)], {"function": "multiply"}),
        _Case([_drawn(2, 4, 6), _drawn(2, 4, 6)], {"function": "greater"}),
    ],
    "map": [
        _Case(
            [_drawn(4, 6), _drawn(1, 6), _drawn(4, 1)],
            {"expression": operand(0) * operand(1) + call("exp", operand(2))},
        )
    ],
    "scaled_add": [_Case([_drawn(4, 6), _drawn(4, 6), _drawn(1)], {"scale": 2.0})],
    "select": [_Case([_drawn(4, 1) > 0, _drawn(4, 6), _drawn(6)])],
    "cast": [_Case([_drawn(4, 6)], {"dtype": "float16"})],
    "BitCast": [_Case([_drawn(4, 6)], {"to": 6})],
    "ai.graphcore.Detach": [_Case([_drawn(4, 6)])],
    "straight_through": [_Case([_drawn(4, 6), _drawn(4, 6), _drawn(6)])],
    "non_linearity": [_Case([_drawn(4, 6)], {"kind": "gelu"})],
    "non_linearity_gradient": [_Case([_drawn(4, 6), _drawn(4, 6)], {"kind": "tanh"})],
    "broadcast": [
        _Case([_drawn(4, 1, 6)], {"shape": (2, 4, 2, 6)}),
        _Case([_drawn(1, 6)], {"shape": (4, 6)}),
    ],
    "reshape": [
        _Case([_drawn(4, 6, 2)], {"shape": shape})
        for shape in ((24, 2), (4, 12), (2, 2, 6, 2), (48,), (12, 4), (4, 1, 6, 2), (8, 6))
    ],
    "transpose": [_Case([_drawn(4, 6, 2)], {"order": (2, 0, 1)})],
    "slice": [
        _Case([_drawn(4, 6)], {"starts": (0, 1), "stops": (4, 5), "steps": (1, 2)}),
        _Case([_drawn(4, 6)], {"starts": (3, 0), "stops": (-1, 6), "steps": (-1, 1)}),
    ],
    "concat": [
        _Case([_drawn(4, 6), _drawn(4, 2)], {"axis": 1}),
        _Case([_drawn(2, 6), _drawn(4, 6)], {"axis": 0}),
    ],
    "take": [_Case([_drawn(4, 6)], {"axis": 1, "positions": ((0, 2, 2), (5,))}, n_results=2)],
    "Expand": [
        _Case([_drawn(4, 1, 6), np.array([2, 4, 2, 6])], known=(1,)),
        _Case([_drawn(4, 6), np.array([1])], known=(1,)),
        _Case([_drawn(1, 6), np.array([4, 1])], known=(1,)),
    ],
    "Pad": [
        _Case([_drawn(4, 6), np.array([0, 1, 0, 1])], {"mode": "reflect"}, known=(1,)),
        _Case([_drawn(4, 6), np.array([0, 1, 2, 0])], known=(1,)),
    ],
    "CumSum": [_Case([_drawn(4, 6), np.array(1)], known=(1,))],
    "class_loss": [_Case([_drawn(4, 6), _whole(6, 4)])],
    "labels_less_one": [_Case([_drawn(4, 6), _whole(6, 4)])],
    "probability_loss": [
        _Case([np.abs(_drawn(4, 6)), _whole(6, 4)], {"least": 1e-6}),
        _Case([np.abs(_drawn(4, 6)), _whole(6, 4), _drawn(4, 6)], {"least": 1e-6}),
    ],
    "cross_entropy": [_Case([_drawn(4, 6), _whole(6, 4)], n_results=2)],
    "matmul": [
        _Case([_drawn(4, 6), _drawn(6, 2)]),
        _Case([_drawn(2, 4, 6), _drawn(6, 2)]),
        _Case([_drawn(4, 2, 2, 6), _drawn(2, 6, 4)]),
        _Case([_drawn(4, 6), _drawn(2, 6, 4)]),
    ],
    "convolution": [_Case([_drawn(4, 6, 4, 4), _drawn(2, 6, 3, 3)], {"groups": 1, **_WINDOW})],
    "convolution_data_gradient": [
        _Case([_drawn(4, 2, 4, 4), _drawn(2, 6, 3, 3)], {"groups": 1, "size": (4, 4), **_WINDOW})
    ],
    "max_pool": [_Case([_drawn(4, 6, 4, 4)], _WINDOW)],
    "average_pool": [_Case([_drawn(4, 6, 4, 4)], {"counts_padding": False, **_WINDOW})],
    "softmax": [_Case([_drawn(4, 6, 2)], {"axis": axis}) for axis in (1, -1)],
    "log_softmax": [_Case([_drawn(4, 6)], {"axis": 1})],
    "norm": [
        _Case([_IMAGE, *_SCALES], {"kind": kind, "epsilon": 1e-5, "n_groups": n}, n_results=4)
        for kind, n in (("batch", 1), ("group", 2))
    ]
    + [
        _Case([_IMAGE[..., 0], _SCALES[0]], {"kind": "rms", "epsilon": 1e-5, "n_groups": 1}, (), 4),
        _Case([_IMAGE[..., 0], *_SCALES], {"kind": "layer", "epsilon": 0.1, "n_groups": 1}, (), 4),
    ],
    "LayerNormalization": [
        _Case([_IMAGE, _drawn(6, 4), _drawn(4)], {"axis": 1}, n_results=3),
        _Case([_IMAGE, _drawn(4)], {"axis": -1}),
    ],
    "RMSNormalization": [_Case([_IMAGE, _drawn(4)], {"axis": -1})],
    "GroupNormalization": [_Case([_IMAGE, *_SCALES], {"num_groups": 2})],
    "InstanceNormalization": [_Case([_IMAGE, *_SCALES])],
    "reduce": [
        _Case([_drawn(4, 6, 2)], {"operation": "sum", "axes": axes, "scale": 0.5})
        for axes in ((1,), (0, 2))
    ],
    "Gather": [
        _Case([_drawn(4, 6, 2), _whole(6, 2, 4)], {"axis": 1}),
        _Case([_drawn(6, 4), _whole(6, 4)], {"axis": 0}),
    ],
    "GatherElements": [
        _Case([_drawn(4, 6), _whole(6, 4, 2)], {"axis": 1}),
        _Case([_drawn(4, 6), _whole(4, 2, 6)], {"axis": 0}),
    ],
    "GatherND": [
        _Case([_drawn(4, 6, 2), _whole(2, 4, 1)], {"batch_dims": 1}),
        _Case([_drawn(4, 6, 2), _whole(2, 6, 4, 2)]),
    ],
    "OneHot": [
        _Case([_whole(6, 4, 2), np.array(6), np.array([0, 1], np.float32)], {"axis": a}, (1, 2))
        for a in (0, 1, -1)
    ],
    "ArgMax": [_Case([_drawn(4, 6)], {"axis": 1, "keepdims": keeps}) for keeps in (0, 1)],
    "ArgMin": [_Case([_drawn(4, 6, 2)], {"axis": 0, "keepdims": keeps}) for keeps in (0, 1)],
    "TopK": [_Case([_drawn(4, 6), np.array([2])], known=(1,), n_results=2)],
    "LSTM": [_recurrent(4, layout) for layout in (0, 1)],
    "GRU": [_recurrent(3, layout) for layout in (0, 1)],
    "RNN": [_recurrent(1, layout) for layout in (0, 1)],
}
#: Sums whose order is up to BLAS.
_ROUNDS = {"matmul", "convolution", "convolution_data_gradient", "LSTM", "GRU", "RNN"}


def _values(case: _Case) -> tuple[Value | None, ...]:
    """Return the operands of a use."""
    return tuple(
        None
        if array is None
        else Constant(f"x{i}", array.shape, array.dtype.name, array)
        if i in case.known
        else Value(f"x{i}", array.shape, array.dtype.name)
        for i, array in enumerate(case.operands)
    )


def _operation(operator: Operator, case: _Case) -> Operation:
    version = version_of(operator)
    node = Node(
        operator=operator,
        name="node",
        source=operator.name,
        inputs=_values(case),
        attributes=attributes_of(operator, version, "node", case.attributes),
        version=version,
        n_outputs=case.n_results,
    )
    return _added(node, case.n_results)


def _added(node: Node, n_results: int) -> Operation:
    builder = IrBuilder("model")
    builder.add(node, ["y"] * n_results)
    (operation,) = builder.operations
    return operation


def _evaluated(operation: Operation, arrays: Sequence[Array | None]) -> list[Array]:
    evaluate = operation.operator.evaluate or standard().evaluate
    return [np.asarray(array) for array in evaluate(operation, arrays)]


def _choices(case: _Case) -> Iterator[dict[int, int]]:
    """Yield every choice of operands that are in parts, and of their axes."""
    axes: list[list[int | None]] = []
    for i, array in enumerate(case.operands):
        sizes = () if array is None or i in case.known else array.shape
        axes.append([None, *(d for d, size in enumerate(sizes) if size % 2 == 0)])
    for choice in product(*axes):
        chosen = {i: axis for i, axis in enumerate(choice) if axis is not None}
        if chosen:
            yield chosen


def _of_part(
    operation: Operation, case: _Case, axes: Mapping[int, int], found: Parts, number: int
) -> list[Array]:
    """Return the results of an operation on one of two parts."""
    arrays: list[Array | None] = []
    for i, array in enumerate(case.operands):
        axis = axes.get(i, found.cut.get(i))
        if i in found.known:
            arrays.append(found.known[i])
        elif array is None or axis is None:
            arrays.append(array)
        else:
            arrays.append(np.split(array, 2, axis)[number])
    stated = {f.name: getattr(operation, f.name) for f in fields(Node)}
    inputs = _values(replace(case, operands=arrays))
    changed = {"inputs": inputs, "attributes": {**operation.attributes, **found.attributes}}
    part = _added(Node(**stated | changed), case.n_results)
    results = _evaluated(part, arrays)
    for value, array in zip(part.results, results, strict=False):
        assert value.shape == array.shape
    return results


def test_every_rule_has_a_case() -> None:
    assert set(CASES) == {key for key, record in OPERATORS.items() if record.parts is not None}


@pytest.mark.parametrize("key", CASES)
def test_parts_are_those_of_the_whole(key: str) -> None:
    """For every choice of operands in parts that the rule allows."""
    n_allowed = 0
    for case in CASES[key]:
        operation = _operation(OPERATORS[key], case)
        whole = _evaluated(operation, case.operands)
        for axes in _choices(case):
            found = parts_of(operation, axes, 2)
            if found is None:
                continue
            n_allowed += 1
            parts = [_of_part(operation, case, axes, found, number) for number in range(2)]
            for i, expected in enumerate(whole[: case.n_results]):
                joined = np.concatenate([part[i] for part in parts], found.axes[i])
                if key in _ROUNDS:
                    np.testing.assert_allclose(joined, expected, rtol=2e-6, atol=1e-6)
                else:
                    np.testing.assert_array_equal(joined, expected, f"{case} {axes}")
    assert n_allowed


def test_what_stands_for_an_operator_in_parts_computes_the_same() -> None:
    """A dropout becomes a product with a mask that is drawn whole."""
    x, seed = _drawn(4, 6), np.array([3, 5], np.int32)
    attributes = {"ratio": 0.5, "modifier": 1}
    operators = [record for record in OPERATORS.values() if record.decompose_for_parts is not None]
    assert [record.key for record in operators] == ["dropout"]
    operation = _operation(operators[0], _Case([x, seed], attributes))
    builder = IrBuilder("model")
    emit = operators[0].decompose_for_parts
    assert emit is not None
    result = emit(operation, Expansion(builder, operation, "y"))
    assert result is not None
    arrays = dict(zip(operation.operands, (x, seed), strict=True))
    for emitted in builder.operations:
        given = [arrays[v] if v in arrays else np.asarray(v.known) for v in emitted.operands]
        arrays |= dict(zip(emitted.results, _evaluated(emitted, given), strict=True))
    np.testing.assert_array_equal(arrays[result], _evaluated(operation, (x, seed))[0])
