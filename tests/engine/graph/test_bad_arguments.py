"""Invalid arguments of graphs, programs and engines raise one-sentence errors that name them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilescope.engine import (
    Engine,
    Field,
    Graph,
    Scalar,
    Tensor,
    codelet,
    compile_programs,
    load_machine,
)
from tilescope.engine import resolve_options as options
from tilescope.engine.codelets.popops.elementwise.copy import COPY
from tilescope.engine.codelets.popops.elementwise.fill import FILL
from tilescope.engine.errors import BadGraph, BadInput, BadMachine
from tilescope.engine.graph import ComputeSet, blocks
from tilescope.engine.program import (
    Call,
    Copy,
    Execute,
    Function,
    If,
    Program,
    Repeat,
    Sequence,
    StreamCopyIn,
    StreamCopyOut,
    Switch,
)

#: Type errors that mypy would report.
NOTHING: Any = None
TEXT: Any = "gc200"
FRACTION: Any = 2.5
MACHINE = load_machine("gc200", tiles_per_ipu=4)


class Small:
    """A graph with two mapped variables, and another graph with the same."""

    def __init__(self) -> None:
        # `Any` hides the deliberate type errors from mypy.
        self.graph: Any
        self.x: Any
        self.y: Any
        self.graph, self.x, self.y = self._new()
        self.other, self.far_x, self.far_y = self._new()
        self.flag = self.graph.add_variable("int32", (1,), "flag")
        self.graph.map_linearly(self.flag)

    def _new(self) -> tuple[Graph, Tensor, Tensor]:
        graph = Graph(MACHINE)
        x, y = (graph.add_variable("float32", (8,), name) for name in "xy")
        for tensor in (x, y):
            graph.map_linearly(tensor)
        return graph, x, y

    def vertices(self, tile: Any = (0,), made: Any = COPY, **fields: Any) -> ComputeSet:
        """Add vertices that copy x to y, with overrides."""
        compute_set: ComputeSet = self.graph.add_compute_set("step")
        full = {
            "x": blocks(self.x.variable, 0, [8], [1], 1),
            "out": blocks(self.y.variable, 0, [8], [1], 1),
        }
        self.graph.add_vertices(compute_set, made, tile, {**full, **fields})
        return compute_set

    def run(self, program: Any, **streams: Any) -> Engine:
        """Compile and run a program."""
        compiled = compile_programs(self.graph, [program], is_checked=True)
        with Engine(compiled, options(environ={})) as engine:
            for name, source in streams.items():
                engine.connect_stream(name, source)
            engine.run()
            return engine

    def named_alike(self, **more: Any) -> None:
        """Add vertices of two codelets with the same name and different arguments."""
        for facts in ({}, more):
            built = codelet(
                Field("x", "in"),
                Field("out", "out"),
                **{"law": size, "code_bytes": 8, "name": "odd", **facts},
            )(both)
            self.vertices(made=built)

    def by_law(self, law: Any, **more: Any) -> Engine:
        """Run a codelet with a law."""

        @codelet(Field("x", "in"), Field("out", "out"), law=law, code_bytes=8, name="odd", **more)
        def copy(x: Any, out: Any) -> None:
            out[:] = x

        return self.run(Execute(self.vertices(made=copy)))


def size(batch: Any, _: Any = None) -> Any:
    return batch.size["out"][:, 0]


def only(x: Any) -> None:
    x[0] = 0


def both(x: Any, out: Any) -> None:
    out[0] = x[0]


def alone(small: Small) -> Any:
    return Copy(small.x, small.y)


def with_itself() -> Program:
    sequence = Sequence("ring")
    return sequence.add(sequence)


MAPPINGS: list[tuple[str, Callable[[Small], Any]]] = [
    ("starts of 'x' include 4.5", lambda s: s.graph.set_tile_mapping(s.x, [0, 4.5], [0, 1])),
    ("tiles of 'x' include 1.5", lambda s: s.graph.set_tile_mapping(s.x, [0, 4], [0, 1.5])),
    ("tiles of 'x' include b", lambda s: s.graph.set_tile_mapping(s.x, [0], ["b"])),
    ("out of range", lambda s: s.graph.set_tile_mapping(s.x, [0], [2**40])),
    ("one tile per start", lambda s: s.graph.set_tile_mapping(s.x, [[0, 4]], [[0, 1]])),
    ("element twice", lambda s: s.graph.map_linearly(s.x.reshape(1, 8).broadcast_to((2, 8)))),
    ("got a Variable", lambda s: s.graph.map_linearly(s.x.variable)),
    ("variable of another graph", lambda s: s.graph.map_linearly(s.far_x)),
    ("grain of 'x' is 0", lambda s: s.graph.map_linearly(s.x, grain=0)),
    ("grain of 'x' is 2.5", lambda s: s.graph.map_linearly(s.x, grain=2.5)),
    ("first tile of 'x' is -1", lambda s: s.graph.map_linearly(s.x, first=-1)),
    ("No tiles to map 'x' to", lambda s: s.graph.map_linearly(s.x, tiles=[])),
    ("tiles of 'x' include all", lambda s: s.graph.map_linearly(s.x, tiles="all")),
]
VARIABLES: list[tuple[str, Callable[[Small], Any]]] = [
    ("A type is needed", lambda s: s.graph.add_variable(None, (2,), "v")),
    ("no type '3': use one of", lambda s: s.graph.add_variable(3, (2,), "v")),
    ("dimensions of 'v' include a", lambda s: s.graph.add_variable("float32", "ab", "v")),
    ("expected a tuple of dimensions", lambda s: s.graph.add_variable("float32", 5, "v")),
    ("dimensions of 'v' include 2.5", lambda s: s.graph.add_variable("float32", (2.5,), "v")),
    ("name of a variable, got None", lambda s: s.graph.add_variable("float32", (2,), None)),
    ("uneven lengths", lambda s: s.graph.add_constant([[1], [2, 3]], "k")),
    ("expected integers, got fractions", lambda s: s.graph.add_constant([1.5], "k", dtype="int32")),
    (
        "expected integers, got fractions",
        lambda s: s.graph.add_constant([np.nan], "k", dtype="int32"),
    ),
    ("uint8 holds 0 to 255", lambda s: s.graph.add_constant([300], "k", dtype="uint8")),
    ("Expected numbers for 'k'", lambda s: s.graph.add_constant([1j], "k", dtype="float32")),
    ("row of remote buffer 'r' is 1.5", lambda s: s.graph.add_remote_buffer("r", "int32", 1.5)),
    ("no dimension 3 to slice", lambda s: s.x.slice(3, 0, 1)),
    ("Expected a machine for the graph", lambda _: Graph(TEXT)),
]
VERTICES: list[tuple[str, Callable[[Small], Any]]] = [
    ("field 'x' takes regions, not a Variable", lambda s: s.vertices(x=s.x.variable)),
    ("Expected a variable for the regions", lambda s: blocks(s.x, 0, [8], [1], 1)),
    ("2 sizes and 1 strides", lambda s: blocks(s.x.variable, 0, [4, 2], [1], 1)),
    ("expected 2 values, got shape", lambda s: blocks(s.x.variable, np.arange(3), [4], [1], 2)),
    ("include 2.5", lambda s: blocks(s.x.variable, FRACTION, [4], [1], 1)),
    ("field 'x' must be float32, but 'flag' is int32", lambda s: s.vertices(x=flag(s))),
    (
        r"\[4\] elements in field 'x' and \[8\] in 'out'",
        lambda s: s.vertices(x=blocks(s.x.variable, 0, [4], [1], 1)),
    ),
    ("tiles include 0.5", lambda s: s.vertices(tile=[0.5])),
    ("give one per vertex", lambda s: s.vertices(tile=[[0]])),
    ("run a codelet, not a function", lambda s: s.vertices(made=size)),
    (
        "a compute set of another graph",
        lambda s: s.graph.add_vertices(s.other.add_compute_set("c"), COPY, [0], {}),
    ),
    (
        "scalar 'value' must be of kind float",
        lambda s: s.graph.add_vertices(
            s.graph.add_compute_set("c"),
            FILL,
            [0],
            {"out": blocks(s.x.variable, 0, [8], [1], 1)},
            {"value": "a"},
        ),
    ),
]


def flag(small: Small) -> Any:
    return blocks(small.flag.variable, 0, [1], [1], 1)


LAWS: list[tuple[str, Callable[[Small], Any]]] = [
    ("cycle law of odd failed: KeyError", lambda s: s.by_law(lambda batch, _: batch.size["no"])),
    ("cycle law of odd failed: TypeError", lambda s: s.by_law(lambda _: 5)),
    ("law of odd failed: Float", lambda s: s.by_law(lambda batch, _: size(batch) // 0)),
    ("law of odd is 17", lambda s: s.by_law(17)),
    ("must return 1 integers", lambda s: s.by_law(lambda *_: "many")),
    ("out of range", lambda s: s.by_law(lambda batch, _: size(batch) * 2**60)),
    ("count of operations", lambda s: s.by_law(size, flops=lambda _: None)),
    ("count of operations", lambda s: s.by_law(size, flops=lambda batch: -size(batch))),
    (
        "two fields or scalars called 'x'",
        lambda _: codelet(Field("x", "in"), Field("x", "out"), law=size, code_bytes=1)(size),
    ),
    (
        "takes -1 bytes",
        lambda _: codelet(Field("x", "out"), law=size, code_bytes=-1)(only),
    ),
    ("two codelets called odd, of 8 and of 16 bytes", lambda s: s.named_alike(code_bytes=16)),
    ("called odd: a worker and a supervisor", lambda s: s.named_alike(is_supervisor=True)),
    ("called odd: only one is data-dependent", lambda s: s.named_alike(is_data_dependent=True)),
    ("got 'class'", lambda _: Field("class", "in")),
    ("an int or a float", lambda _: Scalar("n", "text")),
    (
        "'z', which is not a field",
        lambda _: codelet(Field("x", "out", size_of="z"), law=size, code_bytes=1)(only),
    ),
]
PROGRAMS: list[tuple[str, Callable[[Small], Any]]] = [
    ("Control program 0 is None", lambda s: s.run(None)),
    ("Expected a list of control programs", lambda s: compile_programs(s.graph, alone(s))),
    ("part 0 is None: expected a program", lambda s: s.run(Sequence("s", [NOTHING]))),
    ("Sequence 'ring' contains itself", lambda s: s.run(with_itself())),
    ("its compute_set is None", lambda s: s.run(Execute(NOTHING))),
    (
        "a compute set of another graph",
        lambda s: s.run(Execute(s.other.add_compute_set("c"))),
    ),
    ("'x' is a variable of another graph", lambda s: s.run(Copy(s.far_x, s.y))),
    ("'y' is a variable of another graph", lambda s: s.run(Copy(s.x, s.far_y))),
    (
        "'x' is a variable of another graph",
        lambda s: s.run(Call(Function(Copy(s.far_x, s.y), "f"))),
    ),
    ("count of Repeat 'r' is 2.5", lambda s: Repeat(FRACTION, Copy(s.x, s.y), "r")),
    ("expected a tensor as its control", lambda s: If(NOTHING, Copy(s.x, s.y), Copy(s.x, s.y))),
    (
        "case 'gc200' is not an integer",
        lambda s: s.run(Switch(s.flag, {TEXT: Copy(s.x, s.y)}, Copy(s.y, s.x))),
    ),
]
ENGINES: list[tuple[str, Callable[[Small], Any]]] = [
    ("got a Graph", lambda s: Engine(s.graph)),
    ("number of the program is 'gc200'", lambda s: made(s).run(TEXT)),
    ("variable of another graph", lambda s: made(s).read_tensor(s.far_x)),
    ("got a NoneType", lambda s: made(s).read_tensor(NOTHING)),
    ("Expected numbers for 'x'", lambda s: made(s).write_tensor(s.x, ["a"] * 8)),
    ("expected integers, got fractions", lambda s: made(s).write_tensor(s.flag, [0.5])),
]


def made(small: Small) -> Engine:
    return Engine(compile_programs(small.graph, [Copy(small.x, small.y)]), options(environ={}))


CASES = [*MAPPINGS, *VARIABLES, *VERTICES, *LAWS, *PROGRAMS, *ENGINES]


@pytest.mark.parametrize(
    ("words", "mistake"), CASES, ids=[f"{i} {words}" for i, (words, _) in enumerate(CASES)]
)
def test_a_mistake_is_named(words: str, mistake: Callable[[Small], Any]) -> None:
    with pytest.raises(BadGraph, match=words) as caught:
        mistake(Small())
    assert "\n" not in str(caught.value)


def test_a_machine_of_odd_numbers() -> None:
    for call in (
        lambda: load_machine("gc200", tiles_per_ipu=TEXT),
        lambda: load_machine("gc200", n_ipus=FRACTION),
        lambda: load_machine(NOTHING),
    ):
        with pytest.raises(BadMachine, match=r"expected an integer|expected a machine name"):
            call()


def test_a_variable_added_late() -> None:
    small = Small()
    engine = made(small)
    engine.run()
    late = small.graph.add_variable("float32", (2,), "late")
    small.graph.map_linearly(late)
    with pytest.raises(BadGraph, match=r"'late' .* was added after the program was compiled"):
        engine.read_tensor(late)


def test_a_kernel_that_cannot_be_compiled() -> None:
    @codelet(Field("x", "in"), Field("out", "out"), law=size, code_bytes=8, name="importing")
    def importing(x: Any, out: Any) -> None:
        import os

        out[0] = x[0] + os.getpid()

    small = Small()
    with pytest.raises(BadGraph, match="Cannot compile the kernel of importing") as caught:
        small.run(Execute(small.vertices(made=importing)))
    assert "\n" not in str(caught.value)


def test_an_output_fills_the_array_connected_to_it() -> None:
    small = Small()
    program = Sequence("s", [StreamCopyIn("in", small.x), StreamCopyOut(small.x, "out")])
    value, used = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    small.run(program, **{"in": value, "out": used})
    assert used.tolist() == value.tolist()
    problem: list[Any] = [np.zeros(3, np.float32), np.zeros(8, np.int32), [0.0] * 8]
    for target in problem:
        with pytest.raises(BadInput, match=r"Stream 'out' writes float32 \(8,\)"):
            small.run(program, **{"in": value, "out": target})
