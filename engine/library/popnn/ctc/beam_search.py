"""The search for the most probable labels of sequences, from the probabilities of their classes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tilescope.engine.arguments import a_count, a_switch
from tilescope.engine.codelets.popnn.ctc_beams import GENERATE_OUTPUT, INVALID, VOID
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import FLOAT16, FLOAT32, INT32, DType, Tensor, View
from tilescope.engine.library.argument_check import check_rank, checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popnn.ctc.beam_layout import BeamLayout, Candidates
from tilescope.engine.library.popnn.ctc.beam_plan import check_beam_plan, plan_ctc_beams
from tilescope.engine.library.popnn.ctc.beam_step import Beams, BeamStep, SortVariables
from tilescope.engine.library.popnn.ctc.loss import LOG_OF_NOTHING
from tilescope.engine.library.popnn.softmax import log_softmax_in_place
from tilescope.engine.library.popops.elementwise.fill import fill_together
from tilescope.engine.library.popops.elementwise.operations import cast, copy_to
from tilescope.engine.planner.ctc_beams import CtcBeamPlan
from tilescope.engine.program import Repeat, Sequence

__all__ = ["ctc_beam_search"]


@checked
def ctc_beam_search(
    builder: Builder,
    scores: View,
    steps: View,
    width: int,
    *,
    n_paths: int = 1,
    blank: int = 0,
    plan: CtcBeamPlan | None = None,
    takes_logs: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the most probable labels that a beam search finds.

    Parameters
    ----------
    builder
        Target of the program.
    scores
        Shape (steps, batch, classes), float16 or float32: what softmax makes probabilities of, or
        the logarithms of these.
    steps
        int32, shape (batch,): steps of every sequence, 1 or more.
    width
        Beams: labels that a step keeps.
    n_paths
        Labels that are returned, up to `width`.
    blank
        The class of no label.
    plan
        The split over tiles; by default, that of `plan_ctc_beams` with partials of float32.
    takes_logs
        Whether the scores are logarithms of probabilities already.

    Returns
    -------
    logs : Tensor
        Logarithms of the probabilities of the labels, of the type of the scores, shape (batch,
        n_paths), the largest first. Where a sequence has fewer labels, they are far below all
        others: -65,504 as float16, -10³⁰ as float32.
    lengths : Tensor
        int32, shape (batch, n_paths).
    labels : Tensor
        int32, shape (batch, n_paths, steps): classes, and -1 beyond the length.

    Raises
    ------
    BadGraph
        If shapes, types, counts, the blank or the plan do not fit.

    Notes
    -----
    Source: graphcore/poplibs sdk-release-3.4, include/popnn/CTCInference.hpp,
    beamSearchDecoderLogits and beamSearchDecoderLogProbabilities. There, the loop ends with the
    longest sequence of the batch; here, it has the steps of the scores.
    """
    name = "ctc_beam_search"
    width = a_count(f"width of {name}", width, 1)
    n_paths = a_count(f"n_paths of {name}", n_paths, 1, width)
    takes_logs = a_switch(f"takes_logs of {name}", takes_logs)
    _check(scores, steps, blank)
    kind, sizes = scores.dtype, (*scores.shape, width)
    plan = plan or plan_ctc_beams(builder, kind, scores.shape, width)
    check_beam_plan(name, builder, plan, kind, sizes)
    detail = {"scores": list(scores.shape), "width": width, "paths": n_paths, "blank": blank}
    build = builder.inside("ctcBeamSearch", f"popnn.{name}", {**detail, **plan.detail()})
    layout = BeamLayout(build, plan)
    partials = FLOAT32 if plan.shape.partial_bytes == FLOAT32.n_bytes else FLOAT16
    zero = LOG_OF_NOTHING[partials]
    probabilities = _probabilities(build, layout, scores, takes_logs=takes_logs)
    beams = _first_beams(build, layout, partials, zero, steps)
    body = replace(build, sequence=Sequence("step", debug=build.debug))
    step = BeamStep(body, layout, probabilities, beams, blank, zero)
    step.add(*_variables(build, layout, partials))
    build.sequence.add(Repeat(plan.shape.n_steps, body.sequence, "steps", debug=build.debug))
    lengths, labels = _outputs(build, step, n_paths)
    n_batch = plan.shape.n_batch
    logs = beams.logs.slice(1, 0, 1).slice(2, 2, 3).slice(3, 0, n_paths).reshape(n_batch, n_paths)
    return logs if kind == partials else cast(build, logs, kind), lengths, labels


def _check(scores: View, steps: View, blank: int) -> None:
    """Refuse operands that do not fit.

    Raises
    ------
    BadGraph
        Says what is expected.
    """
    name = "ctc_beam_search"
    check_rank(f"{name}: its scores", scores, "steps, batch, classes")
    if scores.dtype not in (FLOAT16, FLOAT32):
        raise BadGraph(f"{name}: {scores.name!r} is {scores.dtype}: expected float16 or float32")
    _, n_batch, n_classes = scores.shape
    if steps.dtype != INT32 or tuple(steps.shape) != (n_batch,):
        raise BadGraph(
            f"{name}: its steps {steps.name!r} are {steps.dtype} {tuple(steps.shape)}: expected"
            f" int32 {(n_batch,)}"
        )
    if not 0 <= blank < n_classes:
        raise BadGraph(f"{name}: the blank is class {blank} of {n_classes}")


