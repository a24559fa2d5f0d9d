"""The program as a graph of operations, grouped by their names and opened level by level."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from tilescope.analyser.cache import cached
from tilescope.analyser.diff import operation_pairs
from tilescope.analyser.graph.folded_layout import Fold, FoldedLayout, fold
from tilescope.analyser.graph.layered_layout import lay_out
from tilescope.analyser.program.dataflow import Dataflow, operation_flows
from tilescope.analyser.program.operations import (
    Layer,
    Operation,
    Operations,
    numbers_of_steps,
    operations,
)
from tilescope.reports.schema.vocabulary import TRAINING_PASSES

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = [
    "Figures",
    "GraphBox",
    "GraphEdge",
    "GraphSide",
    "OpenGroup",
    "OperationGraph",
    "graph_side",
    "operation_graph",
]

#: Boxes up to which groups are opened by themselves.
_COMFORTABLE = 60
#: Boxes up to which groups are opened at all.
_MOST_BOXES = 400
#: Members of a group above which it is cut into stretches of the program, and those of a stretch.
_MOST_MEMBERS, _STRETCH = 60, 12
#: Stretches of a group.
_MOST_STRETCHES = 30
#: Levels of names; what follows is one.
_MOST_LEVELS = 24


@dataclass(frozen=True)
class Figures:
    """What operations cost in one report.

    Attributes
    ----------
    cycles
        As `Operation.cycles`.
    code_bytes
        Control and exchange code over all tiles.
    memory_bytes
        Variables and message buffers over all tiles, whether they live always or not.
    """

    cycles: int
    code_bytes: int
    memory_bytes: int


@dataclass(frozen=True)
class GraphBox:
    """An operation, or a closed group of operations.

    Attributes
    ----------
    key
        Of an operation that in `Operations.by_key`, in a comparison of the pair; of a group its
        path, which ends in a slash.
    label, place, around
        Name inside the innermost open group; names and paths of the open groups around.
    operation
        Kind of an operation; empty for a group.
    baseline, candidate
        Sums over its operations; None where a report has none of them.
    training_pass
        Key of the pass of a training step that all its operations belong to, ``mixed`` for several
        passes; empty for none.
    x, row
        Centre in box widths from the left, and row from the top of its column.
    """

    key: str
    label: str
    place: str
    around: tuple[str, ...]
    is_group: bool
    operation: str
    n_operations: int
    baseline: Figures | None
    candidate: Figures | None
    training_pass: str
    x: float
    row: int


@dataclass(frozen=True)
class GraphEdge:
    """What one box reads of what another computed.

    Attributes
    ----------
    source, target
        Numbers of the boxes.
    baseline_bytes, candidate_bytes
        Bytes of one execution; None where a report has no such flow.
    is_backward
        Whether all that flows leads to earlier operations, from one round or run to the next. A
        line whose source is below its target without that links parts of groups, or operations that
        two reports run in another order.
    route, folds
        Places where its line crosses rows between the boxes, x and row; and where it leads from one
        column of rows to the next.
    """

    source: int
    target: int
    baseline_bytes: int | None
    candidate_bytes: int | None
    is_backward: bool
    route: tuple[tuple[float, int], ...]
    folds: tuple[Fold, ...]


@dataclass(frozen=True)
class OpenGroup:
    """A group whose members are shown; ``label`` is its name inside the group around it."""

    key: str
    label: str


@dataclass(frozen=True)
class OperationGraph:
    """The visible part of the graph.

    Attributes
    ----------
    is_recorded
        By report, whether it states the flows between steps.
    boxes
        In program order.
    width, n_rows
        Of the drawing, in box widths and rows.
    chosen
        Number of the box that is or contains the chosen operation; None without one.
    n_left_out, left_out_cycles
        Steps without flows, such as exchanges, which the graph of steps leaves out, in the
        baseline.
    is_full
        Whether a group stays closed because too many boxes would be visible.
    """

    is_recorded: tuple[bool, ...]
    boxes: tuple[GraphBox, ...]
    edges: tuple[GraphEdge, ...]
    open_groups: tuple[OpenGroup, ...]
    width: float
    n_rows: int
    chosen: int | None
    n_left_out: int
    left_out_cycles: int
    is_full: bool


@dataclass(frozen=True, eq=False)
class GraphSide:
    """The operations and flows of one report.

    Attributes
    ----------
    listed
        The operations of a layer.
    flows
        Flows between them.
    first_step
        First step of every operation that has one, by number.
    """

    listed: Operations
    flows: Dataflow
    first_step: Mapping[int, int]

    def has_place(self, operation: Operation) -> bool:
        """Return whether an operation is shown: it has steps or memory; of steps, those linked."""
        if self.listed.layer == "step":
            return operation.number in self._linked
        return bool(operation.n_steps or _memory(operation))

    def arranged(self, sides: Sequence[GraphSide]) -> tuple[list[_Item], _Tree]:
        """Return the operations of some sides, of which this is the first, and their groups."""
        layout = self._arranged.get(sides[-1])
        if layout is None:
            items = _ordered_items(sides)
            layout = self._arranged[sides[-1]] = items, _Tree(items)
        return layout

    @cached_property
    def _arranged(self) -> WeakKeyDictionary[GraphSide, tuple[list[_Item], _Tree]]:
        return WeakKeyDictionary()

    @cached_property
    def _linked(self) -> frozenset[int]:
        """The numbers of operations with flows."""
        return frozenset(end for pair in self.flows.n_bytes for end in pair)


@cached
def graph_side(report: Report, layer: Layer) -> GraphSide:
    """Return the operations of a layer with the flows between them."""
    numbers, first = np.unique(numbers_of_steps(report, layer), return_index=True)
    return GraphSide(
        operations(report, layer),
        operation_flows(report, layer),
        dict(zip(numbers.tolist(), first.tolist(), strict=True)),
    )


@dataclass(frozen=True)
class _Item:
    """An operation of one report, or the pair of two."""

    key: str
    name: str
    sides: tuple[Operation | None, ...]

    @property
    def known(self) -> Operation:
        """The operation of the first report that has it."""
        return next(side for side in self.sides if side is not None)


@dataclass
class _Group:
    """Operations whose names begin alike, or that follow each other in a large group."""

    key: str
    label: str
    members: list[_Group | int] = field(default_factory=list)
    items: list[int] = field(default_factory=list)
    inner: dict[str, _Group] = field(default_factory=dict)


#: A group, or the number of an item.
_Member = _Group | int


def operation_graph(
    sides: Sequence[GraphSide],
    *,
    toggled: Collection[str] = (),
    depth: int = 0,
    chosen: str = "",
) -> OperationGraph:
    """Return the graph of one report, or of two with their operations aligned.

    Parameters
    ----------
    sides
        The baseline, and the candidate if there is one, in the same layer.
    toggled
        Paths of groups that are open instead of closed, or closed instead of open.
    depth
        Levels that are open; 0 for as many as leave few boxes.
    chosen
        Key of an operation.
    """
    items, tree = sides[0].arranged(sides)
    visible, opened, is_full = tree.visible(frozenset(toggled), depth)
    box_of = {item: number for number, (member, _) in enumerate(visible) for item in _items(member)}
    sums = [_summed(side, items, number, box_of) for number, side in enumerate(sides)]
    edges = sorted(set().union(*(flows.n_bytes for flows in sums)))
    layout = fold(lay_out(len(visible), edges))
    boxes = tuple(
        _box(items, tree, member, around, layout, number)
        for number, (member, around) in enumerate(visible)
    )
    selected_item = next((number for number, item in enumerate(items) if item.key == chosen), None)
    kept_numbers = {item.sides[0].number for item in items if item.sides[0] is not None}
    left = [flows for flows in sides[0].listed.operations if flows.number not in kept_numbers]
    return OperationGraph(
        tuple(side.flows.is_recorded for side in sides),
        boxes,
        tuple(_edge(edge, sums, layout) for edge in edges),
        tuple(OpenGroup(group.key, group.label) for group in opened),
        layout.width,
        layout.n_rows,
        None if selected_item is None else box_of[selected_item],
        len(left),
        sum(flows.cycles for flows in left),
        is_full,
    )


def _ordered_items(sides: Sequence[GraphSide]) -> list[_Item]:
    """Return the shown operations in program order; those of the candidate follow what they do."""
    baseline = sides[0]
    if len(sides) == 1:
        items = [
            _Item(key, operation.name, (operation,))
            for key, operation in baseline.listed.by_key.items()
        ]
    else:
        pairs = operation_pairs(baseline.listed, sides[1].listed)
        items = [
            _Item(pair.key, pair.known.name, (pair.baseline, pair.candidate)) for pair in pairs
        ]
    visible = [
        item
        for item in items
        if any(
            operation is not None and side.has_place(operation)
            for operation, side in zip(item.sides, sides, strict=True)
        )
    ]
    placed_items = [item for item in visible if item.sides[0] is not None]
    placed_items.sort(key=_order(sides, 0))
    if len(sides) == 1:
        return placed_items
    # What only the candidate has follows what precedes it there.
    candidate_items = [item for item in visible if item.sides[1] is not None]
    candidate_items.sort(key=_order(sides, 1))
    after: dict[str, list[_Item]] = {}
    before = ""
    for item in candidate_items:
        if item.sides[0] is None:
            after.setdefault(before, []).append(item)
        else:
            before = item.key
    ordered = after.get("", [])
    for item in placed_items:
        ordered += [item, *after.get(item.key, ())]
    return ordered


def _order(sides: Sequence[GraphSide], number: int) -> Callable[[_Item], tuple[int, int]]:
    """Return the key by which items stand in the order of a report's program."""
    first, last = sides[number].first_step, len(sides[number].first_step)
    last_position = max(first.values(), default=0) + last

    def key(item: _Item) -> tuple[int, int]:
        operation = item.sides[number]
        assert operation is not None
        return first.get(operation.number, last_position), operation.number

    return key


