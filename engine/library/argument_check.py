"""Type checks for the arguments of library functions, from their type hints."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from operator import or_
from types import NoneType
from typing import Any, ParamSpec, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.arguments import a_count, a_kind, a_list, a_switch, a_text, shown
from tilescope.engine.codelets.popops.elementwise.expression import Expression
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import Tensor, View
from tilescope.engine.graph.vertex.codelet import Codelet
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.comm_group import CommGroup
from tilescope.engine.library.ctc_options import CtcLossOptions
from tilescope.engine.library.dynamic_sparse import DynamicSparseTensor, FullyConnectedParams
from tilescope.engine.library.recurrent_options import RecurrentOptions
from tilescope.engine.library.replicas import Replicas
from tilescope.engine.library.sparse_matrix import SparseMatrix
from tilescope.engine.library.sparse_tensor import SparseTensor, StaticMatMulParams
from tilescope.engine.library.window import Window
from tilescope.engine.planner.ctc import CtcLossPlan
from tilescope.engine.planner.ctc_beams import CtcBeamPlan
from tilescope.engine.planner.embedding import EmbeddingPlan
from tilescope.engine.planner.sparse.pattern import BlockPattern

__all__ = ["check_dim", "check_rank", "checked", "checked_with"]

P = ParamSpec("P")
R = TypeVar("R")

_TENSOR = "a tensor; add_constant makes one of numbers"


def _kind(kinds: Any, expected: str) -> Callable[[str, Any], object]:
    return lambda subject, value: a_kind(subject, value, kinds, expected)


def _several(subject: str, values: Any) -> None:
    for value in a_list(subject, values, "a list of integers"):
        a_count(f"One of {subject}", value)


def _views(subject: str, values: Any) -> None:
    for value in a_list(subject, values, "a list of tensors"):
        a_kind(f"One of {subject}", value, View, _TENSOR)


def _shape_or(kinds: Any, expected: str) -> Callable[[str, Any], object]:
    """Return the check of an operand that may be given by its shape."""

    def check(subject: str, value: Any) -> None:
        if isinstance(value, list | tuple):
            _several(subject, value)
        else:
            a_kind(subject, value, kinds, expected)

    return check


def _pair(subject: str, values: Any) -> None:
    if len(a_list(subject, values, "two integers")) != 2:
        raise BadGraph(f"{subject} is {shown(values)}: expected two integers")
    _several(subject, values)


#: Argument checks by type hint.
_CHECKS: dict[Any, Callable[[str, Any], object]] = {
    Builder: _kind(Builder, "an engine.Builder"),
    View: _kind(View, _TENSOR),
    Tensor | float: _kind(Tensor | Real, "a tensor of one element, or a number"),
    View | NDArray[Any]: _kind(View | np.ndarray, "a tensor, or an ndarray of constants"),
    Sequence[int] | View: _shape_or(View, "a tensor, or its shape"),
    Sequence[int] | View | NDArray[Any]: _shape_or(
        View | np.ndarray, "a tensor, an ndarray of constants, or a shape"
    ),
    Codelet: _kind(Codelet, "a codelet; engine.codelet makes one"),
    Mapping[str, float]: _kind(Mapping, "a dictionary of numbers"),
    Window: _kind(Window, "an engine.library.window.Window"),
    Mapping[str, int]: _kind(Mapping, "a dictionary of integers"),
    str: a_text,
    bool: a_switch,
    int: a_count,
    float: _kind(Real, "a number"),
    Sequence[int]: _several,
    tuple[int, int]: _pair,
    Expression: _kind(Expression, "an expression; call and operand make one"),
    Sequence[View]: _views,
    View | Sequence[View]: lambda subject, xs: (
        _CHECKS[View] if isinstance(xs, View) else _CHECKS[Sequence[View]]
    )(subject, xs),
    CtcBeamPlan: _kind(CtcBeamPlan, "a plan of plan_ctc_beams"),
    CtcLossOptions: _kind(CtcLossOptions, "an engine.library.ctc_options.CtcLossOptions"),
    EmbeddingPlan: _kind(EmbeddingPlan, "a plan of plan_embedding"),
    CtcLossPlan: _kind(CtcLossPlan, "a plan of plan_ctc_loss"),
    RecurrentOptions: _kind(RecurrentOptions, "an engine.library.lstm.RecurrentOptions"),
    CommGroup: _kind(CommGroup, "an engine.library.comm_group.CommGroup"),
    Replicas: _kind(Replicas, "an engine.library.replicas.Replicas"),
    SparseMatrix: _kind(SparseMatrix, "a CSR, CSC or COO matrix; from_dense makes one"),
    DynamicSparseTensor: _kind(
        DynamicSparseTensor, "sparse weights of create_fully_connected_weights"
    ),
    FullyConnectedParams: _kind(
        FullyConnectedParams, "an engine.library.dynamic_sparse.FullyConnectedParams"
    ),
    BlockPattern: _kind(BlockPattern, "the pattern of a sparse matrix"),
    SparseTensor: _kind(SparseTensor, "a sparse operand of its allocator"),
    StaticMatMulParams: _kind(
        StaticMatMulParams, "an engine.library.sparse_tensor.StaticMatMulParams"
    ),
    Any: lambda _, value: value,
}


Checks = Mapping[str, tuple[Callable[[str, Any], object], bool]]


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Return a library function that checks what users pass against its type hints.

    Its first parameter is the builder; calls with one of the engine's own are not checked.
    Element types have the hint `Any`; the function checks them with `dtype_of`.
    """
    return _checked(function, "", {})


