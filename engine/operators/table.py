"""The table of operators, by name; front ends look operators up here."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import MutableMapping

from tilescope.engine.errors import UnsupportedOperators
from tilescope.engine.ir import Operator
from tilescope.engine.ir.registered import REGISTERED
from tilescope.engine.operators import (
    collectives,
    ctc,
    determinant,
    fused,
    identity,
    loss,
    microsoft,
    quantisation,
    random_numbers,
    recurrent,
    reduction,
    spatial,
    straight_through,
)
from tilescope.engine.operators.attention import (
    attention,
    fused_attention,
    grouped_attention,
)
from tilescope.engine.operators.classical import classical
from tilescope.engine.operators.control import control, rounds, scan
from tilescope.engine.operators.elementwise import (
    activation,
    cast,
    choice,
    compositions,
    dropout,
    elementwise,
    gradients,
    mapped,
)
from tilescope.engine.operators.graphcore import (
    collectives as replicated,
)
from tilescope.engine.operators.graphcore import (
    decoding,
    functions,
    images,
    layers,
    losses,
    packed,
    program,
    rows,
    slices,
    splines,
)
from tilescope.engine.operators.indexing import (
    boxes,
    compaction,
    indexing,
    scattering,
    unique,
)
from tilescope.engine.operators.movement import (
    constant,
    dynamic_slicing,
    extension,
    ipu_copy,
    layout,
    remote,
    slicing,
    stash,
    take,
)
from tilescope.engine.operators.norm import local_response, normalisation, softmax, trained
from tilescope.engine.operators.product import einsum, fourier, product
from tilescope.engine.operators.quantised import integer_product, quantised
from tilescope.engine.operators.sampling import regions, resize, sampling
from tilescope.engine.operators.window import convolution, convolution_transpose, pool

__all__ = ["FAMILIES", "OPERATORS", "operator", "supported_operators"]

#: A new family is entered here.
FAMILIES = (
    activation,
    attention,
    boxes,
    cast,
    choice,
    classical,
    collectives,
    replicated,
    compaction,
    compositions,
    constant,
    control,
    rounds,
    convolution,
    convolution_transpose,
    ctc,
    decoding,
    determinant,
    dropout,
    dynamic_slicing,
    einsum,
    elementwise,
    extension,
    fourier,
    functions,
    fused,
    fused_attention,
    gradients,
    grouped_attention,
    identity,
    images,
    indexing,
    integer_product,
    layers,
    ipu_copy,
    layout,
    remote,
    local_response,
    loss,
    losses,
    mapped,
    microsoft,
    normalisation,
    packed,
    pool,
    product,
    program,
    quantisation,
    quantised,
    random_numbers,
    recurrent,
    reduction,
    regions,
    resize,
    rows,
    sampling,
    scan,
    scattering,
    slices,
    slicing,
    softmax,
    spatial,
    splines,
    stash,
    straight_through,
    take,
    trained,
    unique,
)

#: Every operator and primitive by `Operator.key`: the engine's, then those that users register.
OPERATORS: MutableMapping[str, Operator] = ChainMap(
    {operator.key: operator for family in FAMILIES for operator in family.RECORDS}, REGISTERED
)


def supported_operators() -> list[str]:
    """Return the names of the operators that models may use, in alphabetical order."""
    return sorted(key for key, operator in OPERATORS.items() if not operator.is_primitive)


def operator(key: str) -> Operator:
    """Return the record of an operator, for decompositions to emit.

    Parameters
    ----------
    key
        Name of an operator of ONNX or of a primitive; others with their domain before it, such as
        ``custom.ops.Cube``.

    Raises
    ------
    UnsupportedOperators
        When there is none.
    """
    if key not in OPERATORS:
        raise UnsupportedOperators(
            f"Operator {key!r} is not supported: the page Supported operators lists those that are,"
            " and custom_operator registers one of your own"
        )
    return OPERATORS[key]
