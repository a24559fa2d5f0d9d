"""Builds a model: infers the type of every result at once and folds what is known."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilescope.engine.errors import BadModel
from tilescope.engine.ir.model import Model
from tilescope.engine.ir.operation import (
    Expansion,
    Node,
    Operation,
    Operator,
    Region,
    ResultType,
)
from tilescope.engine.ir.placement import UNPLACED
from tilescope.engine.ir.standard import attributes_of, standard, version_of
from tilescope.engine.ir.value import MOST_DIMS, Constant, Value

__all__ = ["IrBuilder", "TypeMemo", "decomposed", "results_of"]

_log = logging.getLogger(__name__)

#: Elements of a result that is folded; larger ones are computed on the device, if they fit.
_MOST_FOLDED = 1 << 28

#: Types of the results of nodes by what decides them; see `_request`.
TypeMemo: TypeAlias = dict[tuple[Any, ...], tuple[ResultType, ...]]

_NODE_FIELDS = tuple(field.name for field in fields(Node))


class IrBuilder:
    """Collects operations in the order they are emitted.

    Parameters
    ----------
    name
        Of the model.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.inputs: list[Value] = []
        self.operations: list[Operation] = []
        #: Of the operations that are added without one.
        self.placement = UNPLACED
        #: Whether random numbers stay operations where all their operands are known.
        self.keeps_draws = False
        self._types: TypeMemo = {}

    def input(self, name: str, shape: Sequence[int], dtype: str) -> Value:
        """Add an input of the model."""
        value = Value(name, tuple(int(s) for s in shape), dtype)
        self.inputs.append(value)
        return value

    def constant(self, values: ArrayLike, name: str) -> Constant:
        """Return a value whose content is known."""
        array = np.asarray(values)
        return Constant(name, array.shape, array.dtype.name, array)

    def emit(
        self,
        operator: Operator,
        inputs: Sequence[Value | None],
        *,
        name: str,
        source: str,
        output: str = "",
        **attributes: Any,
    ) -> Value:
        """Add an operation in its newest version and return its first result: see `emit_all`.

        Raises
        ------
        BadModel
            When the operands do not agree.
        """
        names = {"name": name, "source": source, "output": output}
        return self.emit_all(operator, inputs, 1, **names, **attributes)[0]

    def emit_all(
        self,
        operator: Operator,
        inputs: Sequence[Value | None],
        n_results: int,
        *,
        name: str,
        source: str,
        output: str = "",
        **attributes: Any,
    ) -> tuple[Value, ...]:
        """Add an operation in its newest version and return its first results.

        Parameters
        ----------
        operator
            What it computes.
        inputs
            Its operands.
        n_results
            Number of results.
        name, source
            Name and type of the model's own node.
        output
            Name of the results; the node's own when empty.
        **attributes
            As the operator takes them; defaults are filled in.

        Raises
        ------
        BadModel
            When the operands do not agree.
        """
        version = version_of(operator)
        attributes = attributes_of(operator, version, f"Node {name!r} ({source})", attributes)
        node = Node(
            operator=operator,
            name=name,
            source=source,
            inputs=tuple(inputs),
            attributes=attributes,
            version=version,
        )
        results = self.add(node, (output or name,) * n_results)
        emitted = tuple(value for value in results if value is not None)
        assert len(emitted) == n_results, "an operation that is emitted has its results"
        return emitted

    def add(self, node: Node, outputs: Sequence[str]) -> tuple[Value | None, ...]:
        """Add an operation and return its results; one whose results are known is folded instead.

        Parameters
        ----------
        node
            What to add.
        outputs
            Names of the results; empty for those that nobody uses.

        Raises
        ------
        BadModel
            When the operands do not agree, or the operator does not compute a result that is used.
        """
        if self.placement.is_stated and not node.placement.is_stated:
            node = replace(node, placement=self.placement)
        results = results_of(node, outputs, self._types, keeps_draws=self.keeps_draws)
        if any(value is not None and value.known is None for value in results):
            self.operations.append(_operation(node, results))
        return results

    def inline(self, region: Region, values: Mapping[Value, Value]) -> tuple[Value, ...]:
        """Add the operations of a region and return its results.

        Parameters
        ----------
        region
            What to add.
        values
            What stands here for inputs and captured values; a value that is missing is itself.
        """
        here = dict(values)
        self.copy(region.operations, here)
        return tuple(here.get(value, value) for value in region.outputs)

    def copy(self, operations: Sequence[Operation], values: dict[Value, Value]) -> None:
        """Add operations on other values; `values` maps old to new and takes in the results."""
        outside = self.placement
        for operation in operations:
            self.placement = operation.placement if operation.placement.is_stated else outside
            inputs = tuple(None if v is None else values.get(v, v) for v in operation.inputs)
            regions = {
                key: region if region.error else self.copied(region, values)
                for key, region in operation.regions.items()
            }
            stated = {name: getattr(operation, name) for name in _NODE_FIELDS}
            node = Node(**stated | {"inputs": inputs, "regions": regions})
            names = [value.name if value else "" for value in operation.outputs]
            pairs = zip(operation.outputs, self.add(node, names), strict=True)
            values.update({old: new for old, new in pairs if old is not None and new is not None})
        self.placement = outside

    def rebuilt(self, model: Model) -> Model:
        """Return a model on the same inputs, as this builder adds its operations."""
        self.inputs = list(model.inputs)
        values: dict[Value, Value] = {}
        self.copy(model.operations, values)
        return replace(
            model,
            outputs=tuple((name, values.get(value, value)) for name, value in model.outputs),
            operations=tuple(self.operations),
            updates=tuple(
                replace(update, value=values.get(update.value, update.value))
                for update in model.updates
            ),
        )

    def copied(self, region: Region, values: Mapping[Value, Value]) -> Region:
        """Return a region on other values, as this builder would add its operations."""
        inside = self.inside(region.name)
        inside.placement, inside.keeps_draws = self.placement, self.keeps_draws
        here = dict(values)
        inside.copy(region.operations, here)
        outputs = tuple(here.get(value, value) for value in region.outputs)
        return inside.region(region.inputs, outputs)

    def reading(self, operation: Operation, there: Mapping[Value, Value]) -> Operation:
        """Return an operation that reads other values, its regions too; itself if there is none."""
        if all(value is other for value, other in there.items()):
            return operation
        return replace(
            operation,
            inputs=tuple(None if v is None else there.get(v, v) for v in operation.inputs),
            regions={
                key: region if region.error else self.copied(region, there)
                for key, region in operation.regions.items()
            },
        )

    def inside(self, name: str) -> IrBuilder:
        """Return a builder of the same kind for a region."""
        builder = IrBuilder(name)
        builder.keeps_draws = self.keeps_draws
        return builder

    def region(self, inputs: Sequence[Value], outputs: Sequence[Value]) -> Region:
        """Return what was added as a region."""
        defined = set(inputs)
        captured: dict[Value, None] = {}
        for operation in self.operations:
            used = [*operation.operands]
            used += [value for region in operation.regions.values() for value in region.captured]
            captured.update(dict.fromkeys(v for v in used if v.is_computed and v not in defined))
            defined.update(operation.results)
        captured.update(dict.fromkeys(v for v in outputs if v.is_computed and v not in defined))
        return Region(
            self.name, tuple(inputs), tuple(captured), tuple(self.operations), tuple(outputs)
        )

    def finish(
        self, outputs: Sequence[tuple[str, Value]], assumed_ones: Sequence[str] = ()
    ) -> Model:
        """Return the model whose results are `outputs`; see `Model` for `assumed_ones`."""
        return Model(
            self.name,
            tuple(self.inputs),
            tuple(outputs),
            tuple(self.operations),
            tuple(assumed_ones),
        )


