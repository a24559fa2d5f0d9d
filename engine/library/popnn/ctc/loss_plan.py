"""Plans of the loss of alignments, and variables for its operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilescope.engine.arguments import a_count, a_kind
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import FLOAT16, FLOAT32, DType, Tensor, dtype_of
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popnn.ctc.layout import Layout
from tilescope.engine.options.available_memory import is_proportion
from tilescope.engine.options.catalogue import AVAILABLE_MEMORY_PROPORTION
from tilescope.engine.planner.ctc import CTC_SPLIT, CtcLossPlan, CtcShape, plan_alignments

__all__ = [
    "a_shape",
    "check_plan",
    "create_ctc_data_input",
    "create_ctc_labels_input",
    "plan_ctc_loss",
]

_FLOATS = (FLOAT16, FLOAT32)


def plan_ctc_loss(
    builder: Builder,
    dtype: Any,
    shape: Sequence[int],
    longest: int,
    *,
    partials_type: Any = "float32",
    available_memory_proportion: float = AVAILABLE_MEMORY_PROPORTION,
    split: Mapping[str, int] | None = None,
) -> CtcLossPlan:
    """Return the plan that the allocators and the loss share.

    Parameters
    ----------
    builder
        Its tiles.
    dtype
        Type of the scores, float16 or float32.
    shape
        Shape of the scores: steps of the longest sequence, sequences, and classes with that of no
        label.
    longest
        Classes of the longest label.
    partials_type
        Type of what is computed: float32, or float16 for scores of that type.
    available_memory_proportion
        Largest share of a tile for temporary data, above 0 and at most 1.
    split
        Numbers of parts that the plan must have, by name: ``batch``, ``steps``, ``label``; and
        whether the blank after the last class has a tile of its own, ``last_blank_apart``.

    Raises
    ------
    BadGraph
        If a size, a type or the share is invalid, or no split fits.
    """
    kind, partials = dtype_of(dtype), dtype_of(partials_type)
    if kind not in _FLOATS or partials not in _FLOATS or partials.n_bytes < kind.n_bytes:
        raise BadGraph(
            f"plan_ctc_loss: scores of {kind} with partials of {partials}: expected float16 or"
            " float32, and partials at least as wide"
        )
    n_steps, n_batch, n_classes = a_shape("plan_ctc_loss", shape)
    longest = a_count("longest of plan_ctc_loss", longest, 1)
    if not is_proportion(available_memory_proportion):
        raise BadGraph(
            "plan_ctc_loss: available_memory_proportion is"
            f" {available_memory_proportion}: expected a share above 0, at most 1"
        )
    given = a_kind("The split of plan_ctc_loss", split or {}, Mapping, "a dictionary of counts")
    for name, n in given.items():
        if name not in CTC_SPLIT:
            raise BadGraph(
                f"plan_ctc_loss: unknown part {name!r} of the split: use {', '.join(CTC_SPLIT)}"
            )
        a_count(f"{name} of the split of plan_ctc_loss", n, int(name != "last_blank_apart"))
    plan = plan_alignments(
        CtcShape(n_batch, n_steps, longest, n_classes, kind.n_bytes, partials.n_bytes),
        builder.tiles.machine,
        float(available_memory_proportion),
        tuple((name, int(n)) for name, n in given.items()),
    )
    if plan is None:
        raise BadGraph(
            f"plan_ctc_loss: no split of {n_batch} sequences of {n_steps} steps, {longest} classes"
            f" of labels and {n_classes} classes fits {available_memory_proportion:.0%} of a tile:"
            " use fewer sequences at once, or a larger available_memory_proportion"
        )
    return plan


@checked
def create_ctc_data_input(
    builder: Builder, dtype: Any, plan: CtcLossPlan, name: str = "data"
) -> Tensor:
    """Add a variable for scores or logarithms of probabilities, laid out by a plan.

    Parameters
    ----------
    builder
        Its graph and tiles.
    dtype
        Type of the scores: that of the plan.
    plan
        The plan.
    name
        Name of the variable.

    Returns
    -------
    Tensor
        Shape (steps, batch, classes).

    Raises
    ------
    BadGraph
        If the type is not that of the plan, or the plan needs more tiles.
    """
    kind = dtype_of(dtype)
    check_plan("create_ctc_data_input", builder, plan, kind)
    return Layout(builder, plan).data(kind, name).reshape(*_sizes(plan)).dim_shuffle(1, 0, 2)


@checked
def create_ctc_labels_input(builder: Builder, plan: CtcLossPlan, name: str = "labels") -> Tensor:
    """Add a variable for labels, int32, shape (batch, longest label), laid out by a plan.

    Parameters
    ----------
    builder
        Its graph and tiles.
    plan
        The plan.
    name
        Name of the variable.

    Raises
    ------
    BadGraph
        If the plan needs more tiles.
    """
    check_plan("create_ctc_labels_input", builder, plan)
    return Layout(builder, plan).labels(name)


def a_shape(name: str, shape: Sequence[int]) -> tuple[int, int, int]:
    """Return the shape of scores.

    Raises
    ------
    BadGraph
        If it is not three counts.
    """
    counts = tuple(a_count(f"A size in the shape of {name}", n, 1) for n in shape)
    if len(counts) != 3:
        raise BadGraph(f"{name}: the shape is {counts}: expected (steps, batch, classes)")
    return counts[0], counts[1], counts[2]


def check_plan(
    name: str,
    builder: Builder,
    plan: CtcLossPlan,
    kind: DType | None = None,
    sizes: tuple[int, ...] | None = None,
) -> None:
    """Raise BadGraph unless a plan fits a type and sizes, and has its tiles.

    Raises
    ------
    BadGraph
        If it does not.
    """
    shape = plan.shape
    planned = (shape.n_batch, shape.n_steps, shape.longest, shape.n_classes)
    if sizes is not None and sizes != planned:
        raise BadGraph(
            f"{name}: the plan is for {planned} sequences, steps, classes of a label and classes,"
            f" and the operands have {sizes}: plan for these"
        )
    if kind is not None and kind.n_bytes != shape.item_bytes:
        raise BadGraph(
            f"{name}: the plan is for scores of {shape.item_bytes} bytes, not for {kind}: plan for"
            " these"
        )
    if plan.n_tiles > builder.tiles.n_tiles:
        raise BadGraph(
            f"{name}: the plan takes {plan.n_tiles} tiles, and the builder has"
            f" {builder.tiles.n_tiles}: plan for the builder"
        )


def _sizes(plan: CtcLossPlan) -> tuple[int, int, int]:
    return plan.shape.n_batch, plan.shape.n_steps, plan.shape.n_classes