def _probabilities(
    builder: Builder, layout: BeamLayout, scores: View, *, takes_logs: bool
) -> Tensor:
    """Return logarithms with a copy on every part: shape (batch, parts, steps, classes)."""
    shape = layout.plan.shape
    inner = (shape.n_steps, shape.n_classes)
    copies = layout.variable(scores.dtype, "broadcast", layout.all_parts, *inner)
    source = scores.dim_shuffle(1, 0, 2)
    if not takes_logs:
        logs = layout.scores(scores.dtype, "logProbabilities")
        copy_to(builder, source, logs, "logProbabilities")
        log_softmax_in_place(builder, logs, 2)
        source = logs
    wide = source.reshape(shape.n_batch, 1, *inner).broadcast_to(copies.shape)
    copy_to(builder, wide, copies, "broadcast")
    return copies


def _first_beams(
    builder: Builder, layout: BeamLayout, partials: DType, zero: float, steps: View
) -> Beams:
    """Add beams: the first one is the empty label, the others are none."""
    shape, part = layout.plan.shape, layout.all_parts
    width, n_rows = shape.width, shape.n_steps + 1

    def variable(name: str, *inner: int) -> Tensor:
        return layout.variable("int32", name, part, *inner)

    beams = Beams(
        layout.variable(partials, "beams", part, 3, width),
        variable("addends", n_rows, width),
        variable("parents", n_rows, width),
        variable("lengths", 2, width),
        variable("last", width),
        variable("done"),
        variable("complete"),
        variable("dataLengths"),
    )
    pairs: list[tuple[View, float]] = [
        (beams.logs.slice(2, 0, 1), zero),
        (beams.logs.slice(2, 1, 3).slice(3, 0, 1), 0.0),
        (beams.addends.slice(2, 0, 1).slice(3, 0, 1), VOID),
        (beams.addends.slice(2, 1, n_rows), INVALID),
        (beams.last.slice(2, 0, 1), VOID),
        *((tensor, 0) for tensor in (beams.parents, beams.lengths, beams.done, beams.complete)),
    ]
    if width > 1:
        pairs += [
            (beams.logs.slice(2, 1, 3).slice(3, 1, width), zero),
            (beams.addends.slice(2, 0, 1).slice(3, 1, width), INVALID),
            (beams.last.slice(2, 1, width), INVALID),
        ]
    fill_together(builder, pairs, "firstBeams")
    wide = steps.reshape(shape.n_batch, 1).broadcast_to(beams.steps.shape)
    copy_to(builder, wide, beams.steps, "broadcastLengths")
    return beams


def _variables(
    builder: Builder, layout: BeamLayout, partials: DType
) -> tuple[Candidates, Candidates, Candidates, Candidates, list[SortVariables]]:
    """Add the candidates of a step, filled, since sequences that have ended do not write them."""
    plan, width = layout.plan, layout.plan.shape.width
    n_classes = plan.shape.n_classes
    copies = layout.candidates(partials, "copies", plan.beam_part)
    extended = layout.candidates(partials, "extended", plan.class_part, width)
    merged = layout.candidates(partials, "merged", plan.beam_part, width)
    candidates = layout.candidates(partials, "candidates", plan.beam_part, n_classes)
    sorts = []
    for number, stage in enumerate(plan.stages):
        group, rank = np.divmod(np.arange(stage.groups * stage.ranks), stage.ranks)
        part, name = stage.part(group, rank), f"sort{number}"
        sorts.append(
            SortVariables(
                layout.variable("int32", f"{name}Numbers", part, width, 2),
                layout.variable(partials, f"{name}Logs", part, width, 3),
                layout.candidates(partials, f"{name}Results", plan.result_part(stage)),
            )
        )
    ranked = [tensor for sort in sorts for tensor in (sort.numbers, sort.logs)]
    tensors = (*copies, *extended, *candidates, *ranked)
    fill_together(builder, [(tensor, 0) for tensor in tensors], "fillCandidates")
    return copies, extended, merged, candidates, sorts


def _outputs(builder: Builder, step: BeamStep, n_paths: int) -> tuple[Tensor, Tensor]:
    """Return the lengths and classes of the first beams."""
    layout, shape = step.layout, step.layout.plan.shape
    part, path = layout.plan.beam_part[:n_paths], np.arange(n_paths)
    lengths = layout.variable("int32", "labelLengths", part)
    labels = layout.variable("int32", "decodedLabels", part, shape.n_steps)
    names = ("addends", "parents", "lengths")
    fields = {
        **{name: step.of_part(name, part) for name in names},
        "n_steps": step.of_part("steps", part),
        "length": layout.seen(lengths, path, 1),
        "label": layout.seen(labels, path * shape.n_steps, shape.n_steps),
    }
    scalars = {"beam": np.tile(path, shape.n_batch), "width": shape.width}
    compute_set = builder.compute_set("output")
    builder.vertices(compute_set, GENERATE_OUTPUT, layout.tiles(part), fields, scalars)
    return lengths, labels
