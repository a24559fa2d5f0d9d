"""Non-linearities by name, as ``popnn::nonLinearity``."""

from __future__ import annotations

from tilescope.engine.codelets.popnn.non_linearity import (
    NON_LINEARITY,
    NON_LINEARITY_BLOCK,
    NON_LINEARITY_FLOPS,
    NON_LINEARITY_IN_PLACE,
    NON_LINEARITY_IN_PLACE_BLOCK,
)
from tilescope.engine.codelets.popops.elementwise.fused import fused_codelets
from tilescope.engine.codelets.popops.elementwise.in_place import (
    UNARY_IN_PLACE,
    UNARY_IN_PLACE_BLOCK,
)
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import FLOAT16, FLOAT32, Tensor, View
from tilescope.engine.graph.vertex.codelet import Codelet
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popnn.softmax import softmax, softmax_in_place
from tilescope.engine.library.popops.elementwise.in_place import (
    apply_in_place,
    fits_in_place,
    unary_in_place,
)
from tilescope.engine.library.popops.elementwise.map import (
    call,
    map_expression,
    map_in_place,
    operand,
)
from tilescope.engine.library.popops.elementwise.operations import (
    apply_to,
    fills_variable,
    similar,
    unary,
)

__all__ = ["NON_LINEARITIES", "non_linearity", "non_linearity_in_place", "replaces_operand"]

_UNARY = ("sigmoid", "relu", "tanh", "gelu_erf")
#: Options of `softmax` by name.
_SOFTMAX = {
    "softmax": {"stable": False},
    "softmax_stable": {"stable": True},
    "softmax_scaled": {"stable": True, "scaled": True},
}
#: max(0, min(1, 0.2 x + 0.5)). Source: graphcore/poplibs sdk-release-3.4,
#: include/popnn/NonLinearityDef.hpp.
_HARD_SIGMOID = call("clamp", operand(0) * 0.2 + 0.5, 0, 1)

#: x · max(0, min(1, x / 6 + 0.5)). Source: onnx, docs/Operators.md, HardSwish.
_HARD_SWISH = operand(0) * call("clamp", operand(0) * (1 / 6) + 0.5, 0, 1)
_EXPRESSIONS = {"hard_sigmoid": _HARD_SIGMOID, "hard_swish": _HARD_SWISH}

#: Names that `non_linearity` takes.
NON_LINEARITIES = (*_UNARY, "gelu", "swish", *_EXPRESSIONS, *_SOFTMAX)


@checked
def non_linearity(builder: Builder, kind: str, x: View) -> Tensor:
    """Return a non-linearity of a tensor.

    Parameters
    ----------
    builder
        Target of the program.
    kind
        ``sigmoid``, ``hard_sigmoid``, ``relu``, ``tanh``, ``gelu`` (by tanh), ``gelu_erf``,
        ``swish`` (also called silu), ``hard_swish``, and along the last dimension
        ``softmax``, ``softmax_stable`` or ``softmax_scaled``: see
        `tilescope.engine.library.popnn.softmax.softmax`.
    x
        float16 or float32, any layout.

    Raises
    ------
    BadGraph
        If the kind is unknown or the type is not supported.

    Notes
    -----
    Source: graphcore/poplibs sdk-release-3.4, include/popnn/NonLinearity.hpp, and
    NonLinearityDef.hpp for the formulas.
    """
    _check("non_linearity", kind, x)
    build = builder.inside(kind, "popnn.nonLinearity", {"kind": kind, "shape": list(x.shape)})
    if kind in _UNARY:
        return unary(build, kind, x)
    if kind in _SOFTMAX:
        return softmax(build, x, -1, **_SOFTMAX[kind])
    if kind in _EXPRESSIONS:
        return map_expression(build, _EXPRESSIONS[kind], [x])
    out = similar(build, "out", [x], x.shape, x.dtype)
    flops = NON_LINEARITY_FLOPS[kind] * x.n_elements
    inner = build.inside("nonLinearity", "popnn.nonLinearity", flops=flops)
    apply_to(inner, kind, NON_LINEARITY[kind], NON_LINEARITY_BLOCK[kind], x, out)
    return out


@checked
def non_linearity_in_place(builder: Builder, kind: str, x: View) -> None:
    """Replace a tensor by a non-linearity of it: see `non_linearity`.

    Raises
    ------
    BadGraph
        As `non_linearity`, or if the tensor aliases elements.
    """
    _check("non_linearity_in_place", kind, x)
    detail = {"kind": kind, "shape": list(x.shape)}
    build = builder.inside(f"{kind}InPlace", "popnn.nonLinearity", detail)
    if kind in _UNARY:
        unary_in_place(build, kind, x)
    elif kind in _SOFTMAX:
        softmax_in_place(build, x, -1, **_SOFTMAX[kind])
    elif kind in _EXPRESSIONS:
        map_in_place(build, _EXPRESSIONS[kind], [x])
    else:
        flops = NON_LINEARITY_FLOPS[kind] * x.n_elements
        inner = build.inside("nonLinearity", "popnn.nonLinearity", flops=flops)
        apply_in_place(inner, kind, _codelets_in_place(kind), [x])


def replaces_operand(builder: Builder, kind: str, x: Tensor) -> bool:
    """Return whether `non_linearity_in_place` needs no copy of a tensor, which fills its variable.

    A softmax also has a variable for the maxima and one for the sums.
    """
    if kind in _SOFTMAX:
        return fills_variable(builder, x)
    return fits_in_place(builder, kind, _codelets_in_place(kind), [x], x.shape)


def _codelets_in_place(kind: str) -> tuple[Codelet, Codelet]:
    """Return the codelets of a non-linearity of single elements, for vectors and for blocks."""
    if kind in _UNARY:
        return UNARY_IN_PLACE[kind], UNARY_IN_PLACE_BLOCK[kind]
    if kind in _EXPRESSIONS:
        return fused_codelets(_EXPRESSIONS[kind], is_in_place=True)
    return NON_LINEARITY_IN_PLACE[kind], NON_LINEARITY_IN_PLACE_BLOCK[kind]


def _check(name: str, kind: str, x: View) -> None:
    """Raise BadGraph unless a non-linearity exists and supports a tensor's type.

    Raises
    ------
    BadGraph
        If it is unknown or does not support the type.
    """
    if kind not in NON_LINEARITIES:
        raise BadGraph(
            f"{name}: unknown non-linearity {kind!r}: use one of {', '.join(NON_LINEARITIES)}"
        )
    if x.dtype not in (FLOAT16, FLOAT32):
        raise BadGraph(f"{name}: {x.name!r} is {x.dtype}: expected float16 or float32; cast it")
