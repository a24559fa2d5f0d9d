"""Random numbers. A node's seed is its attribute, or follows from its name: runs are reproducible.

Every run of an inference draws the same numbers; nodes without operands that vary are folded like
other constants then, to the numbers that the machine would draw. In training, and where a model is
asked to (`tilescope.engine.training.modes.drawing`), a seed that every run advances is an operand:
`DRAW` takes the place of the operators.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import helper

from tilescope.engine.codelets.poprand.philox import normal_quantile, philox_block
from tilescope.engine.errors import BadModel
from tilescope.engine.graph import Tensor
from tilescope.engine.ir import ENGINE_DOMAIN, Constant, Node, Operation, Operator
from tilescope.engine.library.popops.elementwise.operations import binary, cast
from tilescope.engine.library.poprand import random_numbers as library
from tilescope.engine.lower import Lowering

__all__ = ["DRAW", "RANDOM_UNIFORM_LIKE", "RECORDS", "draw_attributes", "random_bits"]

Array = NDArray[Any]
Type = tuple[tuple[int, ...], str]

_FLOATS = ("float16", "float32", "float64")


def _key(node: Node) -> tuple[int, int, int]:
    """Return the seed of a node, as two int32, and the modifier."""
    seed = node.attributes.get("seed")
    if seed is None:
        return 0, 0, zlib.crc32(node.name.encode())
    low, high = np.array([seed], np.float64).view(np.int32).tolist()
    return low, high, 0


def _type(node: Node) -> Type:
    """Return the type of the result.

    Raises
    ------
    BadModel
        When it is not a floating-point type.
    """
    code = node.attributes.get("dtype")
    operand = node.optional(0)
    shape = tuple(node.attributes["shape"]) if operand is None else operand.shape
    dtype = helper.tensor_dtype_to_np_dtype(code).name if code else getattr(operand, "dtype", "")
    allowed = ("bool", "int32", "int64", *_FLOATS) if node.operator.name == "Bernoulli" else _FLOATS
    if dtype not in allowed:
        raise BadModel(f"{node}: its type is {dtype}: expected one of {', '.join(allowed)}")
    return shape, dtype


def _plain(function: Any) -> Any:
    """Return a compiled function as Python; it takes arrays then."""
    return getattr(function, "py_func", function)


def random_bits(n: int, seed: Sequence[int], modifier: int) -> Array:
    """Return the 32 bits of every element that the machine draws.

    Parameters
    ----------
    n
        Elements.
    seed
        Two int32.
    modifier
        Of the seed, for one of several draws.

    Returns
    -------
    ndarray of uint64, shape (n,)
    """
    counters = np.arange(-(-n // 4), dtype=np.uint64)
    zeros = np.zeros_like(counters)
    keys = [np.uint64(int(key) % 2**32) for key in seed]
    counter = (counters, zeros, zeros + np.uint64(modifier), zeros)
    return np.stack(_plain(philox_block)(*counter, *keys), axis=1).reshape(-1)[:n]


def _parameters(node: Node) -> tuple[float, float]:
    """Return interval ends, or mean and deviation."""
    attributes = node.attributes
    if "Normal" in node.operator.name:
        return attributes["mean"], attributes["scale"]
    return attributes.get("low", 0.0), attributes.get("high", 1.0)


def _evaluate(node: Node, arrays: Sequence[Array | None]) -> list[Array]:
    """Return the numbers that the machine draws, before they are rounded to the type."""
    shape, dtype = _type(node)
    low, high, modifier = _key(node)
    bits = random_bits(int(np.prod(shape)), (low, high), modifier).reshape(shape)
    bound = arrays[0] if arrays else None
    return [_numbers(_kind(node), _parameters(node), bits, bound).astype(dtype)]


def _kind(node: Node) -> str:
    """Return the distribution: ``normal``, ``uniform`` or ``bernoulli``."""
    if node.operator.name == "Bernoulli":
        return "bernoulli"
    return "normal" if "Normal" in node.operator.name else "uniform"


def _numbers(kind: str, parameters: tuple[float, float], bits: Array, bound: Array | None) -> Array:
    """Return the numbers of a distribution that bits stand for; `bound` is of Bernoulli."""
    first, second = parameters
    if kind == "normal":
        quantile = np.vectorize(_plain(normal_quantile), otypes=[float])
        return np.asarray(first + second * quantile((bits + 0.5) * 2.0**-32))
    numbers = first + (second - first) * ((bits >> np.uint64(8)) * 2.0**-24)
    return np.asarray(numbers if bound is None or kind != "bernoulli" else numbers < bound)


def _lower(lowering: Lowering, op: Operation) -> Tensor:
    low, high, modifier = _key(op)
    seed = lowering.tensor(Constant("seed", (2,), "int32", np.array([low, high], np.int32)))
    reference, dtype = lowering.tensor(op.operand(0)), op.output.dtype
    return _drawn(lowering, _kind(op), _parameters(op), (seed, modifier), reference, dtype)


def _drawn(
    lowering: Lowering,
    kind: str,
    parameters: tuple[float, float],
    key: tuple[Tensor, int],
    reference: Tensor,
    dtype: str,
) -> Tensor:
    """Draw from a seed and its modifier, laid out as a reference: of Bernoulli, its bound."""
    builder = lowering.builder
    if kind != "bernoulli":
        function = library.normal if kind == "normal" else library.uniform
        return function(builder, *key, reference, dtype, *parameters)
    drawn = library.uniform(builder, *key, reference, "float32", 0.0, 1.0)
    bound = reference
    if bound.dtype != drawn.dtype:
        bound = cast(builder, bound, drawn.dtype)
    hit = binary(builder, "less", drawn, bound)
    return hit if dtype == "bool" else cast(builder, hit, dtype)


def _operator(name: str) -> Operator:
    return Operator(
        name=name,
        infer=lambda node: [_type(node)],
        evaluate=_evaluate,
        lower=_lower,
        stops_gradient=True,
        draws=True,
    )


def draw_attributes(node: Node, modifier: int) -> dict[str, Any]:
    """Return the attributes of the `DRAW` that takes the place of a node.

    Parameters
    ----------
    node
        A use of one of the operators of this file.
    modifier
        Of the seed, for one of several draws.

    Raises
    ------
    BadModel
        When its type is not one of random numbers.
    """
    shape, dtype = _type(node)
    low, high, own = _key(node)
    return {
        "kind": _kind(node),
        "parameters": _parameters(node),
        "shape": shape,
        "dtype": dtype,
        "modifier": (modifier ^ low ^ high ^ own) % 2**32,
    }


def _draw_array(node: Node, arrays: Sequence[Array]) -> list[Array]:
    """Return the numbers that the machine draws from the seed."""
    given = node.attributes
    shape, bound = given["shape"], arrays[1] if len(arrays) > 1 else None
    bits = random_bits(int(np.prod(shape)), arrays[0].tolist(), given["modifier"]).reshape(shape)
    return [_numbers(given["kind"], given["parameters"], bits, bound).astype(given["dtype"])]


def _lower_draw(lowering: Lowering, op: Operation) -> Tensor:
    given, like = op.attributes, op.optional(1)
    reference = lowering.variable(op.output) if like is None else lowering.tensor(like)
    key = lowering.tensor(op.operand(0)), given["modifier"]
    return _drawn(lowering, given["kind"], given["parameters"], key, reference, given["dtype"])


#: Random numbers from a seed: an operand, so that runs draw others.
DRAW = Operator(
    name="draw",
    domain=ENGINE_DOMAIN,
    infer=lambda node: [(node.attributes["shape"], node.attributes["dtype"])],
    evaluate=_draw_array,
    lower=_lower_draw,
    stops_gradient=True,
)


RANDOM_UNIFORM_LIKE = _operator("RandomUniformLike")


RECORDS = (
    DRAW,
    RANDOM_UNIFORM_LIKE,
    *map(_operator, ("Bernoulli", "RandomNormal", "RandomNormalLike", "RandomUniform")),
)
