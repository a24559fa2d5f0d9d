"""Collectives between replicas: every replica has a tensor, and gets what all of them make of it.

Parts of the tensors travel around a ring of replicas. To reduce and scatter, a replica adds its own
part to what it receives and passes the sum on; to gather, it keeps what it receives and passes it
on. A sum over all replicas does one after the other.
Source: graphcore/poplibs sdk-release-1.4, lib/popops/ReplicatedCollectives.cpp: methods, the order
of sums, and slices of parts by a number that every step changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TypeGuard

import numpy as np

from tilescope.engine.codelets.gcl.ring_index import RING_INDEX, RING_STEP
from tilescope.engine.codelets.popops.elementwise.copy import COPY
from tilescope.engine.codelets.popops.slicing.dynamic_update import DYNAMIC_UPDATE
from tilescope.engine.codelets.popops.slicing.multi_slice import DYNAMIC_SLICE
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import BOOL, Regions, Tensor, View
from tilescope.engine.graph import unchecked_blocks as blocks
from tilescope.engine.graph.vertex.codelet import Codelet
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder, refuse_float8
from tilescope.engine.library.comm_group import EVERY_REPLICA, CommGroup
from tilescope.engine.library.gcl.rings import METHODS, OPERATORS, Ring, method_of
from tilescope.engine.library.gcl.shards import (
    Buffers,
    Shards,
    copy_back,
    forget,
    local_shards,
    shards_by_rows,
)
from tilescope.engine.library.popops.elementwise.fill import fill
from tilescope.engine.library.popops.elementwise.in_place import binary_in_place, unary_in_place
from tilescope.engine.library.popops.elementwise.map import map_in_place, operand
from tilescope.engine.library.popops.elementwise.operations import (
    cast,
    copy_to,
    row_major_copy,
)
from tilescope.engine.machine import Machine
from tilescope.engine.program import CrossReplicaCopy, Repeat
from tilescope.engine.program import Sequence as Programs

__all__ = [
    "all_gather_cross_replica",
    "all_reduce_cross_replica",
    "all_reduce_in_place_cross_replica",
    "all_to_all_cross_replica",
    "broadcast_cross_replica",
    "reduce_scatter_cross_replica",
]


@dataclass(frozen=True)
class _Lane:
    """A direction in which parts travel.

    Parameters
    ----------
    direction
        1 to the next member of the ring, -1 to the one before.
    n_steps
        How far a part travels.
    half
        Which half of every part travels in it; 0 if it is all of them.
    """

    direction: int
    n_steps: int
    half: int = 0


def _lanes(method: str, size: int) -> tuple[_Lane, ...]:
    """Return the lanes of a method, those with most steps first."""
    far, near = size // 2, size - 1 - size // 2
    by_method: dict[str, tuple[_Lane, ...]] = {
        "clockwise_ring": (_Lane(1, size - 1),),
        "anticlockwise_ring": (_Lane(-1, size - 1),),
        "bidirectional_ring_pair": (_Lane(1, size - 1), _Lane(-1, size - 1, 1)),
        "meet_in_middle_ring": (_Lane(1, far), _Lane(-1, near)) if near else (_Lane(1, far),),
    }
    return by_method[method]


class _Ring:
    """Parts that travel around the ring of every group.

    Parameters
    ----------
    builder
        Takes the programs.
    ring
        The replicas.
    shards
        A part per member of a group.
    lanes
        How they travel, those with most steps first.

    Attributes
    ----------
    n_halves
        Equal groups of columns that lanes carry; the first lanes, one for each, have the results.
    """

    def __init__(
        self, builder: Builder, ring: Ring, shards: Shards, lanes: Sequence[_Lane]
    ) -> None:
        self.builder, self.ring, self.shards, self.lanes = builder, ring, shards, lanes
        self.n_halves = 1 + max(lane.half for lane in lanes)
        graph, n_lanes, tiles = builder.graph, len(lanes), shards.tile.astype(np.int32)
        self.send = Buffers.of(builder, shards, "send", n_lanes, self.n_halves)
        self.receive = Buffers.of(builder, shards, "receive", n_lanes, self.n_halves)
        self._replica = graph.add_replica_index("replica", 1, builder.debug)
        self._replica.variable.set_mapping(np.zeros(1, np.int64), tiles[:1])
        shape = n_lanes, tiles.size
        self._index = graph.add_variable("int32", shape, "index", builder.debug)
        places = np.arange(n_lanes * tiles.size, dtype=np.int64)
        self._index.variable.set_mapping(places, np.tile(tiles, n_lanes))

    def repeat(self, count: int, add: Callable[[_Ring], None]) -> None:
        """Add programs that run several times."""
        debug = self.builder.debug
        if count == 1:
            add(self)
        elif count:
            body = Programs("step", debug=debug)
            inside = object.__new__(_Ring)
            inside.__dict__ = {**vars(self), "builder": replace(self.builder, sequence=body)}
            add(inside)
            self.builder.sequence.add(Repeat(count, body, "steps", debug=debug))

    def begin(self, distances: Sequence[int]) -> None:
        """Set the part of every lane: that of the member some places farther around the ring."""
        compute_set, n = self.builder.compute_set("index"), self.shards.tile.size
        for lane, distance in enumerate(distances):
            fields = {
                "replica": blocks(self._replica.variable, 0, [1], [1], n),
                "out": self._indices(lane),
            }
            scalars = {"stride": self.ring.stride, **self._along(distance)}
            self.builder.vertices(compute_set, RING_INDEX, self.shards.tile, fields, scalars)

    def step(self, n_lanes: int) -> None:
        """Let lanes go to the part of the member from which they receive."""
        compute_set = self.builder.compute_set("next")
        for lane, facts in enumerate(self.lanes[:n_lanes]):
            fields, scalars = {"index": self._indices(lane)}, self._along(-facts.direction)
            self.builder.vertices(compute_set, RING_STEP, self.shards.tile, fields, scalars)

    def _along(self, distance: int) -> dict[str, int]:
        size = self.ring.size
        is_interleaved = int(self.ring.is_interleaved)
        return {"size": size, "is_interleaved": is_interleaved, "distance": distance % size}

    def _indices(self, lane: int) -> Regions:
        n = self.shards.tile.size
        return blocks(self._index.variable, lane * n + np.arange(n), [1], [1], n)

    def take(self, n_lanes: int) -> None:
        """Copy the part of every lane to what is sent."""
        self._move("take", DYNAMIC_SLICE, self.send, n_lanes)

    def put(self, n_lanes: int, buffers: Buffers) -> None:
        """Copy buffers to the part of every lane."""
        self._move("put", DYNAMIC_UPDATE, buffers, n_lanes)

    def _move(self, name: str, codelet: Codelet, buffers: Buffers, n_lanes: int) -> None:
        """Add vertices for lanes, one lane after the other where they write to the same columns."""
        compute_set = self.builder.compute_set(name)
        for lane, facts in enumerate(self.lanes[:n_lanes]):
            if lane and codelet is DYNAMIC_UPDATE and self.n_halves == 1:
                compute_set = self.builder.compute_set(name)
            fields = {
                "base": self.shards.columns(facts.half, self.n_halves),
                "offset": self._indices(lane),
                "sub": buffers.rows(lane),
            }
            self.builder.vertices(compute_set, codelet, self.shards.tile, fields)

    def put_whole(self, sub: Regions, shards: Shards, lane: int = 0) -> None:
        """Copy a whole part, a row per tile, to the part of a lane."""
        fields = {"base": shards.columns(0, 1), "offset": self._indices(lane), "sub": sub}
        compute_set = self.builder.compute_set("put")
        self.builder.vertices(compute_set, DYNAMIC_UPDATE, shards.tile, fields)

    def result(self) -> Tensor:
        """Return the part that the first lanes hold, in the order of its columns."""
        if self.n_halves == 1:
            return self.send.lanes(1).flatten()
        builder, n = self.builder, self.shards.tile.size
        n_columns = int(self.shards.length.sum())
        out = builder.graph.add_variable(
            self.send.tensor.dtype, (n_columns,), "share", builder.debug
        )
        begins = np.cumsum(self.shards.length) - self.shards.length
        out.variable.set_mapping(begins, self.shards.tile.astype(np.int32))
        compute_set, half = builder.compute_set("share"), self.shards.length // 2
        for lane in range(2):
            start = lane * n_columns // 2 + begins // 2
            fields = {
                "x": blocks(self.send.tensor.variable, start, [half], [1], n),
                "out": blocks(out.variable, begins + lane * half, [half], [1], n),
            }
            builder.vertices(compute_set, COPY, self.shards.tile, fields)
        return out

    def exchange(self, n_lanes: int, distance: int = 1) -> None:
        """Send what lanes hold some places along them, and receive what others sent."""

        def sources(lane: _Lane) -> tuple[int, ...]:
            return self.ring.by_place(lambda place: place - distance * lane.direction)

        copy = CrossReplicaCopy(
            self.send.lanes(n_lanes),
            self.receive.lanes(n_lanes),
            [sources(lane) for lane in self.lanes[:n_lanes]],
            "exchange",
            debug=self.builder.debug,
        )
        self.builder.sequence.add(copy)

    def reduce(self, function: str, n_lanes: int) -> None:
        """Combine what lanes hold with what they received."""
        sent, received = self.send.lanes(n_lanes), self.receive.lanes(n_lanes)
        binary_in_place(self.builder, function, sent, received)


def _reduce_scatter(travel: _Ring, function: str) -> None:
    """Add programs that leave, in the first lanes, a replica's own part of all of them.

    Where lanes travel in both directions with whole parts, their sums meet: the second lane does
    not add the replica's own part at its last step. Lanes end at the replica's own part.
    """
    lanes = travel.lanes

    def pass_on(here: _Ring, n_lanes: int) -> None:
        here.exchange(n_lanes)
        here.step(n_lanes)
        here.take(n_lanes)
        here.reduce(function, n_lanes)

    travel.begin([lane.direction * lane.n_steps for lane in lanes])
    travel.take(len(lanes))
    if travel.n_halves == len(lanes):
        travel.repeat(lanes[0].n_steps, lambda here: pass_on(here, len(lanes)))
        return
    travel.repeat(lanes[1].n_steps - 1, lambda here: pass_on(here, 2))
    travel.exchange(2)
    kept = Buffers.of(travel.builder, travel.shards, "met", 1, 1)
    copy_to(travel.builder, travel.receive.tensor.slice(0, 1, 2), kept.tensor, "met")
    travel.step(2)
    travel.take(1)
    travel.reduce(function, 1)
    travel.repeat(lanes[0].n_steps - lanes[1].n_steps, lambda here: pass_on(here, 1))
    binary_in_place(travel.builder, function, travel.send.lanes(1), kept.tensor)


def _all_gather(travel: _Ring) -> None:
    """Add programs that bring the parts of all replicas to each; lanes are at its own one."""
    lanes = travel.lanes

    def pass_on(here: _Ring, n_lanes: int) -> None:
        here.take(n_lanes)
        here.exchange(n_lanes)
        here.step(n_lanes)
        here.put(n_lanes, here.receive)

    travel.repeat(lanes[-1].n_steps, lambda here: pass_on(here, len(lanes)))
    travel.repeat(lanes[0].n_steps - lanes[-1].n_steps, lambda here: pass_on(here, 1))


def _detail(x: View, operation: str, ring: Ring, method: str) -> dict[str, object]:
    return {
        "shape": list(x.shape),
        "operator": operation,
        "replicas": ring.size,
        "stride": ring.stride,
        "method": method,
    }


def _checked_method(
    subject: str, method: str, machine: Machine, ring: Ring, n_bytes: int, *, is_gather: bool
) -> str:
    """Return how parts travel: as asked, or best; see `method_of`.

    Raises
    ------
    BadGraph
        When the method does not exist.
    """
    if method == "auto":
        return method_of(machine, ring, n_bytes, is_gather=is_gather)
    if method not in METHODS:
        raise BadGraph(f"{subject}: method is {method!r}; choose auto, {', '.join(METHODS)}")
    return method


def _checked_operator(subject: str, operation: str, x: View) -> str:
    """Return the function of two elements.

    Raises
    ------
    BadGraph
        When the operator is unknown, or does not support the type.
    """
    if operation not in OPERATORS:
        raise BadGraph(f"{subject}: operator is {operation!r}; choose {', '.join(OPERATORS)}")
    is_logical = operation.startswith("logical")
    if is_logical != (x.dtype == BOOL):
        what = "bool" if is_logical else "numbers"
        raise BadGraph(f"{subject}: {operation} is for {what}, and {x.name!r} is {x.dtype}")
    if operation == "mean" and not x.dtype.is_float:
        raise BadGraph(f"{subject}: the mean of {x.name!r} needs a floating-point type")
    return OPERATORS[operation]


def _grain(*methods: str) -> int:
    """Return what the elements of a part on a tile are a multiple of."""
    return 2 if "bidirectional_ring_pair" in methods else 1


@checked
def all_reduce_in_place_cross_replica(
    builder: Builder,
    xs: View | Sequence[View],
    operation: str = "add",
    group: CommGroup = EVERY_REPLICA,
    method: str = "auto",
) -> None:
    """Replace tensors by the sum, or another function, of those of all replicas.

    Parameters
    ----------
    builder
        Target of the program.
    xs
        A view without aliased elements, or several of one type: they travel together.
    operation
        A key of `OPERATORS`; the logical ones are for bools.
    group
        Replicas that take part.
    method
        A key of `METHODS`, or ``auto``.

    Raises
    ------
    BadGraph
        If the operator does not support the type, types differ, or the groups do not divide the
        replicas.
    """
    subject = "all_reduce_cross_replica"
    views: list[View] = [xs] if isinstance(xs, View) else [*xs]
    x = views[0]
    for other in views:
        refuse_float8(subject, other)
        if other.dtype != x.dtype:
            raise BadGraph(
                f"{subject}: {x.name!r} is {x.dtype} and {other.name!r} {other.dtype}: tensors that"
                " travel together have one type"
            )
    function, ring = _checked_operator(subject, operation, x), Ring.of(builder.graph.machine, group)
    machine, n_bytes = builder.graph.machine, sum(v.n_elements for v in views) * x.dtype.n_bytes
    scatter = _checked_method(subject, method, machine, ring, n_bytes, is_gather=False)
    part_bytes = -(-n_bytes // ring.size)
    gather = _checked_method(subject, method, machine, ring, part_bytes, is_gather=True)
    detail = _detail(x, operation, ring, scatter)
    if len(views) > 1:
        detail |= {"shapes": [list(view.shape) for view in views]}
    build = builder.inside("allReduce", "gcl.allReduceCrossReplica", detail)
    whole = [_whole(build, view) for view in views]
    variables = [tensor.variable for tensor in whole]
    shards = local_shards(build, variables, ring.size, _grain(scatter, gather))
    if operation == "square_add":
        everything = Tensor(shards.variable, 0, (((shards.variable.n_elements, 1),),))
        unary_in_place(build, "square", everything)
    if ring.size > 1:
        travel = _Ring(build, ring, shards, _lanes(scatter, ring.size))
        _reduce_scatter(travel, function)
        if operation == "mean":
            results = travel.send.lanes(travel.n_halves)
            map_in_place(build, operand(0) * (1 / ring.size), [results])
        travel.put(travel.n_halves, travel.send)
        if gather != scatter:
            travel = _Ring(build, ring, shards, _lanes(gather, ring.size))
            travel.begin([0] * len(travel.lanes))
        _all_gather(travel)
    copy_back(build, shards, variables)
    for view, tensor in zip(views, whole, strict=True):
        if view.dtype == BOOL:
            copy_to(build, cast(build, tensor, BOOL), view, "back")
        elif tensor is not view:
            copy_to(build, tensor, view, "back")


def _whole(builder: Builder, x: View) -> Tensor:
    """Return a tensor, or its copy, that is all of a variable; of bools, as numbers."""
    if x.dtype == BOOL:
        return cast(builder, x, "int32")
    if _is_whole(x):
        return x
    copy = builder.graph.clone(x, "all", debug=builder.debug)
    if not _is_whole(copy):
        return row_major_copy(builder, x, "all")
    copy_to(builder, x, copy, "all")
    return copy


def _is_whole(x: View) -> TypeGuard[Tensor]:
    """Return whether a view shows all elements of one variable, in any order."""
    if not isinstance(x, Tensor) or x.n_elements != x.variable.n_elements:
        return False
    return all(stride for size, stride in x.atoms if size > 1)


@checked
def all_reduce_cross_replica(
    builder: Builder,
    x: View,
    operation: str = "add",
    group: CommGroup = EVERY_REPLICA,
    method: str = "auto",
) -> Tensor:
    """Return the sum, or another function, of the tensors of all replicas.

    Parameters
    ----------
    builder, x, operation, group, method
        As for `all_reduce_in_place_cross_replica`; `x` stays as it is.

    Raises
    ------
    BadGraph
        As there.
    """
    out = row_major_copy(builder, x, "reduced")
    all_reduce_in_place_cross_replica(builder, out, operation, group, method)
    return out


@checked
def reduce_scatter_cross_replica(
    builder: Builder,
    x: View,
    operation: str = "add",
    group: CommGroup = EVERY_REPLICA,
    method: str = "auto",
) -> Tensor:
    """Return a replica's share of the sum, or another function, of the tensors of all replicas.

    Parameters
    ----------
    builder, operation, group, method
        As for `all_reduce_in_place_cross_replica`; ``local`` takes the share of the replica's own
        tensor.
    x
        Any layout, n elements.

    Returns
    -------
    Tensor
        Shape (ceil(n / size of the group),): the elements of `x` in their order, those of the
        group's first replica first; padded with zeros.

    Raises
    ------
    BadGraph
        As there.
    """
    subject = "reduce_scatter_cross_replica"
    refuse_float8(subject, x)
    ring, machine = Ring.of(builder.graph.machine, group), builder.graph.machine
    is_local = operation == "local"
    function = "" if is_local else _checked_operator(subject, operation, x)
    n_bytes = x.n_elements * x.dtype.n_bytes
    chosen = _checked_method(subject, method, machine, ring, n_bytes, is_gather=False)
    build = builder.inside(
        "reduceScatter", "gcl.reduceScatterCrossReplica", _detail(x, operation, ring, chosen)
    )
    numbers = cast(build, x, "int32") if x.dtype == BOOL and not is_local else x
    n_each, grain = -(-x.n_elements // ring.size), _grain(chosen)
    n_columns = -(-n_each // grain) * grain
    rows, shards = shards_by_rows(build, numbers.dtype, ring.size, n_columns, grain)
    fill(build, rows, 0)
    _copy_rows(build, _cut(build, numbers, n_each), rows, n_each, is_back=False)
    if operation == "square_add":
        unary_in_place(build, "square", rows)
    travel = _Ring(build, ring, shards, _lanes("clockwise_ring" if is_local else chosen, ring.size))
    if is_local or ring.size == 1:
        travel.begin([0] * len(travel.lanes))
        travel.take(len(travel.lanes))
    else:
        _reduce_scatter(travel, function)
    if operation == "mean":
        map_in_place(build, operand(0) * (1 / ring.size), [travel.send.lanes(travel.n_halves)])
    out = travel.result().slice(0, 0, n_each)
    return cast(build, out, BOOL) if numbers is not x else out


def _cut(builder: Builder, x: View, n_each: int) -> View:
    """Return the elements of a tensor in their order, of which any `n_each` are a view."""
    flat = x.flatten()
    n_whole = flat.n_elements // n_each * n_each
    try:
        if 0 < n_whole < flat.n_elements:
            flat.slice(0, 0, n_whole)
            flat.slice(0, n_whole, flat.n_elements)
    except BadGraph:  # its layout has another order, which does not divide there
        return row_major_copy(builder, x, "cut").flatten()
    return flat


def _copy_rows(builder: Builder, flat: View, rows: Tensor, n_each: int, *, is_back: bool) -> None:
    """Copy the elements of a tensor to rows of as many, or back; the last row may have fewer."""
    n_full, rest = divmod(flat.n_elements, n_each)
    pairs = []
    if n_full:
        whole = rows.slice(0, 0, n_full).slice(1, 0, n_each)
        pairs.append((flat.slice(0, 0, n_full * n_each).reshape(n_full, n_each), whole))
    if rest:
        last = rows.slice(0, n_full, n_full + 1).slice(1, 0, rest).flatten()
        pairs.append((flat.slice(0, n_full * n_each, flat.n_elements), last))
    for number, pair in enumerate(pairs):
        source, target = pair[::-1] if is_back else pair
        copy_to(builder, source, target, f"rows {number}")


@checked
def all_gather_cross_replica(
    builder: Builder, x: View, group: CommGroup = EVERY_REPLICA, method: str = "auto"
) -> Tensor:
    """Return the tensors of all replicas.

    Parameters
    ----------
    builder, group, method
        As for `all_reduce_in_place_cross_replica`.
    x
        Any layout.

    Returns
    -------
    Tensor
        Shape (size of the group, …), like `x`: that of the group's first replica first.

    Raises
    ------
    BadGraph
        If the groups do not divide the replicas.
    """
    subject = "all_gather_cross_replica"
    ring, machine = Ring.of(builder.graph.machine, group), builder.graph.machine
    n_bytes = x.n_elements * x.dtype.n_bytes
    chosen = _checked_method(subject, method, machine, ring, n_bytes, is_gather=True)
    build = builder.inside(
        "allGather", "gcl.allGatherCrossReplica", _detail(x, "gather", ring, chosen)
    )
    grain = _grain(chosen)
    n_columns = -(-x.n_elements // grain) * grain
    rows, shards = shards_by_rows(build, x.dtype, ring.size, n_columns, grain)
    travel = _Ring(build, ring, shards, _lanes(chosen, ring.size))
    travel.begin([0] * len(travel.lanes))
    forget(build, rows)
    own = Buffers.of(build, shards, "own", 1, 1)
    copy_to(build, x.flatten(), own.tensor.flatten().slice(0, 0, x.n_elements), "own")
    travel.put_whole(own.rows(0), shards)
    _all_gather(travel)
    return rows.slice(1, 0, x.n_elements).reshape(ring.size, *x.shape)


@checked
def all_to_all_cross_replica(builder: Builder, x: View, group: CommGroup = EVERY_REPLICA) -> Tensor:
    """Return the rows that all replicas have for this one.

    Every replica sends a row straight to each of the others, which are one place farther around
    the ring with every step.

    Parameters
    ----------
    builder, group
        As for `all_reduce_in_place_cross_replica`.
    x
        Shape (size of the group, …): a row for every replica of the group.

    Returns
    -------
    Tensor
        The same shape: the row of the group's first replica for this one, and so on.

    Raises
    ------
    BadGraph
        If there is not a row for every replica, or the groups do not divide the replicas.

    Notes
    -----
    Source: graphcore/poplibs sdk-release-1.4, allToAllPersonalizedExchange.
    """
    ring = Ring.of(builder.graph.machine, group)
    if not x.shape or x.shape[0] != ring.size:
        raise BadGraph(
            f"all_to_all_cross_replica: {x.name!r} of shape {x.shape} needs a row for each of"
            f" {ring.size} replicas"
        )
    build = builder.inside(
        "allToAll", "gcl.allToAllCrossReplica", _detail(x, "exchange", ring, "direct")
    )
    n_columns = prod(x.shape[1:])
    rows, shards = shards_by_rows(build, x.dtype, ring.size, n_columns, 1)
    out, received = shards_by_rows(build, x.dtype, ring.size, n_columns, 1)
    copy_to(build, x.reshape(ring.size, n_columns), rows, "rows")
    forget(build, out)
    # The first lane goes to the replicas that receive, the second to those that send.
    travel = _Ring(build, ring, shards, (_Lane(-1, 0), _Lane(1, 0)))
    for buffers in (travel.send, travel.receive):
        forget(build, buffers.tensor)  # of which the first lanes travel
    travel.begin([0, 0])
    for distance in range(ring.size):
        if distance:
            travel.step(2)
        travel.take(1)
        if distance:
            travel.exchange(1, -distance)
        moved = travel.receive if distance else travel.send
        travel.put_whole(moved.rows(0), received, 1)
    return out.reshape(*x.shape)


@checked
def broadcast_cross_replica(
    builder: Builder, x: View, root: int = 0, group: CommGroup = EVERY_REPLICA
) -> Tensor:
    """Return the tensor of one replica of every group.

    Parameters
    ----------
    builder, group
        As for `all_reduce_in_place_cross_replica`.
    x
        Any layout.
    root
        Number of the replica in its group.

    Raises
    ------
    BadGraph
        If the group has no such replica, or the groups do not divide the replicas.
    """
    ring = Ring.of(builder.graph.machine, group)
    if not 0 <= root < ring.size:
        raise BadGraph(
            f"broadcast_cross_replica: root is {root}; a group has replicas 0 to {ring.size - 1}"
        )
    build = builder.inside(
        "broadcast", "gcl.broadcastCrossReplica", _detail(x, "broadcast", ring, "direct")
    )
    source = row_major_copy(build, x, "source")
    out = build.graph.clone(source, "out", debug=build.debug)
    place = ring.members.index(root)
    sources = ring.by_place(lambda _: place)
    build.sequence.add(CrossReplicaCopy(source, out, sources, "exchange", debug=build.debug))
    return out
