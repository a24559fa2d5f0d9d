"""Reductions over dimensions, in the stages of a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilescope.engine.codelets.popops.reduction.reduce import REDUCE_UPDATE
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import FLOAT16, FLOAT32, Tensor, View
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popops.reduction.reduce_call import ReduceCall, Reduction
from tilescope.engine.library.popops.reduction.reduce_target import ReduceTarget
from tilescope.engine.library.popops.reduction.reduce_vertices import add_stages

__all__ = ["Reduction", "reduce", "reduce_many", "reduce_with_output"]

_FLOATS = (FLOAT16, FLOAT32)
_UPDATES = ", ".join(REDUCE_UPDATE)


@checked
def reduce(
    builder: Builder,
    operation: str,
    x: View,
    dims: Sequence[int],
    scale: float | Tensor | None = None,
) -> Tensor:
    """Reduce over `dims` and scale the result; the reduced dimensions keep size 1.

    Parameters
    ----------
    builder
        Target of the program.
    operation
        ``sum``, ``square_sum``, ``maximum``, ``minimum``, ``product``, ``log_add``, ``logical_and``
        or ``logical_or``. Partial results of halves are floats where that is more exact.
    x
        Any layout.
    dims
        Dimensions to reduce, in any order.
    scale
        Factor of the result, for means: a number, or a tensor of one float32 that the program
        computes. The result of ``log_add`` is a logarithm: its scale is added.

    Raises
    ------
    BadGraph
        If the operation or a dimension is unknown, or the type is not supported.
    """
    return reduce_many(builder, [Reduction(operation, x, dims, scale)])[0]


def reduce_many(builder: Builder, reductions: Sequence[Reduction]) -> list[Tensor]:
    """Return the results of reductions that share their compute sets, stage by stage.

    Parameters
    ----------
    builder
        Target of the program.
    reductions
        What to reduce. Every one is planned as if it were alone.

    Raises
    ------
    BadGraph
        As for `reduce`.
    """
    return _reduced(builder, [ReduceCall.of(item) for item in reductions])


@checked
def reduce_with_output(
    builder: Builder,
    operation: str,
    x: View,
    out: View,
    dims: Sequence[int],
    scale: float | Tensor | None = None,
    update: bool = False,
) -> None:
    """Reduce into a tensor, or combine the scaled result with what it holds.

    Parameters
    ----------
    builder
        Target of the program.
    operation, x, dims, scale
        As for `reduce`. Only sums and log-adds update.
    out
        Shape of the result, with the reduced dimensions of size 1 or without them. It keeps its
        tile mapping; without one, it is mapped to the tiles that compute it.
    update
        Whether to combine the result with `out`, in place.

    Raises
    ------
    BadGraph
        As for `reduce`; also if the output has another shape or type, or the operation does not
        update.
    """
    call = ReduceCall.of(Reduction(operation, x, dims, scale))
    if update and operation not in REDUCE_UPDATE:
        raise BadGraph(f"The reduction {operation!r} does not update: use one of {_UPDATES}")
    if out.dtype != x.dtype and not (out.dtype in _FLOATS and x.dtype in _FLOATS):
        raise BadGraph(
            f"{out.name!r} is {out.dtype}, but the reduced {x.name!r} is {x.dtype}: give an output"
            " of that type"
        )
    if tuple(out.shape) not in (call.result_shape, call.squeezed_shape):
        raise BadGraph(
            f"{out.name!r} has shape {tuple(out.shape)}: expected {call.result_shape}, or"
            f" {call.squeezed_shape}"
        )
    target = out.reshape(*call.result_shape)
    _reduced(builder, [replace(call, dtype=out.dtype, out=target, update=update)])


def _reduced(builder: Builder, calls: Sequence[ReduceCall]) -> list[Tensor]:
    """Add the stages of reductions, and return their results."""
    if len(calls) == 1:
        (call,) = calls
        build = builder.inside("reduce", "popops.reduce", call.detail(), flops=call.flops).planned()
    else:
        detail = {"reductions": [call.detail() for call in calls]}
        flops = sum(call.flops for call in calls)
        build = builder.inside("reduceMany", "popops.reduceMany", detail, flops=flops)
    labels = [f"{k}/" for k in range(len(calls))] if len(calls) > 1 else [""]
    targets = [ReduceTarget(build, call, label) for call, label in zip(calls, labels, strict=True)]
    add_stages(build, [target.stages() for target in targets])
    return [target.finish() for target in targets]
