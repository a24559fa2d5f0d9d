"""Copies that the host does not make change no value that anybody can read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.oracle.naive_machine import NaiveMachine
from tests.properties import test_overlap
from tests.properties.drawn_programs import Drawn, programs

from tilescope.engine import Engine, Executable, Graph, Tensor, compile_programs, resolve_options
from tilescope.engine.execute.storage import Copy, Storage, Trace, coalesce
from tilescope.engine.program import Program, Sequence, StreamCopyIn, StreamCopyOut

State = dict[str, np.ndarray]


def compiled(graph: Graph, program: Program, tensors: dict[str, Tensor]) -> Executable:
    """Return a program as a model's are: the host reads and writes through streams only."""
    before = [StreamCopyIn(name, tensor) for name, tensor in tensors.items()]
    after = [StreamCopyOut(tensor, f"{name} after") for name, tensor in tensors.items()]
    streamed = Sequence("streamed", [*before, program, *after])
    return replace(compile_programs(graph, [streamed]), graph_digest="as of a model")


def results(executable: Executable, before: State) -> State:
    """Return the results of two runs, which must agree, where memory held something else."""
    outputs = []
    with Engine(executable, resolve_options(environ={})) as engine:
        engine.load()
        for name, values in before.items():
            engine.connect_stream(name, values)
        for variable in executable.graph.variables:
            if variable.values is None:
                engine._replicas[0].memory.flat(variable)[:] = 77
        for _ in range(2):
            engine.run()
            outputs.append({name: engine.output(f"{name} after").copy() for name in before})
    for name, values in outputs[0].items():
        assert values.tobytes() == outputs[1][name].tobytes()
    return outputs[0]


@given(programs())
def test_a_program_does_what_its_author_wrote_without_some_of_its_copies(drawn: Drawn) -> None:
    executable = compiled(drawn.graph, drawn.program, drawn.tensors)
    actual = results(executable, drawn.before)
    with patch("tilescope.engine.execute.host_program.coalesce", all_copied):
        copied = results(executable, drawn.before)
    for name, expected in drawn.after().items():
        assert actual[name].tolist() == expected.tolist(), name
        assert actual[name].tobytes() == copied[name].tobytes()


@given(test_overlap.programs(may_repeat=True))
def test_sides_that_overlap_do_what_a_machine_does_that_runs_compute_first(
    drawn: test_overlap.Drawn,
) -> None:
    tensors = {f"t{number}": tensor for number, tensor in enumerate([*drawn.io, *drawn.compute])}
    before = {
        name: np.arange(test_overlap.N, dtype=np.float32) + 10 * number
        for number, name in enumerate(tensors)
    }
    naive = NaiveMachine(drawn.graph)
    for name, tensor in tensors.items():
        naive.write(tensor, before[name])
    naive.run(drawn.program)
    actual = results(compiled(drawn.graph, drawn.program, tensors), before)
    for name, tensor in tensors.items():
        assert actual[name].tolist() == naive.read(tensor).tolist()


def all_copied(trace: Trace) -> Storage:
    """Return storage in which every variable has one place, and all copies are made."""
    return coalesce(replace(trace, fixed=frozenset(range(len(trace.sizes))), copies=()))


@dataclass(frozen=True)
class Step:
    """One step of a drawn program: a function that writes a variable, or copies to its parts."""

    reads: tuple[int, ...]
    write: int
    #: By source: first element that is read, first that is written, and their number.
    parts: tuple[tuple[int, int, int], ...] = ()

    def overwrites(self, size: int) -> bool:
        """Return whether nothing is left of what the variable held."""
        return not self.parts or sum(n for _, _, n in self.parts) == size


@dataclass(frozen=True)
class Straight:
    """Steps before a loop, those of its body, and the sizes of their variables."""

    sizes: list[int]
    steps: list[Step]
    n_before: int
    n_rounds: int

    @property
    def in_order(self) -> list[int]:
        """The numbers of the steps as they run."""
        body = [*range(self.n_before, len(self.steps))]
        return [*range(self.n_before), *(body * self.n_rounds)]