def results_of(
    node: Node, outputs: Sequence[str], memo: TypeMemo | None = None, *, keeps_draws: bool = False
) -> tuple[Value | None, ...]:
    """Return the results of a node, with their content where it can be known.

    Parameters
    ----------
    node
        An operator with its operands.
    outputs
        Names of the results; empty for those that nobody uses.
    memo
        Of the nodes before, to infer the types of equal nodes once; None infers them anew.
    keeps_draws
        Whether random numbers are no constants, though all their operands are known.

    Raises
    ------
    BadModel
        When the operands do not agree, or the operator does not compute a result that is used.
    """
    label = next(filter(None, outputs), node.name)
    key = None if memo is None else _request(node)
    types = None if memo is None or key is None else memo.get(key)
    if types is not None:
        values = tuple(Value(label, *value_type) for value_type in types)
    else:
        inside = IrBuilder(node.name)
        inside.keeps_draws = keeps_draws
        is_folded = not (keeps_draws and node.operator.draws)
        values = decomposed(node, Expansion(inside, node, label)) or _inferred(
            node, label, is_folded=is_folded
        )
        if memo is not None and key is not None and all(v.known is None for v in values):
            memo[key] = tuple((value.shape, value.dtype) for value in values)
    results: list[Value | None] = []
    for index, name in enumerate(outputs):
        if index < len(values) and len(values[index].shape) > MOST_DIMS:
            raise BadModel(
                f"{node}: its result has {len(values[index].shape)} dimensions; at most"
                f" {MOST_DIMS} are supported"
            )
        if not name:
            results.append(None)
        elif index >= len(values):
            raise BadModel(f"{node}: its output {index}, {name!r}, is not supported yet")
        elif values[index].known is not None:
            results.append(values[index])
        else:
            results.append(Value(name, values[index].shape, values[index].dtype))
    return tuple(results)