def checked_with(of: Callable[..., Any]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return `checked` for functions that take further options of another checked function."""
    options = inspect.unwrap(of)
    return lambda function: _checked(function, options.__name__, _checks_of(options))


def _checks_of(function: Callable[..., Any]) -> Checks:
    """Return the check of every named parameter, and whether it may be None."""
    checks: dict[str, tuple[Callable[[str, Any], object], bool]] = {}
    for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            kinds = set(get_args(parameter.annotation))
            may_be_none = NoneType in kinds
            hint = functools.reduce(or_, kinds - {NoneType}) if may_be_none else None
            checks[name] = _CHECKS[parameter.annotation if hint is None else hint], may_be_none
    return checks


def _checked(function: Callable[P, R], owner: str, options: Checks) -> Callable[P, R]:
    """Return a library function that checks its arguments, and further options of `owner`."""
    signature, checks = inspect.signature(function, eval_str=True), _checks_of(function)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if args and isinstance(args[0], Builder) and not args[0].is_checked:
            return function(*args, **kwargs)
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            if name in checks:
                _check(function.__name__, name, value, checks)
                continue
            for option, setting in value.items():
                if option in options:  # others are refused by what they are passed to
                    _check(owner, option, setting, options)
        return function(*args, **kwargs)

    return call


def _check(function: str, name: str, value: Any, checks: Checks) -> None:
    check, may_be_none = checks[name]
    if value is not None or not may_be_none:
        check(f"{function}: {name!r}", value)


def check_dim(subject: str, x: View, dim: int) -> None:
    """Raise BadGraph unless a tensor has a dimension.

    Raises
    ------
    BadGraph
        If it does not.
    """
    if not 0 <= dim < len(x.shape):
        raise BadGraph(
            f"{subject}: {x.name!r} of shape {x.shape} has no dimension {dim}: use 0 to"
            f" {len(x.shape) - 1}"
        )


def check_rank(name: str, operand: Any, dimensions: str) -> None:
    """Raise BadGraph unless an operand has the named dimensions.

    Raises
    ------
    BadGraph
        If it has more or fewer.
    """
    if len(operand.shape) != dimensions.count(",") + 1:
        raise BadGraph(
            f"{name}: shape {tuple(operand.shape)} is not ({dimensions}): reshape it to that"
        )