class _Tree:
    """The groups around the items; ``labels`` are the names of items inside their groups."""

    def __init__(self, items: Sequence[_Item]) -> None:
        self.labels: dict[int, str] = {}
        self.root = _Group("", "")
        for number, item in enumerate(items):
            *around, last_level = item.name.strip("/").split("/", _MOST_LEVELS)
            group = self.root
            group.items.append(number)
            for name in around:
                inner = group.inner.get(name)
                if inner is None:
                    inner = group.inner[name] = _Group(f"{group.key}{name}/", name)
                    group.members.append(inner)
                inner.items.append(number)
                group = inner
            group.members.append(number)
            self.labels[number] = last_level + item.key[len(item.name) :]
        self._simplify(self.root)

    def _simplify(self, group: _Group) -> None:
        """Join groups of one member with it, and cut large ones into stretches."""
        group.members = [self._joined(member) for member in group.members]
        if len(group.members) > _MOST_MEMBERS:
            group.members = self._stretches(group)

    def _joined(self, member: _Member) -> _Member:
        while isinstance(member, _Group) and len(member.members) == 1:
            (only,) = member.members
            if isinstance(only, _Group):
                only.label = f"{member.label}/{only.label}"
            else:
                self.labels[only] = f"{member.label}/{self.labels[only]}"
            member = only
        if isinstance(member, _Group):
            self._simplify(member)
        return member

    def _stretches(self, group: _Group) -> list[_Member]:
        """Return the members of a group as groups of those that follow each other."""
        members, n = group.members, len(group.members)
        n_stretches = min(_MOST_STRETCHES, -(-n // _STRETCH))
        results: list[_Member] = []
        for number in range(n_stretches):
            part = members[number * n // n_stretches : (number + 1) * n // n_stretches]
            first, last = (self.label(element).split("/")[0] for element in (part[0], part[-1]))
            label = f"{first} … {last}"
            stretch = _Group(f"{group.key}~{number + 1}/", label, part)
            stretch.items = [item for member in part for item in _items(member)]
            if len(part) > _MOST_MEMBERS:
                stretch.members = self._stretches(stretch)
            results.append(stretch)
        return results

    def label(self, member: _Member) -> str:
        """Return the name of a member inside its group."""
        return member.label if isinstance(member, _Group) else self.labels[member]

    def visible(
        self, toggled: frozenset[str], depth: int
    ) -> tuple[list[tuple[_Member, tuple[_Group, ...]]], list[_Group], bool]:
        """Return what is visible, with the open groups around it; these; whether room lacked."""
        visible_members: list[tuple[_Member, tuple[_Group, ...]]] = [
            (member, ()) for member in self.root.members
        ]
        all_open: list[_Group] = []
        is_full, is_automatic, level = False, depth == 0, 0
        while True:
            closed = [
                member
                for member, around in visible_members
                if isinstance(member, _Group) and len(around) == level
            ]
            if not closed:
                break
            n_after = len(visible_members) + sum(len(member.members) - 1 for member in closed)
            is_automatic = is_automatic and n_after <= _COMFORTABLE
            is_open = is_automatic or level < depth - 1
            chosen = {member.key for member in closed if is_open != (member.key in toggled)}
            n_boxes, opened = len(visible_members), set()
            for member in closed:
                if member.key in chosen and n_boxes + len(member.members) - 1 <= _MOST_BOXES:
                    n_boxes += len(member.members) - 1
                    opened.add(member.key)
            is_full = is_full or opened != chosen
            all_open += [member for member in closed if member.key in opened]
            visible_members = [
                part
                for member, around in visible_members
                for part in _parts(member, around, opened, level)
            ]
            level += 1
        visible_members.sort(key=lambda part: next(_items(part[0])))
        return visible_members, all_open, is_full


def _parts(
    member: _Member, around: tuple[_Group, ...], opened: Collection[str], level: int
) -> list[tuple[_Member, tuple[_Group, ...]]]:
    """Return a member as it is shown: its own members where it is opened on a level."""
    if isinstance(member, _Group) and len(around) == level and member.key in opened:
        return [(nested, (*around, member)) for nested in member.members]
    return [(member, around)]


def _items(member: _Member) -> Iterator[int]:
    """Return the items of a member."""
    return iter(member.items) if isinstance(member, _Group) else iter((member,))


@dataclass(frozen=True)
class _Sums:
    """Bytes between boxes in one report, and pairs with a flow to a later part of its program."""

    n_bytes: Mapping[tuple[int, int], int]
    forward: Collection[tuple[int, int]]


def _summed(
    side: GraphSide, items: Sequence[_Item], number: int, box_of: Mapping[int, int]
) -> _Sums:
    """Return the sums of the flows of a report between boxes."""
    box: dict[int, int] = {}
    for index, item in enumerate(items):
        operation = item.sides[number]
        if operation is not None:
            box[operation.number] = box_of[index]
    bytes_by_edge: dict[tuple[int, int], int] = {}
    forward = set()
    for (first, second), size in side.flows.n_bytes.items():
        edge = box.get(first, -1), box.get(second, -1)
        if edge[0] != edge[1] and min(edge) >= 0:
            bytes_by_edge[edge] = bytes_by_edge.get(edge, 0) + size
            if side.first_step[first] < side.first_step[second]:
                forward.add(edge)
    return _Sums(bytes_by_edge, forward)


def _memory(operation: Operation) -> int:
    return operation.always_live_bytes + operation.temporary_bytes


def _box(
    items: Sequence[_Item],
    tree: _Tree,
    member: _Member,
    around: Sequence[_Group],
    layout: FoldedLayout,
    number: int,
) -> GraphBox:
    box_items = [items[item] for item in _items(member)]
    sides = [
        [item.sides[side] for item in box_items] if side < len(box_items[0].sides) else []
        for side in (0, 1)
    ]
    baseline, candidate = (
        _figures([operation for operation in side if operation is not None]) for side in sides
    )
    is_group = isinstance(member, _Group)
    return GraphBox(
        member.key if isinstance(member, _Group) else box_items[0].key,
        tree.label(member),
        " / ".join(group.label for group in around),
        tuple(group.key for group in around),
        is_group,
        "" if is_group else box_items[0].known.operation,
        len(box_items),
        baseline,
        candidate,
        _pass([item.known.training_pass for item in box_items]),
        layout.x[number],
        layout.row[number],
    )


def _pass(names: Sequence[str | None]) -> str:
    """Return the key of the pass of all names, ``mixed`` for several, empty for none."""
    known = {name for name in names if name}
    if len(known) > 1:
        return "mixed"
    return TRAINING_PASSES[known.pop()].key if known else ""


def _figures(operations_: Sequence[Operation]) -> Figures | None:
    """Return the sums over operations; None without any."""
    if not operations_:
        return None
    return Figures(
        sum(operation.cycles for operation in operations_),
        sum(operation.code_bytes for operation in operations_),
        sum(_memory(operation) for operation in operations_),
    )


def _edge(edge: tuple[int, int], sums: Sequence[_Sums], layout: FoldedLayout) -> GraphEdge:
    source, target = edge
    return GraphEdge(
        source,
        target,
        sums[0].n_bytes.get(edge),
        sums[1].n_bytes.get(edge) if len(sums) > 1 else None,
        not any(edge in flows.forward for flows in sums),
        layout.routes.get(edge, ()),
        layout.folds.get(edge, ()),
    )
