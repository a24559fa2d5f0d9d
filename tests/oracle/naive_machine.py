"""A bulk-synchronous machine in plain Python: every tile has its own memory.

It shares only the graph with the compiled path: owners of elements, reads of vertices and traffic
are computed element by element in loops. A vertex only sees elements that its tile owns or
received.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike
from tests.oracle.naive_codelets import NAIVE
from tests.oracle.naive_schedule import ends_of, sends_of

from tilescope.engine.compiler.executable.executable import Executable, Node, Step
from tilescope.engine.graph import ComputeSet, DType, Graph, Joined, Regions, Variable, View
from tilescope.engine.program import (
    Call,
    Copy,
    Execute,
    If,
    Overlap,
    Program,
    Repeat,
    RepeatWhile,
    WriteUndef,
)
from tilescope.engine.program import Sequence as ProgramSequence

Element = tuple[int, int]
"""A variable and an element of it."""


@dataclass
class Traffic:
    """Bytes and fragments per tile in one exchange, and bytes over links per IPU."""

    sent_bytes: Counter[int] = field(default_factory=Counter)
    received_bytes: Counter[int] = field(default_factory=Counter)
    paired_bytes: Counter[int] = field(default_factory=Counter)
    busy: dict[int, int] = field(default_factory=dict)
    done: dict[int, int] = field(default_factory=dict)
    fragments: Counter[int] = field(default_factory=Counter)
    link_out_bytes: Counter[int] = field(default_factory=Counter)
    link_in_bytes: Counter[int] = field(default_factory=Counter)


def rows_of(regions: Regions, vertex: int) -> range:
    """Return the places of the regions of a vertex."""
    if regions.first is None:
        return range(vertex, vertex + 1)
    return range(int(regions.first[vertex]), int(regions.first[vertex + 1]))


def elements_of(regions: Regions, vertex: int) -> list[Element]:
    """Return the elements of one vertex's region, or regions, in logical order."""
    return [e for row in rows_of(regions, vertex) for e in elements_of_row(regions, row)]


def elements_of_row(regions: Regions, row: int) -> list[Element]:
    """Return the elements of a region in logical order."""
    sizes = [int(s) for s in regions.size[row]]
    strides = [int(s) for s in regions.stride[row]]
    return [
        (
            regions.variable.variable_id,
            int(regions.start[row]) + sum(i * s for i, s in zip(index, strides, strict=True)),
        )
        for index in product(*(range(size) for size in sizes))
    ]


def elements_of_tensor(tensor: View) -> list[Element]:
    """Return the elements of a tensor in logical order."""
    if isinstance(tensor, Joined):
        parts = [
            np.array(elements_of_tensor(part)).reshape(*part.shape, 2) for part in tensor.parts
        ]
        actual = np.concatenate(parts, axis=tensor.dim).reshape(-1, 2)
        return [(variable, element) for variable, element in actual.tolist()]
    atoms = [atom for dim in tensor.dims for atom in dim]
    return [
        (
            tensor.variable.variable_id,
            tensor.offset + sum(i * stride for i, (_, stride) in zip(index, atoms, strict=True)),
        )
        for index in product(*(range(size) for size, _ in atoms))
    ]


def owners_of(variable: Variable) -> list[int]:
    """Return the tile of every element."""
    owners: list[int] = []
    for i, tile in enumerate(variable.map_tile.tolist()):
        is_last = i + 1 == variable.map_start.size
        stop = variable.n_elements if is_last else int(variable.map_start[i + 1])
        owners += [tile] * (stop - int(variable.map_start[i]))
    return owners


_FLOAT8 = {"143": ml_dtypes.float8_e4m3fnuz, "152": ml_dtypes.float8_e5m2fnuz}


def _held(value: float, dtype: DType) -> Any:
    """Return a value rounded to the device type."""
    if dtype.kind != "float8":
        return np.dtype("float16" if dtype.name == "float16" else dtype.host).type(value).item()
    layout, _, scale = dtype.name.removeprefix("float8_").partition("@")
    kind, factor = _FLOAT8[layout], 2.0 ** int(scale or 0)
    largest = float(ml_dtypes.finfo(kind).max)
    return float(kind(min(max(value / factor, -largest), largest))) * factor


