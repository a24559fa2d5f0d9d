"""Small random programs built with the graph API: views, loops, branches, functions, variables.

Every program comes with its effect on plain arrays. Programs only select, negate and move values,
so that results must agree exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from tests.oracle.drawn_graphs import machines, mappings

from tilescope.engine import Builder, Graph, Tensor
from tilescope.engine.graph import INT32, ROOT
from tilescope.engine.library.popops.elementwise.operations import binary, unary
from tilescope.engine.program import (
    Call,
    Copy,
    Function,
    If,
    Program,
    Repeat,
    RepeatWhile,
    Sequence,
)

State = dict[str, np.ndarray]
Effect = Callable[[State], None]


@dataclass
class Drawn:
    """A graph with a program, its initial tensors, and the program's effect on them."""

    graph: Graph
    program: Program
    tensors: dict[str, Tensor]
    before: State
    effect: Effect

    def after(self) -> State:
        """Return the expected arrays after the program."""
        state = {name: values.copy() for name, values in self.before.items()}
        self.effect(state)
        return state


@st.composite
def programs(draw: st.DrawFn, *, is_fixed: bool = False) -> Drawn:
    """Return a program over three variables of one shape and a flag.

    A fixed program has nothing that the compiler places on tiles of its choice: no branches, and
    no copies within a variable.
    """
    graph = Graph(draw(machines()))
    shape = (draw(st.integers(1, 5)), draw(st.integers(1, 6)))
    random = np.random.default_rng(draw(st.integers(0, 99)))
    tensors = {name: graph.add_variable("float32", shape, name) for name in ("a", "b", "c")}
    before: State = {}
    for name, tensor in tensors.items():
        draw(mappings(graph, tensor))
        before[name] = random.standard_normal(shape).astype(np.float32)
    tensors["flag"] = graph.add_variable(INT32, (1,), "flag")
    draw(mappings(graph, tensors["flag"]))
    before["flag"] = np.array([draw(st.integers(0, 1))], np.int32)
    program, effect = draw(_bodies(graph, tensors, 2, is_fixed))
    return Drawn(graph, program, tensors, before, effect)


@st.composite
def _bodies(
    draw: st.DrawFn, graph: Graph, tensors: dict[str, Tensor], depth: int, is_fixed: bool
) -> tuple[Program, Effect]:
    """Return one to three programs in sequence, nested as deep as `depth`."""
    n = draw(st.integers(1, 3))
    results = [draw(_parts(graph, tensors, depth, is_fixed)) for _ in range(n)]

    def effect(state: State) -> None:
        for _, apply in results:
            apply(state)

    return Sequence("body", [program for program, _ in results]), effect


@st.composite
def _parts(
    draw: st.DrawFn, graph: Graph, tensors: dict[str, Tensor], depth: int, is_fixed: bool
) -> tuple[Program, Effect]:
    kinds = ["unary", "binary", "copy"]
    kinds += ["repeat", "call"] if depth else []
    kinds += ["if", "while"] if depth and not is_fixed else []
    kind = draw(st.sampled_from(kinds))
    if kind in ("unary", "binary", "copy"):
        return draw(_steps(graph, tensors, kind, is_fixed))
    body, inner = draw(_bodies(graph, tensors, depth - 1, is_fixed))
    count = draw(st.integers(1, 3))

    def often(state: State) -> None:
        for _ in range(count):
            inner(state)

    if kind == "repeat":
        return Repeat(count, body, "repeat"), often
    if kind == "call":
        function = Function(body, "function")
        return Sequence("calls", [Call(function) for _ in range(count)]), often
    if kind == "if":
        peer, outer = draw(_bodies(graph, tensors, depth - 1, is_fixed))
        choice = If(tensors["flag"], body, peer, "if")
        return choice, lambda state: inner(state) if state["flag"][0] else outer(state)
    return _counted_down(graph, body, count), often


def _counted_down(graph: Graph, body: Program, count: int) -> Program:
    """Return a loop whose predicate ends it after `count` rounds."""
    mine = graph.add_variable(INT32, (1,), "rounds")
    start, item = (graph.add_constant(np.array([n], np.int32), f"{n}") for n in (count, 1))
    for tensor in (mine, start, item):
        graph.map_linearly(tensor, tiles=[count % graph.machine.n_tiles])
    down = Builder(graph, Sequence("count down"), ROOT)
    down.sequence.add(Copy(binary(down, "subtract", mine, item, (1,)), mine))
    loop = RepeatWhile(Sequence(), mine, Sequence("round", [body, down.sequence]), name="while")
    return Sequence("counted", [Copy(start, mine), loop])


@st.composite
def _steps(
    draw: st.DrawFn, graph: Graph, tensors: dict[str, Tensor], kind: str, is_fixed: bool
) -> tuple[Program, Effect]:
    """Return an operation whose result is copied back, or a copy of a reversed view."""
    names = st.sampled_from(["a", "b", "c"])
    x, y, out = draw(names), draw(names), draw(names)
    build = Builder(graph, Sequence(kind), ROOT)
    if kind == "copy":
        if is_fixed and x == out:
            out = "b" if x == "a" else "a"
        dim = draw(st.integers(0, 1))
        build.sequence.add(Copy(tensors[x].reverse(dim), tensors[out]))
        return build.sequence, lambda state: state.update({out: np.flip(state[x], dim).copy()})
    if kind == "unary":
        built = unary(build, "negate", tensors[x])
        build.sequence.add(Copy(built, tensors[out]))
        return build.sequence, lambda state: state.update({out: -state[x]})
    function, in_numpy = draw(st.sampled_from([("maximum", np.maximum), ("minimum", np.minimum)]))
    built = binary(build, function, tensors[x], tensors[y], tensors[x].shape)
    build.sequence.add(Copy(built, tensors[out]))
    return build.sequence, lambda state: state.update({out: in_numpy(state[x], state[y])})
