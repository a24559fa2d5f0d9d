"""Elementwise operations in place: the result replaces the first operand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilescope.engine.codelets.popops.elementwise.in_place import (
    BINARY_IN_PLACE,
    BINARY_IN_PLACE_BLOCK,
    UNARY_IN_PLACE,
    UNARY_IN_PLACE_BLOCK,
)
from tilescope.engine.codelets.popops.elementwise.operations import TO_BOOL, flops_per_element
from tilescope.engine.codelets.popops.elementwise.ternary import (
    SELECT_IN_PLACE,
    SELECT_IN_PLACE_BLOCK,
)
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import Tensor, View
from tilescope.engine.graph.mapping.elements import share_elements
from tilescope.engine.graph.vertex.codelet import Codelet
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popops.elementwise.operations import (
    check_function,
    check_select,
    fills_variable,
    row_major_copy,
)
from tilescope.engine.library.vertex_memo import vertices_of

__all__ = [
    "apply_in_place",
    "binary_in_place",
    "fits_in_place",
    "over_operand",
    "select_in_place",
    "selects_in_place",
    "unary_in_place",
]

#: Functions whose result is the same, bit for bit, if the operands are swapped.
_COMMUTATIVE = frozenset(
    {"add", "bitwise_and", "bitwise_or", "bitwise_xnor", "bitwise_xor", "multiply"}
)


@checked
def unary_in_place(builder: Builder, function: str, x: View) -> None:
    """Replace a tensor by a function of it: see `codelets.popops.elementwise.unary_functions`.

    Parameters
    ----------
    builder
        Target of the program.
    function
        Name of the function; not one that returns bools.
    x
        A view without aliased elements.

    Raises
    ------
    BadGraph
        If the function is unknown, returns bools or does not support the type, or `x` aliases
        elements.
    """
    check_function(function, [x])
    _refuse_bools(function, x)
    detail = {"operation": function, "shape": list(x.shape)}
    flops = flops_per_element(function) * x.n_elements * x.dtype.is_float
    build = builder.inside(f"{function}InPlace", "popops.mapInPlace", detail, flops=flops)
    apply_in_place(build, function, _codelets(function, 1), [x])


@checked
def binary_in_place(builder: Builder, function: str, a: View, b: View) -> None:
    """Replace a tensor by a function of it and of another one.

    Parameters
    ----------
    builder
        Target of the program.
    function
        Name of the function: see `codelets.popops.elementwise.binary_functions`; not one that
        returns bools.
    a
        A view without aliased elements.
    b
        Second operand of the same type, broadcast to the shape of `a`. It is copied first if it
        aliases elements of `a` at other positions.

    Raises
    ------
    BadGraph
        If the function is unknown, returns bools or does not support the type, if types or shapes
        are incompatible, or if `a` aliases elements.
    """
    check_function(function, [a, b])
    _refuse_bools(function, a)
    detail = {"operation": function, "shapes": [list(a.shape), list(b.shape)]}
    flops = flops_per_element(function) * a.n_elements * a.dtype.is_float
    build = builder.inside(f"{function}InPlace", "popops.mapInPlace", detail, flops=flops)
    apply_in_place(build, function, _codelets(function, 2), [a, b])


def _refuse_bools(function: str, x: View) -> None:
    if function in TO_BOOL:
        raise BadGraph(
            f"{function} of {x.name!r} returns bools, which do not fit in its place: use the form"
            " that returns a tensor"
        )


def over_operand(
    builder: Builder,
    function: str,
    operands: Sequence[Tensor],
    shape: tuple[int, ...],
    is_free: Sequence[bool],
) -> Tensor | None:
    """Apply a function of one or two operands over one of them, if its place suits the result.

    It does if the operand has the result's type and shape and fills its variable, and the other
    operand needs no copy.

    Parameters
    ----------
    builder
        Target of the program.
    function
        Name of the function, of the operands' type.
    operands
        The second may replace the first as the target only where the function is commutative.
    shape
        Shape of the result.
    is_free
        By operand: whether nothing reads its variable afterwards.

    Returns
    -------
    Tensor or None
        The operand that holds the result; None if none suits it, and nothing was added.
    """
    if function in TO_BOOL:
        return None
    for i in range(len(operands) if function in _COMMUTATIVE else 1):
        target, other_operands = operands[i], [*operands[:i], *operands[i + 1 :]]
        if not is_free[i]:
            continue
        codelets = _codelets(function, len(operands))
        if fits_in_place(builder, function, codelets, [target, *other_operands], shape):
            in_place = binary_in_place if other_operands else unary_in_place
            in_place(builder, function, target, *other_operands)
            return target
    return None


def fits_in_place(
    builder: Builder,
    name: str,
    codelets: tuple[Codelet, Codelet],
    operands: Sequence[Tensor],
    shape: tuple[int, ...],
) -> bool:
    """Return whether a result can replace the first operand, whose variable it fills, uncopied.

    Parameters
    ----------
    builder
        Target of the program.
    name
        Name of the compute set.
    codelets
        For vectors and for blocks.
    operands
        The first and the others, which broadcast to it.
    shape
        Shape of the result.
    """
    target, *other_operands = operands
    if target.shape != shape or not fills_variable(builder, target):
        return False
    if any(x != target and target.variable in x.variables for x in other_operands):
        return False
    return vertices_of(builder.graph, name, codelets, other_operands, target) is not None


@checked
def select_in_place(builder: Builder, a: View, b: View, chooser: View) -> None:
    """Replace the elements of `a` where `chooser` is false by those of `b`.

    Parameters
    ----------
    builder
        Target of the program.
    a
        A view without aliased elements.
    b, chooser
        A tensor of the same type, and bools; they broadcast to the shape of `a`.

    Raises
    ------
    BadGraph
        If types or shapes are incompatible, or if `a` aliases elements.
    """
    check_select(a, b, chooser)
    detail = {"operation": "select", "shapes": [list(x.shape) for x in (a, b, chooser)]}
    build = builder.inside("selectInPlace", "popops.mapInPlace", detail, flops=0)
    apply_in_place(build, "select", (SELECT_IN_PLACE, SELECT_IN_PLACE_BLOCK), [a, b, chooser])


def selects_in_place(
    builder: Builder, a: Tensor, b: Tensor, chooser: Tensor, shape: tuple[int, ...]
) -> bool:
    """Return whether `select_in_place` gives a result of a shape, without copies."""
    codelets = SELECT_IN_PLACE, SELECT_IN_PLACE_BLOCK
    return fits_in_place(builder, "select", codelets, [a, b, chooser], shape)


def _codelets(function: str, n_operands: int) -> tuple[Codelet, Codelet]:
    """Return the codelets of a function in place, for vectors and for blocks."""
    if n_operands == 1:
        return UNARY_IN_PLACE[function], UNARY_IN_PLACE_BLOCK[function]
    return BINARY_IN_PLACE[function], BINARY_IN_PLACE_BLOCK[function]


def apply_in_place(
    builder: Builder,
    name: str,
    codelets: tuple[Codelet, Codelet],
    operands: Sequence[View],
    scalars: Mapping[str, float] | None = None,
) -> None:
    """Add a compute set that writes the result over the first operand.

    Parameters
    ----------
    builder
        Target of the program.
    name
        Name of the compute set.
    codelets
        For vectors and for blocks.
    operands
        The target and the other operands, which broadcast to it.
    scalars
        Scalars of the codelets.

    Raises
    ------
    BadGraph
        If the target aliases elements, or strides are incompatible even through row-major copies.
    """
    target, *other_operands = operands
    # A vertex must not read what another writes; it may read elements that it writes itself.
    read = [
        row_major_copy(builder, x, "copy") if x != target and share_elements(target, x) else x
        for x in other_operands
    ]
    vertices = vertices_of(builder.graph, name, codelets, read, target, scalars)
    if vertices is None:
        read = [row_major_copy(builder, x, "rearrange") for x in read]
        vertices = vertices_of(builder.graph, name, codelets, read, target, scalars)
    if vertices is None:
        raise BadGraph(
            f"{name}: the strides of {target.name!r} are incompatible with its operands: copy it"
            " to a row-major tensor first"
        )
    vertices.add_to(builder.graph, builder.compute_set(name))