class NaiveMachine:
    """Runs programs on the graph they were built with.

    `violations` are elements that violate the bulk-synchronous rule, by compute set.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._owners: dict[int, list[int]] = {}
        self.memory: list[dict[Element, float]] = [{} for _ in range(graph.machine.n_tiles)]
        self.before: dict[int, Traffic] = {}
        self.after: dict[int, Traffic] = {}
        self.violations: list[tuple[str, Element]] = []
        for variable in graph.variables:
            if variable.values is not None:
                for i, value in enumerate(variable.values.tolist()):
                    self._store((variable.variable_id, i), value)

    def owner(self, element: Element) -> int:
        """Return the tile that holds an element."""
        if element[0] not in self._owners:
            self._owners[element[0]] = owners_of(self.graph.variables[element[0]])
        return self._owners[element[0]][element[1]]

    def _store(self, element: Element, value: float) -> None:
        """Store a value, rounded to the device type, on its owner's tile."""
        dtype = self.graph.variables[element[0]].dtype
        self.memory[self.owner(element)][element] = _held(value, dtype)

    def write(self, tensor: View, values: ArrayLike) -> None:
        """Set a tensor's values."""
        flat = np.asarray(values).reshape(-1).tolist()
        for element, value in zip(elements_of_tensor(tensor), flat, strict=True):
            self._store(element, value)

    def read(self, tensor: View) -> np.ndarray:
        """Return a tensor's values."""
        values = [self.memory[self.owner(e)][e] for e in elements_of_tensor(tensor)]
        return np.array(values).reshape(tensor.shape)

    def run(self, program: Program) -> None:
        """Run a program tree as written."""
        match program:
            case ProgramSequence():
                for child in program.children:
                    self.run(child)
            case Repeat():
                for _ in range(program.count):
                    self.run(program.body)
            case If():
                self.run(program.then if self._is_set(program.predicate) else program.otherwise)
            case RepeatWhile():
                self.run(program.condition)
                while self._is_set(program.predicate) == program.while_true:
                    self.run(program.body)
                    self.run(program.condition)
            case Overlap():  # the reverse order of the engine: the parts are independent
                self.run(program.compute)
                self.run(program.io)
            case Execute():
                self.execute(program.compute_set)
            case Call():
                self.run(program.function.body)
            case Copy():
                self.write(program.target, self.read(program.source))
            case WriteUndef():  # what computes with these elements before they are written fails
                for element in elements_of_tensor(program.target):
                    self.memory[self.owner(element)].pop(element, None)
            case _:
                raise NotImplementedError(type(program).__name__)

    def _is_set(self, predicate: View) -> bool:
        """Return whether a predicate is not zero."""
        return bool(self.read(predicate).reshape(-1)[0])

    def execute(self, compute_set: ComputeSet) -> None:
        """Exchange the vertices' inputs, run the vertices, exchange their outputs."""
        self._check_rule(compute_set)
        mailbox: list[dict[Element, float]] = [{} for _ in self.memory]
        moved: set[tuple[int, int, Element]] = set()
        for tile, batch, vertex in _vertices(compute_set):
            for name, regions in batch.fields.items():
                if not batch.codelet.field(name).is_read:
                    continue
                for element in elements_of(regions, vertex):
                    owner = self.owner(element)
                    if owner != tile:
                        mailbox[tile][element] = self.memory[owner][element]
                        moved.add((owner, tile, element))
        self.before[compute_set.compute_set_id] = self._traffic(moved)
        results: list[tuple[int, Element, float]] = []
        for tile, batch, vertex in _vertices(compute_set):
            local = {**mailbox[tile], **self.memory[tile]}
            results += self._run_vertex(tile, batch, vertex, local)
        self.after[compute_set.compute_set_id] = self._traffic(
            {(tile, self.owner(e), e) for tile, e, _ in results if tile != self.owner(e)}
        )
        for _, element, value in results:
            self._store(element, value)

    def _run_vertex(
        self, tile: int, batch: Any, vertex: int, local: Mapping[Element, float]
    ) -> list[tuple[int, Element, float]]:
        inputs: dict[str, Any] = {}
        outputs: list[list[Element]] = []
        counts: tuple[int, ...] = ()
        kept: set[Element] = set()
        for name, regions in batch.fields.items():
            elements = elements_of(regions, vertex)
            codelet_field = batch.codelet.field(name)
            if codelet_field.is_read and codelet_field.is_written:  # what it leaves as it is
                undefined = {element: math.nan for element in elements if element not in local}
                local = {**undefined, **local}
                kept |= undefined.keys()
            parts = [
                np.array([local[e] for e in elements_of_row(regions, row)])
                for row in rows_of(regions, vertex)
                if codelet_field.is_read
            ]
            shape = tuple(int(s) for s in regions.size[rows_of(regions, vertex)[0]])
            if codelet_field.is_read:
                inputs[name] = parts[0].reshape(shape) if regions.first is None else parts
            if codelet_field.is_written:
                outputs.append(elements)
                counts = shape
        scalars = {name: column[vertex].item() for name, column in batch.scalars.items()}
        values = NAIVE[batch.codelet.name](inputs, scalars, counts)
        arrays = values if isinstance(values, tuple) else (values,)  # one per written field
        return [
            (tile, element, value)
            for elements, array in zip(outputs, arrays, strict=True)
            for element, value in zip(elements, array.reshape(-1).tolist(), strict=True)
            if element not in kept or not math.isnan(value)
        ]

    def _check_rule(self, compute_set: ComputeSet) -> None:
        """Record elements that one vertex writes and another reads or writes."""
        writers: dict[Element, set[int]] = {}
        readers: dict[Element, set[int]] = {}
        for number, (_, batch, vertex) in enumerate(_vertices(compute_set)):
            for name, regions in batch.fields.items():
                codelet_field = batch.codelet.field(name)
                for element in elements_of(regions, vertex):
                    if codelet_field.is_written:
                        writers.setdefault(element, set()).add(number)
                    if codelet_field.is_read:
                        readers.setdefault(element, set()).add(number)
        for element, numbers in writers.items():
            if len(numbers | readers.get(element, set())) > 1:
                self.violations.append((compute_set.name, element))

    def _traffic(self, moved: set[tuple[int, int, Element]]) -> Traffic:
        """Count a set of (sender, receiver, element); a sender sends an element once."""
        traffic = Traffic()
        for sender, element in {(sender, element) for sender, _, element in moved}:
            traffic.sent_bytes[sender] += self._item_bytes(element)
        ipu = self.graph.machine.ipu_of
        for source, target, element in {(ipu(s), ipu(r), e) for s, r, e in moved}:
            if source != target:
                traffic.link_out_bytes[source] += self._item_bytes(element)
                traffic.link_in_bytes[target] += self._item_bytes(element)
        previous: tuple[int, int, Element] | None = None
        for receiver, element, sender in sorted((r, e, s) for s, r, e in moved):
            traffic.received_bytes[receiver] += self._item_bytes(element)
            follows = previous == (sender, receiver, (element[0], element[1] - 1))
            if not follows:
                traffic.fragments[receiver] += 1
            previous = (sender, receiver, element)
        self._time(traffic, moved)
        return traffic

    def _time(self, traffic: Traffic, moved: set[tuple[int, int, Element]]) -> None:
        """Time every tile alone and with its partner; use the shorter time per IPU."""
        machine = self.graph.machine
        alone = self._times(traffic, moved, {})
        if machine.paired_exchange_bytes_per_cycle == machine.exchange_bytes_per_cycle:
            traffic.busy, traffic.done = alone
            return
        receivers: dict[Element, set[int]] = {}
        for _, receiver, element in moved:
            receivers.setdefault(element, set()).add(receiver)
        shared = {
            (receiver, element)
            for sender, receiver, element in moved
            if self._partner(receiver) in receivers[element]
            and machine.ipu_of(sender) == machine.ipu_of(receiver)
        }
        shared = self._without_single_words(shared, {(r, e): s for s, r, e in moved})
        with_partner = self._times(traffic, moved, shared)
        for ipu_id in range(machine.n_ipus):
            tiles = range(ipu_id * machine.tiles_per_ipu, (ipu_id + 1) * machine.tiles_per_ipu)
            first, second = (max(times[1][t] for t in tiles) for times in (alone, with_partner))
            busy, finished = with_partner if second < first else alone
            for tile in tiles:
                traffic.busy[tile], traffic.done[tile] = busy[tile], finished[tile]
            for receiver, element in shared if second < first else ():
                if receiver in tiles:
                    traffic.paired_bytes[receiver] += self._item_bytes(element)

    def _without_single_words(
        self, shared: set[tuple[int, Element]], sender: Mapping[tuple[int, Element], int]
    ) -> set[tuple[int, Element]]:
        """Remove runs shorter than two words: they are not sent to a pair."""
        selected: set[tuple[int, Element]] = set()
        run: list[tuple[int, Element]] = []
        for receipt in [*sorted(shared), None]:
            if run and receipt is not None:
                receiver, (variable, position) = run[-1]
                follows = (
                    receipt == (receiver, (variable, position + 1))
                    and sender[receipt] == sender[run[-1]]
                )
            else:
                follows = not run
            if not follows:
                if sum(self._item_bytes(element) for _, element in run) >= 8:
                    selected |= set(run)
                run = []
            if receipt is not None:
                run.append(receipt)
        return selected

    def _partner(self, tile: int) -> int | None:
        n = self.graph.machine.tiles_per_ipu
        peer = tile - 1 if tile % n % 2 else tile + 1
        return peer if peer // n == tile // n else None

    def _times(
        self, traffic: Traffic, moved: set[tuple[int, int, Element]], shared: Any
    ) -> tuple[dict[int, int], dict[int, int]]:
        """Return the busy cycles and the end time of every tile."""
        machine = self.graph.machine
        slow, fast = machine.exchange_bytes_per_cycle, machine.paired_exchange_bytes_per_cycle
        narrow = {(s, r, e) for s, r, e in moved if (r, e) not in shared}
        wide = {(s, r, e) for s, r, e in moved if (r, e) in shared}
        n_bytes = self._item_bytes
        received_at: Mapping[int, int] = {}
        sent_at: Mapping[int, int] = {}
        if machine.exchange_is_scheduled:
            sends = sends_of(narrow, n_bytes, slow)
            received_at, sent_at = ends_of([*sends, *sends_of(wide, n_bytes, fast, self._partner)])
        busy, finished = {}, {}
        for tile in range(machine.n_tiles):
            pair = (tile, self._partner(tile))
            single = sum(n_bytes(e) for _, r, e in narrow if r == tile)
            double = sum(n_bytes(e) for _, r, e in wide if r == tile)
            receiving = math.ceil(single / slow + double / fast)
            control = traffic.fragments[tile] * machine.exchange_fragment_cycles
            received = max(received_at.get(tile, receiving), control)
            receiving = max(receiving, control)
            single = sum(n_bytes(e) for s, e in {(s, e) for s, _, e in narrow} if s == tile)
            double = sum(n_bytes(e) for s, e in {(s, e) for s, _, e in wide} if s in pair)
            sending = math.ceil(single / slow + double / fast)
            row = naive_row(tile % machine.tiles_per_ipu, machine.exchange_rows)
            start = machine.exchange_start_cycles
            arrives = receiving and received + start + row * machine.exchange_row_cycles
            sent = sent_at.get(tile, 0 if machine.exchange_is_scheduled else sending)
            busy[tile] = max(receiving, sending)
            finished[tile] = max(arrives, sending and sent + start)
        return busy, finished

    def _item_bytes(self, element: Element) -> int:
        return self.graph.variables[element[0]].dtype.n_bytes


