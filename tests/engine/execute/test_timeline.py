"""Loops stored as counts give the time of every execution, as a naive clock does."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count as numbers

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilescope.engine import Machine, load_machine
from tilescope.engine.compiler.executable.executable import Node, Step
from tilescope.engine.compiler.executable.step_cost import StepCost
from tilescope.engine.errors import BadGraph
from tilescope.engine.execute.timeline import Timeline, timeline_of
from tilescope.engine.graph import ROOT

Execution = tuple[int, int, int, int, int]
"""IPU, track, step, start, end."""


@dataclass
class PlainClock:
    """Runs every round of every loop and records every execution."""

    now: list[int]
    track: int = 0
    executions: list[Execution] = field(default_factory=list)

    def run(self, node: Node) -> None:
        for _ in range(node.repeat_count):
            if node.step is not None:
                self.step(node.step)
            elif node.kind == "Overlap":
                self.overlap(*node.children)
            else:
                for child in node.children:
                    self.run(child)

    def step(self, step: Step) -> None:
        ready = list(self.now)
        if step.cost.sync_zone == "external":
            self.now = [max(ready)] * len(ready)
            if step.kind != "Sync":
                ready = self.now
        starts = list(ready)
        for ipu, cycles in enumerate(step.cost.cycles.tolist()):
            if cycles:
                self.now[ipu] += cycles
                self.executions.append((ipu, self.track, step.step_id, starts[ipu], self.now[ipu]))

    def overlap(self, io: Node, compute: Node) -> None:
        begins, ends = list(self.now), []
        for self.track, side in ((1, io), (0, compute)):
            self.now = list(begins)
            for child in side.children[:-1]:
                self.run(child)
            ends.append(list(self.now))
        for ipu in range(len(begins)):
            for track, side in ((1, io), (0, compute)):
                join = side.children[-1].step
                assert join is not None
                finished = max(end[ipu] for end in ends) + int(join.cost.cycles[ipu])
                early = ends[1 - track][ipu]
                if finished > early:
                    self.executions.append((ipu, track, join.step_id, early, finished))
                self.now[ipu] = finished


class Drawn:
    """Random program trees: steps of random length, internal and external, loops, overlaps."""

    def __init__(self, draw: st.DrawFn, machine: Machine) -> None:
        self.draw, self.machine, self.ids = draw, machine, numbers()

    def node(self, kind: str, children: list[Node], repeat_count: int = 1) -> Node:
        return Node(
            0, None, 0, 0, kind, "", ROOT, repeat_count=repeat_count, children=children
        )  # fmt: skip

    def step(self, kind: str, cycles: list[int], zone: str) -> Node:
        cost = StepCost.of(self.machine, zone, cycles=np.array(cycles))
        node = self.node(kind, [])
        node.step = Step(next(self.ids), kind, "", ROOT, cost)
        return node

    def leaf(self) -> Node:
        n = self.machine.n_ipus
        if self.draw(st.booleans()):
            cycles = self.draw(st.lists(st.integers(0, 50), min_size=n, max_size=n))
            return self.step("OnTileExecute", cycles, "none")
        kind = self.draw(st.sampled_from(["Sync", "GlobalExchange"]))
        return self.step(kind, [self.draw(st.integers(1, 20))] * n, "external")

    def sequence(self, depth: int, *, may_overlap: bool = True) -> Node:
        children = []
        for _ in range(self.draw(st.integers(1, 3))):
            subject = self.draw(st.integers(0, 5)) if depth else 0
            if subject == 5 and may_overlap:
                join = self.draw(st.integers(0, 5))
                sides = [self.sequence(depth - 1, may_overlap=False) for _ in range(2)]
                for side in sides:
                    wait = self.step("Sync", [join] * self.machine.n_ipus, "internal")
                    side.children = [*side.children, wait]
                children.append(self.node("Overlap", sides))
            elif subject >= 3:
                body = self.sequence(depth - 1, may_overlap=may_overlap)
                children.append(self.node("Repeat", [body], self.draw(st.integers(1, 6))))
            else:
                children.append(self.leaf())
        return self.node("Sequence", children)


@st.composite
def programs(draw: st.DrawFn) -> tuple[Node, Machine]:
    """Return a program on one to three IPUs."""
    machine = load_machine("gc200", n_ipus=draw(st.integers(1, 3)), tiles_per_ipu=1)
    return Drawn(draw, machine).sequence(3), machine


def written_out(ipu: int, track: int, line: Timeline) -> list[Execution]:
    return [
        (ipu, track, int(line.step_id[i]), int(line.start[i] + shift), int(line.end[i] + shift))
        for i in range(line.step_id.size)
        for shift in range(0, max(1, int(line.count[i] * line.period[i])), max(1, line.period[i]))
    ]


@given(programs())
def test_every_execution_is_where_a_clock_without_counts_has_it(
    drawn: tuple[Node, Machine],
) -> None:
    program, machine = drawn
    plain = PlainClock([0] * machine.n_ipus)
    plain.run(program)
    executions: list[Execution] = []
    for ipu, line in enumerate(timeline_of(program, machine)):
        assert line.n_cycles == plain.now[ipu]
        assert (np.diff(line.start) >= 0).all()
        executions += written_out(ipu, 0, line)
        if line.io is not None:
            executions += written_out(ipu, 1, line.io)
    assert sorted(executions) == sorted(plain.executions)


def uneven(machine: Machine, rounds: int) -> Node:
    """Return a loop in which three IPUs work for different times and then synchronise."""
    drawn = Drawn(lambda _: None, machine)  # type: ignore[arg-type]
    body = [
        drawn.step("OnTileExecute", [10, 40, 25], "none"),
        drawn.step("Sync", [5, 5, 5], "external"),
        drawn.step("OnTileExecute", [30, 0, 7], "none"),
    ]
    return drawn.node("Repeat", body, rounds)


def test_a_loop_with_external_syncs_is_its_first_round_and_a_count() -> None:
    machine = load_machine("gc200", n_ipus=3, tiles_per_ipu=1)
    for line in timeline_of(uneven(machine, 1_000_000), machine):
        assert sorted(set(line.count.tolist())) == [1, 999_999]
        assert line.step_id.size <= 6
        # The period is the longest path from one sync to the next: 30, 10 and the sync,
        # or 40 and the sync on the IPU without work after it.
        assert set(line.period[line.count > 1].tolist()) == {45}


def test_one_ipu_needs_no_first_round() -> None:
    machine = load_machine("gc200", tiles_per_ipu=1)
    drawn = Drawn(lambda _: None, machine)  # type: ignore[arg-type]
    body = [
        drawn.step("OnTileExecute", [10], "none"),
        drawn.step("StreamCopyBegin", [5], "external"),
    ]
    (line,) = timeline_of(drawn.node("Repeat", body, 50), machine)
    assert line.count.tolist() == [50, 50]
    assert line.period.tolist() == [15, 15]


def test_loops_in_loops_are_written_out_where_that_takes_fewer_entries() -> None:
    machine = load_machine("gc200", tiles_per_ipu=1)
    drawn = Drawn(lambda _: None, machine)  # type: ignore[arg-type]

    def nested(inner: int, outer: int) -> Timeline:
        body = drawn.node("Repeat", [drawn.step("OnTileExecute", [10], "none")], inner)
        peer = drawn.step("Sync", [3], "internal")
        (line,) = timeline_of(drawn.node("Repeat", [body, peer], outer), machine)
        assert line.n_cycles == outer * (10 * inner + 3)
        return line

    assert nested(3, 1_000).count.tolist() == [1_000] * 4
    assert nested(1_000, 3).count.tolist() == [1_000, 1] * 3


def totals(lines: list[tuple[int, Timeline]]) -> dict[tuple[int, int], tuple[int, int]]:
    """Return the number of executions and the cycles by IPU and step."""
    results: dict[tuple[int, int], tuple[int, int]] = {}
    for ipu, line in lines:
        columns = (line.step_id, line.count, line.end - line.start)
        for step, rounds, cycles in zip(*(column.tolist() for column in columns), strict=True):
            n, total = results.get((ipu, step), (0, 0))
            results[ipu, step] = n + rounds, total + rounds * cycles
    return results


@given(programs(), st.integers(1, 12))
def test_what_is_spread_keeps_its_totals_and_stays_in_the_run(
    drawn: tuple[Node, Machine], most: int
) -> None:
    program, machine = drawn
    plain = PlainClock([0] * machine.n_ipus)
    plain.run(program)
    expected: dict[tuple[int, int], tuple[int, int]] = {}
    for ipu, _, step, start, end in plain.executions:
        n, total = expected.get((ipu, step), (0, 0))
        expected[ipu, step] = n + 1, total + end - start
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tilescope.engine.execute.track._MOST_WRITTEN_OUT", most)
        lines = timeline_of(program, machine)
    tracks = [(ipu, track) for ipu, line in enumerate(lines) for track in (line, line.io) if track]
    assert totals(tracks) == expected
    for ipu, line in tracks:
        assert line.n_cycles == plain.now[ipu]
        assert ((line.period > 0) == (line.count > 1)).all()
        if line.count.size:
            assert (line.end + line.period * (line.count - 1)).max() <= line.n_cycles
        assert (np.diff(line.start) >= 0).all()


@pytest.mark.parametrize("n_ipus", [1, 3])
def test_five_loops_in_one_another_are_counted(n_ipus: int) -> None:
    """Of 200 rounds each, with a step before every loop: 3.2 x 10^11 executions."""
    machine = load_machine("gc200", n_ipus=n_ipus, tiles_per_ipu=1)
    drawn = Drawn(lambda _: None, machine)  # type: ignore[arg-type]
    node = drawn.node("Sequence", [drawn.step("OnTileExecute", [7] * n_ipus, "none")])
    rounds, cycles = 1, 7
    for depth in range(1, 6):
        before = drawn.step("Sync", [depth] * n_ipus, "internal" if n_ipus == 1 else "external")
        node = drawn.node("Repeat", [before, node], 200)
        cycles = (cycles + depth) * 200
        rounds *= 200
    lines = timeline_of(node, machine)
    expected = {0: (rounds, 7 * rounds)} | {
        depth: (200 ** (6 - depth), depth * 200 ** (6 - depth)) for depth in range(1, 6)
    }
    for ipu, line in enumerate(lines):
        assert line.n_cycles == cycles
        assert line.step_id.size <= 1 << 18
        assert line.has_spread
        actual = totals([(ipu, line)])
        assert actual == {(ipu, step): total for step, total in expected.items()}


def test_a_loop_of_a_loop_alone_is_spread_exactly() -> None:
    machine = load_machine("gc200", tiles_per_ipu=1)
    drawn = Drawn(lambda _: None, machine)  # type: ignore[arg-type]
    inner = drawn.node("Repeat", [drawn.step("OnTileExecute", [10], "none")], 1_000_000)
    (line,) = timeline_of(drawn.node("Repeat", [inner], 1_000_000), machine)
    assert (line.count.tolist(), line.period.tolist()) == ([10**12], [10])
    assert not line.has_spread
    parts = line.with_counts_up_to(4 * 10**11)
    assert parts.count.tolist() == [4 * 10**11, 4 * 10**11, 2 * 10**11]
    assert parts.start.tolist() == [0, 4 * 10**12, 8 * 10**12]


def test_more_cycles_than_a_counter_holds() -> None:
    machine = load_machine("gc200", tiles_per_ipu=1)
    drawn = Drawn(lambda _: None, machine)  # type: ignore[arg-type]
    inner = drawn.node("Repeat", [drawn.step("OnTileExecute", [10], "none")], 1 << 31)
    with pytest.raises(BadGraph, match=r"takes 4\.61e\+19 cycles.*lower the count of a Repeat"):
        timeline_of(drawn.node("Repeat", [inner], 1 << 31), machine)
