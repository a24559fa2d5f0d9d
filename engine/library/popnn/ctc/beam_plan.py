"""Plans of the search for labels, and a variable for its scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilescope.engine.arguments import a_count
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import FLOAT16, FLOAT32, DType, Tensor, dtype_of
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popnn.ctc.beam_layout import BeamLayout
from tilescope.engine.library.popnn.ctc.loss_plan import a_shape
from tilescope.engine.planner.ctc_beams import BeamShape, CtcBeamPlan, plan_beams

__all__ = ["check_beam_plan", "create_ctc_beam_input", "plan_ctc_beams"]

_FLOATS = (FLOAT16, FLOAT32)


def plan_ctc_beams(
    builder: Builder,
    dtype: Any,
    shape: Sequence[int],
    width: int,
    *,
    partials_type: Any = "float32",
) -> CtcBeamPlan:
    """Return the plan that the allocator and the search share.

    Parameters
    ----------
    builder
        Its tiles.
    dtype
        Type of the scores, float16 or float32.
    shape
        Shape of the scores: steps of the longest sequence, sequences, and classes with that of no
        label, 2 or more.
    width
        Beams: labels that a step keeps.
    partials_type
        Type of what is computed: float32, or float16 for scores of that type.

    Raises
    ------
    BadGraph
        If a size or a type is invalid.
    """
    kind, partials = dtype_of(dtype), dtype_of(partials_type)
    if kind not in _FLOATS or partials not in _FLOATS or partials.n_bytes < kind.n_bytes:
        raise BadGraph(
            f"plan_ctc_beams: scores of {kind} with partials of {partials}: expected float16 or"
            " float32, and partials at least as wide"
        )
    n_steps, n_batch, n_classes = a_shape("plan_ctc_beams", shape)
    a_count("The classes of plan_ctc_beams", n_classes, 2)
    width = a_count("width of plan_ctc_beams", width, 1)
    machine = builder.tiles.machine
    return plan_beams(
        BeamShape(n_batch, n_steps, n_classes, width, kind.n_bytes, partials.n_bytes),
        min(machine.tiles_per_ipu, builder.tiles.n_tiles),
        machine.n_worker_contexts,
    )


@checked
def create_ctc_beam_input(
    builder: Builder, dtype: Any, plan: CtcBeamPlan, name: str = "data"
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
    kind, shape = dtype_of(dtype), plan.shape
    sizes = (shape.n_steps, shape.n_batch, shape.n_classes)
    check_beam_plan("create_ctc_beam_input", builder, plan, kind, (*sizes, shape.width))
    return BeamLayout(builder, plan).scores(kind, name).dim_shuffle(1, 0, 2)


def check_beam_plan(
    name: str, builder: Builder, plan: CtcBeamPlan, kind: DType, sizes: tuple[int, ...]
) -> None:
    """Raise BadGraph unless a plan fits a type and sizes, and has its tiles.

    Raises
    ------
    BadGraph
        If it does not.
    """
    shape = plan.shape
    planned = (shape.n_steps, shape.n_batch, shape.n_classes, shape.width)
    if sizes != planned or kind.n_bytes != shape.item_bytes:
        raise BadGraph(
            f"{name}: the plan is for {planned} steps, sequences, classes and beams of"
            f" {shape.item_bytes} bytes, and the call has {sizes} of {kind}: plan for these"
        )
    if plan.n_tiles > builder.tiles.n_tiles:
        raise BadGraph(
            f"{name}: the plan takes {plan.n_tiles} tiles, and the builder has"
            f" {builder.tiles.n_tiles}: plan for the builder"
        )