@st.composite
def straight_programs(draw: st.DrawFn) -> Straight:
    sizes = [draw(st.sampled_from([1, 2, 4])) for _ in range(draw(st.integers(2, 7)))]
    variables = st.integers(0, len(sizes) - 1)
    steps = []
    for _ in range(draw(st.integers(1, 14))):
        write = draw(variables)
        if draw(st.integers(0, 3)):
            source = draw(variables)
            n = min(sizes[source], sizes[write])
            first = draw(st.integers(0, sizes[write] - n))
            sources, parts = [source], [(draw(st.integers(0, sizes[source] - n)), first, n)]
            other = draw(variables)
            if first == 0 and other != write and n + sizes[other] == sizes[write]:
                sources.append(other)
                parts.append((0, n, sizes[other]))
            if write not in sources:  # a step never reads what it writes elsewhere
                steps.append(Step(tuple(sources), write, tuple(parts)))
        else:
            steps.append(Step(tuple(draw(st.lists(variables, max_size=2))), write))
    return Straight(sizes, steps, draw(st.integers(0, len(steps))), draw(st.integers(1, 3)))


def live(program: Straight) -> dict[int, tuple[tuple[int, int], ...]]:
    """Return the lives of the variables that are written as a whole before they are read."""
    n_steps = len(program.steps)
    touched: list[set[int]] = [set() for _ in range(n_steps)]
    after: set[int] = set()
    for number in reversed(program.in_order):
        step = program.steps[number]
        before = set(after)
        if step.overwrites(program.sizes[step.write]):
            before.discard(step.write)
        before |= set(step.reads)
        touched[number] |= before | after | {step.write}
        after = before
    return {
        variable: tuple(_ranges([variable in step for step in touched]))
        for variable in range(len(program.sizes))
        if variable not in after and any(variable in step for step in touched)
    }


def _ranges(is_live: list[bool]) -> Iterator[tuple[int, int]]:
    edges = np.flatnonzero(np.diff([0, *is_live, 0]))
    yield from zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)


def trace_of(program: Straight) -> Trace:
    writers: dict[int, list[int]] = {}
    copies = []
    for number, step in enumerate(program.steps):
        writers.setdefault(step.write, []).append(number)
        for part, (source, (start, first, n)) in enumerate(
            zip(step.reads, step.parts, strict=False)
        ):
            copies.append(Copy(number, (part,), source, step.write, start - first, n))
    return Trace(
        program.sizes,
        ["float32"] * len(program.sizes),
        live(program),
        frozenset(),
        [(0, program.n_before), (program.n_before, len(program.steps))],
        writers,
        copies,
    )


def seen(program: Straight, storage: Storage) -> list[list[float]]:
    """Return what every step reads, and what is kept at last."""
    memory = {id(group): np.zeros(group.end - group.first) for group in storage.groups}

    def elements(variable: int, number: int) -> np.ndarray:
        value = next(
            value
            for value in storage.values
            if value.variable == variable
            and any(first <= number < end for first, end in value.lives)
        )
        first = value.offset - value.group.first
        return memory[id(value.group)][first : first + value.n_elements]

    history = []
    for number in program.in_order:
        step = program.steps[number]
        values = [elements(variable, number).copy() for variable in step.reads]
        history.append([float(v) for value in values for v in value])
        out = elements(step.write, number)
        for part, (value, (start, first, n)) in enumerate(zip(values, step.parts, strict=False)):
            if part not in storage.without.get(number, ()):
                out[first : first + n] = value[start : start + n]
        if not step.parts:
            total = sum(float(np.sum(value)) for value in values)
            out[:] = np.arange(out.size) + total % 97 + len(history)
    kept = [value.variable for value in storage.values if value.is_kept]
    return [*history, *(elements(variable, 0).tolist() for variable in sorted(kept))]


@given(straight_programs())
def test_every_step_reads_what_it_would_read_if_all_copies_were_made(program: Straight) -> None:
    trace = trace_of(program)
    assert seen(program, coalesce(trace)) == seen(program, all_copied(trace))
