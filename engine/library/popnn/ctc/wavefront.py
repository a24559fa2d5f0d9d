"""The two loops over the steps of all sequences, from both ends to the middle and back.

In the first one, the parts of the steps up to the middle compute alphas, one step a round, and
those behind it betas, from the last step on. In the second one, the former compute betas and the
latter alphas, and all of them the gradient. Before every round, the last column of a part goes to
the next part of the steps, and its outermost states go to the next part of the label.

Source: graphcore/poplibs sdk-release-3.4, lib/popnn/CTCLoss.cpp.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from tilescope.engine.codelets.popnn.ctc_loss import (
    ALPHA,
    BETA,
    GRADIENT_GIVEN_ALPHA,
    GRADIENT_GIVEN_BETA,
)
from tilescope.engine.graph import DType, Regions, Tensor, View, concat
from tilescope.engine.graph.vertex.codelet import Codelet
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popnn.ctc.layout import Layout
from tilescope.engine.library.popops.elementwise.fill import fill_together
from tilescope.engine.library.popops.elementwise.operations import copy_to, copy_together
from tilescope.engine.program import Repeat
from tilescope.engine.program import Sequence as ProgramSequence

__all__ = ["Alignment", "Wavefront", "run_wavefront"]

Pairs = list[tuple[View, View]]


@dataclass(frozen=True)
class Alignment:
    """What is aligned.

    Parameters
    ----------
    logs
        Logarithms of probabilities, shape (label parts, batch, steps, classes), laid out
        `Layout.by_step`.
    labels, steps, lengths
        int32: classes, shape (batch, longest); steps of every sequence, and lengths of labels.
    blank
        The class of no label.
    partials
        Type of what is computed.
    zero
        The logarithm of no probability.
    """

    logs: Tensor
    labels: View
    steps: View
    lengths: View
    blank: int
    partials: DType
    zero: float


class Wavefront(NamedTuple):
    """What the loops leave: logarithms of probabilities, by part.

    Attributes
    ----------
    ends
        Of the alignments that end in a part: shape (batch, step parts, label parts).
    gradients
        Of the alignments through a class at a step, divided by its own probability: shape (label
        parts, batch, steps, classes).
    """

    ends: Tensor
    gradients: Tensor


class _Edges(NamedTuple):
    """The outermost states of every part: what it leaves, and what it takes of its neighbours.

    Attributes
    ----------
    out
        After its last step.
    label
        Of the neighbour along the label, at the same steps.
    both
        Of the neighbour along label and steps.
    """

    out: Tensor
    label: Tensor
    both: Tensor


class _Fields(NamedTuple):
    """Variables of the loops, of which vertices see parts."""

    label: Tensor
    lengths: Tensor
    steps: Tensor
    counter: Tensor
    columns: Tensor
    before: Tensor
    turns: Tensor
    turns_before: Tensor
    alphas: _Edges
    betas: _Edges


def run_wavefront(builder: Builder, layout: Layout, alignment: Alignment) -> Wavefront:
    """Add the loops."""
    plan, zero = layout.plan, alignment.zero
    fields = _fields(builder, layout, alignment)
    gradients = layout.by_step(alignment.partials, "gradients")
    ends = layout.by_part(alignment.partials, "ends")
    edge = int(plan.step_edges[plan.alpha_parts])
    _fill(builder, fields, [ends, gradients], zero)
    _set_counters(builder, layout, fields.counter, (0, plan.shape.n_steps - 1))
    body = _inside(builder, "alphasAndBetas")
    _copy_pairs(body, [*_columns_to_next(layout, fields), *_edges_to_next(layout, fields)])
    regions = _regions(layout, fields, alignment)
    early = {
        "alphas": layout.columns_of(fields.columns, _rows(layout)),
        "previous_time": layout.column_of(fields.before),
        "loss": layout.part_of(ends),
        **_edge_regions(layout, fields.alphas, 1),
    }
    late = {
        "betas": early["alphas"],
        "previous_time": early["previous_time"],
        **_edge_regions(layout, fields.betas, 2),
    }
    _add_vertices(body, layout, alignment, (ALPHA, BETA), regions, (early, late))
    builder.sequence.add(Repeat(edge, body.sequence, "alphasAndBetas", debug=builder.debug))

    _meet(builder, layout, fields, edge)
    _set_counters(builder, layout, fields.counter, (edge - 1, edge))
    body = _inside(builder, "gradients")
    _copy_pairs(
        body,
        [*_turns_to_next(layout, fields), *_edges_to_next(layout, fields, is_second=True)],
    )
    pairs = np.full(plan.steps, 2, np.int64)
    common = {
        "previous_time": layout.columns_of(fields.turns, pairs),
        "previous_part": layout.columns_of(fields.turns_before, pairs),
        "gradients": layout.rows_of(gradients),
    }
    early = {"alphas": early["alphas"], **common, **_edge_regions(layout, fields.betas, 2)}
    late = {
        "betas": late["betas"],
        **common,
        "loss": layout.part_of(ends),
        **_edge_regions(layout, fields.alphas, 1),
    }
    codelets = (GRADIENT_GIVEN_ALPHA, GRADIENT_GIVEN_BETA)
    _add_vertices(body, layout, alignment, codelets, regions, (early, late))
    builder.sequence.add(Repeat(edge, body.sequence, "gradients", debug=builder.debug))
    return Wavefront(ends, gradients)


def _inside(builder: Builder, name: str) -> Builder:
    """Return a builder of the body of a loop."""
    return replace(builder, sequence=ProgramSequence(name, debug=builder.debug))


def _rows(layout: Layout) -> Any:
    return np.diff(layout.plan.step_edges)


def _fields(builder: Builder, layout: Layout, alignment: Alignment) -> _Fields:
    """Add the variables of the loops; fill those that hold operands."""
    plan, dtype = layout.plan, alignment.partials
    ones = np.ones(plan.steps, np.int64)
    longest_part = int(np.diff(plan.label_edges).max())
    label = layout.by_part("int32", "label", longest_part + 2)
    _copy_labels(builder, layout, _of_one_stride(builder, layout, alignment.labels), label)
    lengths, steps = (layout.by_part("int32", name) for name in ("labelLengths", "dataLengths"))
    for source, target in ((alignment.lengths, lengths), (alignment.steps, steps)):
        wide = source.reshape(plan.shape.n_batch, 1, 1).broadcast_to(target.shape)
        copy_to(builder, wide, target, "broadcastLengths")
    alphas, betas = (
        _Edges(*(layout.by_part(dtype, f"{name}{part}", n) for part in ("Out", "Label", "Both")))
        for name, n in (("alphas", 1), ("betas", 2))
    )
    return _Fields(
        label,
        lengths,
        steps,
        layout.by_part("int32", "counter"),
        layout.by_state(dtype, "alphasAndBetas", _rows(layout)),
        layout.by_state(dtype, "columnsBefore", ones),
        layout.by_state(dtype, "turns", 2 * ones),
        layout.by_state(dtype, "turnsBefore", 2 * ones),
        alphas,
        betas,
    )


def _fill(builder: Builder, fields: _Fields, results: list[Tensor], zero: float) -> None:
    """Fill what vertices see before it is computed with the logarithm of no probability.

    Alignments begin in the first state, before the first step.
    """
    columns = (fields.columns, fields.turns, fields.turns_before)
    tensors: list[View] = [*columns, *fields.alphas, *fields.betas, *results]
    n_columns, n_states = fields.before.shape[1:]
    first = fields.before.slice(1, 0, 1)
    if n_states > 1:
        tensors.append(first.slice(2, 1, n_states))
    if n_columns > 1:
        tensors.append(fields.before.slice(1, 1, n_columns))
    fill_together(
        builder,
        [*((tensor, zero) for tensor in tensors), (first.slice(2, 0, 1), 0.0)],
        "fillStates",
    )


def _of_one_stride(builder: Builder, layout: Layout, labels: View) -> Tensor:
    """Return labels as they are, or a copy by the plan where classes do not follow one stride."""
    if isinstance(labels, Tensor) and len(labels.dims[1]) == 1:
        return labels
    copy = layout.labels("labels")
    copy_to(builder, labels, copy, "labels")
    return copy


def _copy_labels(builder: Builder, layout: Layout, labels: Tensor, target: Tensor) -> None:
    """Copy to every part its classes, with those before and after them.

    Before the first class and after the last one, the same classes stand again.
    """
    plan = layout.plan
    width, longest = int(plan.label_edges[1]), plan.shape.longest
    n_batch, n_steps, n_parts = layout.sizes
    n_whole = longest // width
    first, last = labels.slice(1, 0, 1), labels.slice(1, longest - 1, longest)
    ends = [last] * plan.last_blank_apart
    before, after = [first], []
    if plan.label > 1:
        before.append(labels.slice(1, width - 1, (plan.label - 1) * width).sub_sample(1, width))
        after.append(labels.slice(1, width, longest).sub_sample(1, width))
    sources = {
        (0, 0, n_whole, width): labels.slice(1, 0, n_whole * width),
        (-1, 0, n_parts, 1): concat([*before, *ends], 1),
        (width, 0, n_parts, 1): concat([*after, last, *ends], 1),
    }
    if longest > n_whole * width:
        rest = concat([labels.slice(1, n_whole * width, longest), last], 1)
        sources[0, n_whole, n_whole + 1, rest.shape[1]] = rest
    if plan.last_blank_apart:
        sources[0, n_parts - 1, n_parts, 1] = last
    pairs: Pairs = []
    for (place, begin, end, n), source in sources.items():
        wide = source.reshape(n_batch, 1, end - begin, n)
        to = target.slice(2, begin, end).slice(3, place + 1, place + 1 + n)
        pairs.append((wide.broadcast_to((n_batch, n_steps, end - begin, n)), to))
    copy_together(builder, pairs, "broadcastLabels")


def _set_counters(
    builder: Builder, layout: Layout, counter: Tensor, first: tuple[int, int]
) -> None:
    """Set the step that parts up to the middle begin with, and that of the others."""
    n_early, n_parts = layout.plan.alpha_parts, layout.plan.steps
    targets: list[tuple[View, float]] = [(counter.slice(1, 0, n_early), first[0])]
    if n_early < n_parts:
        targets.append((counter.slice(1, n_early, n_parts), first[1]))
    fill_together(builder, targets, "setCounters")


def _columns_to_next(layout: Layout, fields: _Fields) -> Pairs:
    """Return what the first loop copies along the steps: the last columns of parts."""
    plan, width = layout.plan, int(layout.plan.step_edges[1])
    n_early, n_parts = plan.alpha_parts, plan.steps
    pairs: Pairs = []
    if n_early > 1:
        last = fields.columns.slice(1, width - 1, (n_early - 1) * width).sub_sample(1, width)
        pairs.append((last, fields.before.slice(1, 1, n_early)))
    if n_parts - n_early > 1:
        begin, end = (n_early + 1) * width, (n_parts - 1) * width
        first = fields.columns.slice(1, begin, end + 1).sub_sample(1, width)
        pairs.append((first, fields.before.slice(1, n_early, n_parts - 1)))
    return pairs


def _turns_to_next(layout: Layout, fields: _Fields) -> Pairs:
    """Return what the second loop copies along the steps: both columns of parts."""
    n_early, n_parts = layout.plan.alpha_parts, layout.plan.steps
    pairs: Pairs = []
    if n_early > 1:
        source = fields.turns.slice(1, 2, 2 * n_early)
        pairs.append((source, fields.turns_before.slice(1, 0, 2 * n_early - 2)))
    if n_parts - n_early > 1:
        source = fields.turns.slice(1, 2 * n_early, 2 * n_parts - 2)
        pairs.append((source, fields.turns_before.slice(1, 2 * n_early + 2, 2 * n_parts)))
    return pairs


def _edges_to_next(layout: Layout, fields: _Fields, *, is_second: bool = False) -> Pairs:
    """Return what goes to the next part of the label: alphas down, betas up.

    Parameters
    ----------
    is_second
        Whether it is the loop in which the parts behind the middle compute alphas; the others then
        left what these begin with.
    """
    n_labels, n_parts, n_early = layout.plan.label_tiles, layout.plan.steps, layout.plan.alpha_parts
    alphas = (n_early, n_parts) if is_second else (0, n_early)
    betas = (0, n_early) if is_second else (n_early, n_parts)
    pairs: Pairs = []
    if n_labels == 1:
        return pairs
    for (out, label, both), (begin, end), way in (
        (fields.alphas, alphas, 1),
        (fields.betas, betas, -1),
    ):
        source = (0, n_labels - 1) if way == 1 else (1, n_labels)
        target = (1, n_labels) if way == 1 else (0, n_labels - 1)
        if end > begin:
            steps = out.slice(1, begin, end)
            pairs.append((steps.slice(2, *source), label.slice(1, begin, end).slice(2, *target)))
        first = max(begin - is_second, 0) if way == 1 else begin + 1
        last = end - 1 if way == 1 else min(end + is_second, n_parts)
        if last > first:
            steps = out.slice(1, first, last).slice(2, *source)
            pairs.append((steps, both.slice(1, first + way, last + way).slice(2, *target)))
    return pairs


def _copy_pairs(builder: Builder, pairs: Pairs) -> None:
    """Add the copies before a round, if there are any."""
    if pairs:
        copy_together(builder, pairs, "toNextParts")


def _meet(builder: Builder, layout: Layout, fields: _Fields, edge: int) -> None:
    """Copy the columns beside the middle to the parts that go on from them."""
    n_early, n_parts = layout.plan.alpha_parts, layout.plan.steps
    if n_parts == 1:
        return
    pairs: Pairs = []
    for step, part in ((edge - 1, n_early), (edge, n_early - 1)):
        column = fields.columns.slice(1, step, step + 1)
        target = fields.turns_before.slice(1, 2 * part, 2 * part + 2)
        pairs.append((column.broadcast_to(target.shape), target))
    copy_together(builder, pairs, "meet")


def _regions(layout: Layout, fields: _Fields, alignment: Alignment) -> dict[str, Any]:
    """Return what all vertices see; ``label`` apart, of which they see different classes."""
    n = layout.n_labels + 1
    return {
        "probabilities": layout.rows_of(alignment.logs),
        "valid_label": layout.part_of(fields.lengths),
        "valid_time": layout.part_of(fields.steps),
        "count": layout.part_of(fields.counter),
        "alpha label": layout.part_of(fields.label, 0, n),
        "beta label": layout.part_of(fields.label, 1, n),
    }


def _edge_regions(layout: Layout, edges: _Edges, n: int) -> dict[str, Regions]:
    names = ("label_out", "previous_label", "previous_label_time")
    return {name: layout.part_of(tensor, 0, n) for name, tensor in zip(names, edges, strict=True)}


def _add_vertices(
    builder: Builder,
    layout: Layout,
    alignment: Alignment,
    codelets: tuple[Codelet, Codelet],
    regions: Mapping[str, Regions],
    own: Sequence[Mapping[str, Regions]],
) -> None:
    """Add the vertices of a round: up to the middle, and behind it."""
    compute_set = builder.compute_set("step")
    tile, is_early = layout.tile.reshape(-1), layout.is_early
    for codelet, fields, is_here in zip(codelets, own, (is_early, ~is_early), strict=True):
        if not is_here.any():
            continue
        is_alpha = codelet in (ALPHA, GRADIENT_GIVEN_BETA)
        given = {**regions, **fields, "label": regions["alpha label" if is_alpha else "beta label"]}
        seen = {field.name: _some(given[field.name], is_here) for field in codelet.fields}
        scalars = {name: column[is_here] for name, column in layout.scalars.items()}
        scalars |= {"n_classes": layout.plan.shape.n_classes, "blank": alignment.blank}  # type: ignore[dict-item]
        builder.vertices(
            compute_set, codelet, tile[is_here], seen, {**scalars, "zero": alignment.zero}
        )


def _some(regions: Regions, is_kept: Any) -> Regions:
    """Return the regions of some vertices."""
    return replace(
        regions,
        start=regions.start[is_kept],
        size=regions.size[is_kept],
        stride=regions.stride[is_kept],
    )