def decomposed(node: Node, expansion: Expansion) -> tuple[Value, ...]:
    """Emit what a node stands for and return its results; nothing where it stays whole."""
    decompose = node.operator.decompose
    outputs = decompose(node, expansion) if decompose else None
    if outputs is None:
        return ()
    return outputs if isinstance(outputs, tuple) else (outputs,)


def _inferred(node: Node, label: str, *, is_folded: bool) -> tuple[Value, ...]:
    """Return the results of a node that stays whole; constants where all its operands are known.

    Results without elements are constants, too.
    """
    operator = node.operator
    types = (operator.infer or standard().infer)(node)
    if not node.regions and all(prod(shape) == 0 for shape, _ in types):
        return tuple(
            Constant(label, tuple(map(int, shape)), dtype, np.zeros(shape, dtype))
            for shape, dtype in types
        )
    is_known = is_folded and not node.regions and not operator.differs
    is_known = is_known and all(value.known is not None for value in node.operands)
    if is_known and all(prod(shape) <= _MOST_FOLDED for shape, _ in types):
        arrays = _evaluated(node, types)
        if arrays is not None:
            return tuple(
                Constant(label, tuple(shape), dtype, array)
                for (shape, dtype), array in zip(types, arrays, strict=True)
            )
    return tuple(Value(label, tuple(map(int, shape)), dtype) for shape, dtype in types)


def _evaluated(
    node: Node, types: Sequence[tuple[tuple[int, ...], str]]
) -> list[NDArray[Any]] | None:
    """Return the content of a node's results; None where the machine has to compute them.

    That is so where the evaluator fails, or its results are not of the types inferred: folding
    saves work and never refuses a model.
    """
    operator = node.operator
    known = [None if value is None else value.known for value in node.inputs]
    try:
        arrays = [np.asarray(a) for a in (operator.evaluate or standard().evaluate)(node, known)]
    except Exception:  # the reference's errors have no common base
        if operator.lower is None:
            raise
        _log.debug("%s is not folded", node, exc_info=True)
        return None
    agrees = len(arrays) == len(types) and all(
        array.shape == tuple(shape) and array.dtype.name == dtype
        for array, (shape, dtype) in zip(arrays, types, strict=True)
    )
    return arrays if agrees or operator.lower is None else None


def _request(node: Node) -> tuple[Any, ...] | None:
    """Return what decides the types of a node's results; None where that is not easily compared.

    Of operands whose content is known, the content may decide: they count as themselves.
    """
    if node.regions:
        return None
    attributes = tuple(
        (name, type(value), tuple(value) if isinstance(value, list) else value)
        for name, value in node.attributes.items()
    )
    operands = tuple(
        value if value is None or value.known is not None else (value.shape, value.dtype)
        for value in node.inputs
    )
    key = (node.operator, node.version, node.n_outputs, attributes, operands)
    try:
        hash(key)
    except TypeError:  # an attribute holds an array
        return None
    return key


def _operation(node: Node, outputs: tuple[Value | None, ...]) -> Operation:
    stated = {name: getattr(node, name) for name in _NODE_FIELDS}
    return Operation(**stated, outputs=outputs)