def naive_row(tile: int, n_rows: int) -> int:
    """Follow the pairs of tiles down a column of rows, up the next, and so on."""
    row, step = 0, 1
    for _ in range(tile // 2):
        if 0 <= row + step < n_rows:
            row += step
        else:
            step = -step
    return row


def _vertices(compute_set: ComputeSet) -> list[tuple[int, Any, int]]:
    """Return tile, batch and index of every vertex."""
    return [
        (int(tile), batch, vertex)
        for batch in compute_set.batches
        for vertex, tile in enumerate(batch.tile)
    ]


def naive_live_bytes(executable: Executable) -> np.ndarray:
    """Return not-always-live bytes by step and tile: shape (n_steps, n_tiles).

    Loops are unrolled. A variable is live from one access to the next, unless the next access is a
    write of all its elements. A variable that is read first holds data from the host and is always
    live. A step of a loop is live if it is live in any iteration; WriteUndef touches no memory.
    """
    trace: list[int] = []

    def unroll(node: Node) -> None:
        if node.step is not None:
            trace.append(node.step.step_id)
        for _ in range(node.repeat_count):
            for child in node.children:
                unroll(child)

    for root in executable.roots:
        unroll(root)
    steps, graph = executable.steps, executable.graph
    live = np.zeros((max(len(steps), 1), executable.machine.n_tiles), np.int64)
    for variable in graph.variables:
        if executable.memory.is_always_live[variable.variable_id]:
            continue
        number = variable.variable_id
        is_live = _live_positions(
            [
                (
                    number in {*steps[i].reads, *steps[i].writes} - {*steps[i].overwrites}
                    or number in steps[i].reads,
                    number in steps[i].writes,
                )
                for i in trace
            ]
        )
        by_tile = np.zeros(executable.machine.n_tiles, np.int64)
        for tile in owners_of(variable):
            by_tile[tile] += variable.dtype.n_bytes
        for step_id in {step for step, live_here in zip(trace, is_live, strict=True) if live_here}:
            if steps[step_id].kind == "WriteUndef" and number in steps[step_id].overwrites:
                continue
            live[step_id] += by_tile
    for step in steps:
        if step.messages is None:
            continue
        # Inputs arrive in the exchange before the compute phase; outputs stay live, over a sync,
        # until the exchange after it.
        is_output = step.compute_set is not None
        for start in range(step.step_id, step.step_id + (3 if is_output else 2)):
            live[start] += step.messages.by_tile(executable.machine.n_tiles)
    return live


def _live_positions(touches: list[tuple[bool, bool]]) -> list[bool]:
    """Return the positions where a variable is live, from its reads and writes per position."""
    touched = [index for index, (reads, writes) in enumerate(touches) if reads or writes]
    is_live = [False] * len(touches)
    if not touched:
        return is_live
    if touches[touched[0]][0]:
        return [True] * len(touches)
    for index, following in zip(touched, [*touched[1:], touched[-1]], strict=True):
        # What is overwritten as a whole before it is read is dead, whether it was ever read or not.
        keeps = touches[following][0]
        for position in range(index, following if keeps else index + 1):
            is_live[position] = True
        is_live[following] = True
    return is_live


def counts(counter: Counter[int], n: int) -> list[int]:
    """Return a counter as a list over tiles."""
    return [counter[tile] for tile in range(n)]


def check_traffic(machine: NaiveMachine, executable: Executable) -> None:
    """Compare every exchange of an executable with the traffic of the naive machine."""
    steps = executable.steps
    for i, step in enumerate(steps):
        if step.compute_set is None:
            continue
        key = step.compute_set.compute_set_id
        before = steps[i - 1] if i and steps[i - 1].kind in EXCHANGES else None
        if before is not None and before.messages is None:
            before = None  # the last compute set's outputs
        _check_step(machine.before[key], before)
        _check_step(machine.after[key], steps[i + 2] if step.messages is not None else None)


EXCHANGES = ("DoExchange", "GlobalExchange")


def _check_step(traffic: Traffic, step: Step | None) -> None:
    if step is None:
        assert not traffic.sent_bytes, "tiles need remote data, but nothing is exchanged"
        return
    cost = step.cost
    n_tiles = cost.sent_bytes.size
    assert step.kind in EXCHANGES
    assert cost.sent_bytes.tolist() == counts(traffic.sent_bytes, n_tiles)
    assert cost.received_bytes.tolist() == counts(traffic.received_bytes, n_tiles)
    assert cost.fragments.tolist() == counts(traffic.fragments, n_tiles)
    assert cost.paired_bytes.tolist() == counts(traffic.paired_bytes, n_tiles)
    assert cost.tile_cycles.tolist() == [traffic.busy[tile] for tile in range(n_tiles)]
    n_ipus = cost.link_in_bytes.size
    if step.kind == "DoExchange":
        finished = np.array([traffic.done[tile] for tile in range(n_tiles)])
        assert cost.cycles.tolist() == finished.reshape(n_ipus, -1).max(axis=1).tolist()
    assert cost.link_out_bytes.tolist() == counts(traffic.link_out_bytes, n_ipus)
    assert cost.link_in_bytes.tolist() == counts(traffic.link_in_bytes, n_ipus)
    assert (step.kind == "GlobalExchange") == bool(traffic.link_in_bytes)
