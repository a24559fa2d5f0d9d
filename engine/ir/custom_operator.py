"""Operators of a user's own: stated in Python, used by models like those of the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import CodeType, TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.arguments import shown
from tilescope.engine.errors import BadModel, EngineError, OutOfTileMemory, said
from tilescope.engine.graph import View
from tilescope.engine.ir.definition import TAKEN_DOMAINS, Definition
from tilescope.engine.ir.operation import (
    Expansion,
    Node,
    Operation,
    Operator,
    ResultType,
)
from tilescope.engine.ir.registered import register
from tilescope.engine.ir.value import Value

__all__ = ["custom_operator"]

Count = int | tuple[int, int | None]


def custom_operator(  # noqa: PLR0913 # the parts of an operator
    name: str,
    *,
    domain: str,
    versions: Sequence[int] = (1,),
    n_inputs: Count = 1,
    n_outputs: Count = 1,
    attributes: Mapping[str, Any] | None = None,
    decompose: Callable[[Node, Expansion], Any] | None = None,
    infer: Callable[[Node], Sequence[ResultType]] | None = None,
    lower: Callable[[Any, Operation], Any] | None = None,
    evaluate: Callable[[Node, Sequence[Any]], Any] | None = None,
    gradient: Callable[[Operation, Expansion, Sequence[Value | None]], Any] | None = None,
    known_operands: Sequence[int] = (),
) -> Operator:
    """Register an operator of your own, so that models can have nodes of it.

    It is computed by other operators (`decompose`), or by codelets (`infer` and `lower`).

    Parameters
    ----------
    name, domain
        As nodes of a model have them.
    versions
        Versions of the domain that define it: a node has the newest that its model's import allows,
        as ``node.version``.
    n_inputs, n_outputs
        A number, or least and most; None is no limit.
    attributes
        Defaults by name: numbers, strings, tuples of them. A type, such as ``float``, in place of a
        default says that nodes have to state the attribute.
    decompose
        Takes the node and an `Expansion`, emits the operations that compute the results, and
        returns the value of the result, or a tuple of values.
    infer
        Takes the node and returns one pair per output: shape and numpy name of the type.
    lower
        Takes the `Lowering` and the operation, adds vertices, and returns the tensor of the result,
        or a tuple of tensors.
    evaluate
        Takes the node and one array per input, None for one left out, and returns the result in
        numpy, or a tuple of results. It folds constants, and `check_operator` compares with it.
    gradient
        Takes the operation, an `Expansion`, and one gradient per output, None for outputs without
        one; returns one per input, None for inputs without one. Without it, the gradient follows
        from the decomposition.
    known_operands
        Positions of inputs that have to be known at compile time: ``node.known(1, "the sizes")``
        returns their content.

    Returns
    -------
    Operator
        The record, which decompositions and gradients of other operators may emit.

    Raises
    ------
    BadModel
        When the domain is not the user's, the form is malformed, it is neither decomposed nor
        lowered, or another operator of that name is registered.
    """
    functions = {
        "decompose": decompose,
        "infer": infer,
        "lower": lower,
        "evaluate": evaluate,
        "gradient": gradient,
    }
    definition = Definition(
        domain=_checked_domain(domain, name),
        name=name,
        versions=_checked_versions(f"{domain}.{name}", versions),
        n_inputs=_counts(f"{domain}.{name}", "n_inputs", n_inputs),
        n_outputs=_counts(f"{domain}.{name}", "n_outputs", n_outputs),
        attributes=dict(attributes or {}),
        functions={role: function for role, function in functions.items() if function is not None},
        settings={"known_operands": tuple(known_operands)},
    )
    _check_functions(definition)
    calls = _Calls(definition)
    operator = Operator(
        name=name,
        domain=domain,
        decompose=None if decompose is None else calls.decompose,
        infer=None if infer is None else calls.infer,
        evaluate=calls.evaluate,
        lower=None if lower is None else calls.lower,
        known_operands=tuple(known_operands),
        gradient=None if gradient is None else calls.gradient,
        no_gradient="custom_operator was given no gradient",
        definition=definition,
    )
    register(operator)
    return operator


class _Calls:
    """Calls the functions of a definition, and checks what they return.

    Parameters
    ----------
    definition
        Which has them.
    """

    def __init__(self, definition: Definition) -> None:
        self._definition = definition

    def decompose(self, node: Node, expansion: Expansion) -> tuple[Value, ...]:
        """Emit what a node stands for."""
        self._check(node)
        values = _as_tuple(self._call("decompose", node, node, expansion))
        return self._checked("decompose", node, values, Value, "value", node.n_outputs)

    def infer(self, node: Node) -> list[ResultType]:
        """Return the types of a node's results.

        Raises
        ------
        BadModel
            When the function fails, or returns something else.
        """
        self._check(node)
        given = self._call("infer", node, node)
        try:
            types = [_result_type(shape, dtype) for shape, dtype in given]
        except (TypeError, ValueError):
            types = []
        if len(types) < max(node.n_outputs, self._definition.n_outputs[0]):
            raise BadModel(
                f"{node}: infer of {self._definition.key} returned {shown(given)}: expected a shape"
                " and a type for every output, such as [((2, 3), 'float32')]"
            )
        return types

    def evaluate(self, node: Node, arrays: Sequence[Any]) -> tuple[NDArray[Any], ...]:
        """Return a node's results in numpy.

        Raises
        ------
        BadModel
            When there is no function, or it fails.
        """
        if "evaluate" not in self._definition.functions:
            raise BadModel(
                f"{node}: {self._definition.key} has no function in numpy: give custom_operator"
                " evaluate="
            )
        return tuple(map(np.asarray, _as_tuple(self._call("evaluate", node, node, arrays))))

    def lower(self, at: Any, operation: Operation) -> tuple[View, ...]:
        """Add what computes an operation, and return the tensors of the results that are used.

        Raises
        ------
        BadModel
            When the function fails, or returns tensors of other types.
        """
        given = _as_tuple(self._call("lower", operation, at, operation))
        tensors = self._checked("lower", operation, given, View, "tensor", operation.n_outputs)
        used = [
            (value, tensor)
            for value, tensor in zip(operation.outputs, tensors, strict=False)
            if value is not None
        ]
        for value, tensor in used:
            is_scalar = not value.shape and tensor.shape == (1,)
            if not (tensor.shape == value.shape or is_scalar) or not _is_type(tensor, value):
                raise BadModel(
                    f"{operation}: lower of {self._definition.key} returned a tensor"
                    f" {tensor.dtype}{list(tensor.shape)}, and infer states"
                    f" {value.dtype}{list(value.shape)}"
                )
        return tuple(tensor for _, tensor in used)

    def gradient(
        self, operation: Operation, expansion: Expansion, gradients: Sequence[Value | None]
    ) -> tuple[Value | None, ...]:
        """Emit the gradients of an operation's inputs.

        Raises
        ------
        BadModel
            When the function fails, or returns something else.
        """
        given = _as_tuple(self._call("gradient", operation, operation, expansion, gradients))
        is_valid = all(value is None or isinstance(value, Value) for value in given)
        if not is_valid or len(given) != len(operation.inputs):
            raise BadModel(
                f"{operation}: gradient of {self._definition.key} returned {shown(given)}: expected"
                " a value, or None, for every input"
            )
        return given

    def _check(self, node: Node) -> None:
        """Refuse a node with another number of inputs or outputs."""
        self._definition.check_counts(str(node), len(node.inputs), node.n_outputs)

    def _checked(
        self, role: str, node: Node, given: tuple[Any, ...], kind: Any, noun: str, n_used: int
    ) -> tuple[Any, ...]:
        """Return what a function returned, one object of a kind per output.

        Raises
        ------
        BadModel
            When it is something else.
        """
        least = max(n_used, self._definition.n_outputs[0])
        if len(given) < least or not all(isinstance(item, kind) for item in given):
            raise BadModel(
                f"{node}: {role} of {self._definition.key} returned {shown(given)}: expected a"
                f" {noun} for every output"
            )
        return given

    def _call(self, role: str, node: Node, *arguments: Any) -> Any:
        """Call a function.

        Raises
        ------
        BadModel
            When it raises, with the line of the user's file.
        """
        function = self._definition.functions[role]
        try:
            return function(*arguments)
        except OutOfTileMemory:
            raise
        except Exception as error:
            reason = str(error) if isinstance(error, EngineError) else said(error)
            place = _line_in(function, error.__traceback__)
            raise BadModel(
                f"{node}: {role} of {self._definition.key} failed{place}: {reason}"
            ) from error


def _as_tuple(given: Any) -> tuple[Any, ...]:
    return tuple(given) if isinstance(given, tuple | list) else (given,)


def _result_type(shape: Any, dtype: Any) -> ResultType:
    """Return shape and type of a result.

    Raises
    ------
    ValueError
        When a size is negative.
    TypeError
        When it is not of integers, or the type is unknown.
    """
    sizes = tuple(int(np.dtype(np.int64).type(size)) for size in shape)
    if any(size < 0 for size in sizes) or any(a != b for a, b in zip(sizes, shape, strict=True)):
        raise ValueError("sizes are whole numbers from 0")
    return sizes, np.dtype(dtype).name


def _is_type(tensor: View, value: Value) -> bool:
    """Return whether a tensor holds a value: the machine has 32 bits where a model has 64."""
    held, stated = str(tensor.dtype.name), value.dtype
    narrow = {"int64": "int32", "uint64": "uint32", "float64": "float32"}
    return held in (stated, narrow.get(stated))


def _line_in(function: Any, traceback: TracebackType | None) -> str:
    """Return the line of the file of a function at which an exception was raised, in words."""
    code = getattr(function, "__code__", None)
    path = code.co_filename if isinstance(code, CodeType) else ""
    line = 0
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == path:
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return f" at {Path(path).name}, line {line}" if line else ""


def _checked_domain(domain: Any, name: Any) -> str:
    """Return a domain that users may register operators in.

    Raises
    ------
    BadModel
        When it is somebody else's, or not a string.
    """
    if not isinstance(domain, str) or not isinstance(name, str) or not name:
        raise BadModel(
            f"A custom operator has a name and a domain, got {shown(name)} and {shown(domain)}:"
            " expected strings"
        )
    if domain in TAKEN_DOMAINS:
        raise BadModel(
            f"Operator {name!r}: domain {domain!r} is {TAKEN_DOMAINS[domain]} own; choose one of"
            " yours, such as 'custom.ops'"
        )
    return str(domain)


def _checked_versions(key: str, versions: Any) -> tuple[int, ...]:
    """Return versions in ascending order.

    Raises
    ------
    BadModel
        When there are none, or one is not a positive integer.
    """
    given = tuple(versions) if isinstance(versions, Sequence) else (versions,)
    if not given or not all(type(version) is int and version > 0 for version in given):
        raise BadModel(f"Operator {key!r}: versions are integers from 1, got {shown(versions)}")
    return tuple(sorted(set(given)))


def _counts(key: str, name: str, count: Any) -> tuple[int, int | None]:
    """Return least and most.

    Raises
    ------
    BadModel
        When it is neither a number nor a pair of them.
    """
    pair = count if isinstance(count, tuple) else (count, count)
    least, most = pair if len(pair) == 2 else (-1, None)
    is_valid = type(least) is int and least >= 0 and (most is None or type(most) is int)
    if not is_valid or (most is not None and most < least):
        raise BadModel(
            f"Operator {key!r}: {name} is {shown(count)}: expected a number, or the least and the"
            " most, such as (1, 3)"
        )
    return int(least), most


def _check_functions(definition: Definition) -> None:
    """Refuse a definition that does not say how it is computed, or says so twice.

    Raises
    ------
    BadModel
        When it does.
    """
    functions, key = definition.functions, definition.key
    for role, function in functions.items():
        if not callable(function):
            raise BadModel(f"Operator {key!r}: {role} is {shown(function)}: expected a function")
    if ("decompose" in functions) == ("lower" in functions):
        raise BadModel(
            f"Operator {key!r}: state how it is computed, by decompose= (other operators) or by"
            " infer= and lower= (codelets), one of the two"
        )
    if ("lower" in functions) != ("infer" in functions):
        raise BadModel(
            f"Operator {key!r}: lower and infer go together; those of a decomposed operator follow"
            " from its decomposition"
        )
