"""Non-linearities by name, as ``popnn::nonLinearity``."""

from __future__ import annotations

from tilescope.engine.codelets.popnn.non_linearity import (
    NON_LINEARITY,
    NON_LINEARITY_BLOCK,
    NON_LINEARITY_FLOPS,
    NON_LINEARITY_IN_PLACE,
    NON_LINEARITY_IN_PLACE_BLOCK,
)
from tilescope.engine.codelets.popnn.non_linearity_gradient import (
    NON_LINEARITY_GRADIENT,
    NON_LINEARITY_GRADIENT_BLOCK,
    NON_LINEARITY_GRADIENT_FLOPS,
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
    binary_in_place,
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
    apply_joint,
    apply_to,
    binary,
    fills_variable,
    similar,
    unary,
)
from tilescope.engine.library.popops.reduction.reduce import reduce

__all__ = [
    "NON_LINEARITIES",
    "NON_LINEARITY_GRADIENTS",
    "non_linearity",
    "non_linearity_in_place",
    "non_linearity_input_gradient",
    "replaces_operand",
]

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

#: 0.2 g where |x| is up to 2.5, as a product with a mask.
#: Source: the same release, lib/popnn/HardSigmoid.cpp.
_HARD_SIGMOID_GRADIENT = call("less_equal", call("absolute", operand(0)), 2.5) * 0.2 * operand(1)
#: g (x / 3 + 0.5) where |x| is below 3, beyond that g or 0.
_HARD_SWISH_GRADIENT = call(
    "select",
    operand(0) * (1 / 3) + 0.5,
    call("select", 1.0, 0.0, call("greater", operand(0), 0.0)),
    call("less", call("absolute", operand(0)), 3.0),
) * operand(1)
_GRADIENT_EXPRESSIONS = {
    "hard_sigmoid": _HARD_SIGMOID_GRADIENT,
    "hard_swish": _HARD_SWISH_GRADIENT,
}

#: Names that `non_linearity_input_gradient` takes.
NON_LINEARITY_GRADIENTS = (
    *NON_LINEARITY_GRADIENT,
    *_GRADIENT_EXPRESSIONS,
    "softmax",
    "softmax_stable",
)
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


@checked
def non_linearity_input_gradient(builder: Builder, kind: str, act: View, gradient: View) -> Tensor:
    """Return the gradient of a non-linearity's operand from that of its result.

    Parameters
    ----------
    builder
        Target of the program.
    kind
        One of `NON_LINEARITY_GRADIENTS`: a name of `non_linearity`, except ``softmax_scaled``.
    act
        The result of ``relu``, ``sigmoid``, ``tanh`` and the softmaxes; the operand of ``gelu``,
        ``gelu_erf``, ``swish``, ``hard_sigmoid`` and ``hard_swish``. float16 or float32, any
        layout.
    gradient
        Gradient of the result, of the shape and type of `act`.

    Returns
    -------
    Tensor
        Of their shape and type, laid out and mapped as `act`.

    Raises
    ------
    BadGraph
        If the kind has no gradient, a type is not supported, or shapes or types differ.

    Notes
    -----
    One vertex per tile multiplies by the slope; that of ``relu`` is 0 at 0. ``hard_sigmoid`` and
    ``hard_swish`` are expressions: a slope of 0.2 from -2.5 to 2.5, and of x / 3 + 0.5
    between -3 and 3. A softmax takes y · g, its sum along the last dimension, y times that, and the
    difference. There is no form in place, as in PopLibs.
    Source: graphcore/poplibs sdk-release-3.4, lib/popnn/NonLinearity.cpp,
    nonLinearityInputGradient, softmaxInputGradientImpl and hardSigmoidGradImpl; the slope of a
    hard swish: onnx, docs/Operators.md, HardSwish.
    """
    name = "non_linearity_input_gradient"
    if kind not in NON_LINEARITY_GRADIENTS:
        raise BadGraph(
            f"{name}: {kind!r} has no gradient: use one of {', '.join(NON_LINEARITY_GRADIENTS)}"
        )
    for x in (act, gradient):
        _check(name, kind, x)
    if act.shape != gradient.shape or act.dtype != gradient.dtype:
        raise BadGraph(
            f"{name}: {act.name!r} is {act.dtype} {act.shape} and {gradient.name!r} is"
            f" {gradient.dtype} {gradient.shape}: expected the same type and shape"
        )
    detail = {"kind": kind, "shape": list(act.shape)}
    build = builder.inside(f"{kind}Gradient", "popnn.nonLinearityInputGradient", detail)
    if kind in _SOFTMAX:
        return _softmax_gradient(build, act, gradient)
    if kind in _GRADIENT_EXPRESSIONS:
        return map_expression(build, _GRADIENT_EXPRESSIONS[kind], [act, gradient])
    out = similar(build, "out", [act], act.shape, act.dtype)
    flops = NON_LINEARITY_GRADIENT_FLOPS[kind] * act.n_elements
    inner = build.inside("nonLinearityGradient", "popnn.nonLinearityInputGradient", flops=flops)
    codelets = NON_LINEARITY_GRADIENT[kind], NON_LINEARITY_GRADIENT_BLOCK[kind]
    return apply_joint(inner, f"{kind}Gradient", *codelets, [act, gradient], out)


def _softmax_gradient(builder: Builder, y: View, gradient: View) -> Tensor:
    """Return y (g - Σ g y) along the last dimension, in the steps of PopLibs."""
    weighted = binary(builder, "multiply", y, gradient)
    total = reduce(builder, "sum", weighted, [len(y.shape) - 1])
    binary_in_place(builder, "subtract", weighted, binary(builder, "multiply", y, total))
    return weighted


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
