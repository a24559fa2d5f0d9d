"""Programs of products: built from the library's vertices, and split by the planner."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np
from numpy.typing import NDArray
from tests.fidelity.read_off import (
    compute_cycles,
    kind_cycles,
    parallel_efficiency,
    steps_of,
    tile_balance,
    total_cycles,
)

from tilescope.engine.codelets.define import codelet
from tilescope.engine.codelets.poplin.convolution import CONV_PARTIAL_1X1
from tilescope.engine.compiler.executable.executable import Executable
from tilescope.engine.graph import Graph, blocks
from tilescope.engine.graph.vertex.codelet import Codelet, Field
from tilescope.engine.graph.vertex.law import Batch
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.poplin.convolution import matmul
from tilescope.engine.machine import Machine, load_machine
from tilescope.engine.program import Execute, Sequence, StreamCopyIn, StreamCopyOut
from tilescope.engine.session.compile import compile_programs

__all__ = [
    "attention_scores",
    "chained_memory",
    "chained_program",
    "chained_time",
    "float8_products",
    "large_products",
    "matrix_vector",
    "matrix_vector_on_first",
    "matrix_vector_programs",
    "on_tile",
    "planned_product",
]

#: Categories that the published list of always-live memory omits.
_CODE_AND_STACK = (
    "stack",
    "controlCode",
    "vertexCode",
    "internalExchangeCode",
    "hostExchangeCode",
    "globalExchangeCode",
)


@cache
def _tutorial_codelets() -> tuple[Codelet, Codelet]:
    """Return the vertices of Poplar tutorial 6 with their declared costs."""

    def dot_law(batch: Batch, _: Machine) -> NDArray[np.int64]:
        return np.asarray(5 + -(-batch.size["a"][:, 0] // 2))

    def sum_law(batch: Batch, _: Machine) -> NDArray[np.int64]:
        return np.asarray(5 + -(-batch.size["partials"][:, 0] // 2))

    @codelet(
        Field("a", "in"),
        Field("x", "in"),
        Field("out", "out"),
        law=dot_law,
        code_bytes=120,
        name="DotProductVertex",
    )
    def dot(a, x, out):  # type: ignore[no-untyped-def]
        out[0] = (a * x).sum()

    @codelet(
        Field("partials", "in", kind="view"),
        Field("out", "out"),
        law=sum_law,
        code_bytes=80,
        name="ReduceVertex",
    )
    def reduce(partials, out):  # type: ignore[no-untyped-def]
        out[0] = partials.sum()

    return dot, reduce


def _shares(size: int, n_parts: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return first elements and lengths of parts that differ by at most one."""
    edges = np.arange(n_parts + 1, dtype=np.int64) * size // n_parts
    return edges[:-1], np.diff(edges)


def _matrix_vector(name: str, split: int, *, with_host: bool = False) -> Executable:
    """Compile the product of tutorial 6, 10,000 x 1,000, with a number of column parts."""
    n_rows, n_columns = 10_000, 1_000
    machine = load_machine(name, parameter_set="ipu_model")
    graph = Graph(machine)
    dot, reduce = _tutorial_codelets()
    matrix = graph.add_variable("float32", (n_rows, n_columns), "matrix")
    vector = graph.add_variable("float32", (n_columns,), "vector")
    partials = graph.add_variable("float32", (split, n_rows), "partials")
    out = graph.add_variable("float32", (n_rows,), "out")
    graph.map_linearly(vector)
    graph.map_linearly(out)

    # Every column part has the same number of tiles, which split the rows.
    tiles_of_part = machine.n_tiles // split
    first, length = _shares(n_columns, split)
    row = np.tile(np.arange(n_rows), split)
    part = np.repeat(np.arange(split), n_rows)
    row_edges = _shares(n_rows, tiles_of_part)[0]
    tile = part * tiles_of_part + np.searchsorted(row_edges, row, side="right") - 1
    begin = row * n_columns + first[part]
    order = np.argsort(begin)
    graph.set_tile_mapping(matrix, begin[order], tile[order])
    graph.set_tile_mapping(partials, part * n_rows + row, tile)

    n = row.size
    products = graph.add_compute_set("dot products")
    fields = {
        "a": blocks(matrix.variable, begin, [length[part]], [1], n),
        "x": blocks(vector.variable, first[part], [length[part]], [1], n),
        "out": blocks(partials.variable, part * n_rows + row, [1], [1], n),
    }
    graph.add_vertices(products, dot, tile, fields)
    sums = graph.add_compute_set("reduction")
    rows = np.arange(n_rows, dtype=np.int64)
    fields = {
        "partials": blocks(partials.variable, rows, [split], [n_rows], n_rows),
        "out": blocks(out.variable, rows, [1], [1], n_rows),
    }
    graph.add_vertices(sums, reduce, out.variable.tile_of(rows), fields)
    program = Sequence("main")
    if with_host:
        program.add(StreamCopyIn("inputVector", vector))
        program.add(StreamCopyIn("inputMatrix", matrix))
    program.add(Execute(products))
    program.add(Execute(sums))
    if with_host:
        program.add(StreamCopyOut(out, "out"))
    return compile_programs(graph, [program])


def _phases(made: Executable) -> Mapping[str, float]:
    """Return the cycles of the four phases of that product, and their sum."""
    phases = {
        "dot products": compute_cycles(made, "dot products"),
        "exchange of the vector": kind_cycles(made, "DoExchange", "dot products"),
        "exchange of partial sums": kind_cycles(made, "DoExchange", "reduction"),
        "reduction": compute_cycles(made, "reduction"),
    }
    return {**phases, "total": sum(phases.values())}


def matrix_vector() -> Mapping[str, float]:
    """Return the phases of the product as planned by tutorial 6, with 7 column parts."""
    return _phases(_matrix_vector("gc200", 7))


def matrix_vector_on_first() -> Mapping[str, float]:
    """Return the phases of the plan for the first generation, with 5 parts."""
    return _phases(_matrix_vector("gc2", 5))


def matrix_vector_programs() -> Mapping[str, float]:
    """Return the cycles of the whole programs, including the copies in and out."""
    figures = {}
    for label, name, split in (("Mk1", "gc2", 5), ("Mk2", "gc200", 7)):
        built = _matrix_vector(name, split, with_host=True)
        busy = sum(int(step.cost.tile_cycles.sum()) for step in steps_of(built, "OnTileExecute"))
        figures[f"{label}, total"] = float(total_cycles(built))
        figures[f"{label}, compute, mean of the tiles"] = busy / built.machine.n_tiles
    return figures


def _one_vertex_a_tile(machine: Machine, rows: NDArray[np.int64], inner: int) -> Executable:
    """Compile local products [rows, inner] x [inner, 16] of halves, one per tile."""
    graph = Graph(machine)
    n, depth = rows.size, machine.half_conv_inputs
    groups = inner // depth
    tiles = np.arange(n)
    start = np.append(0, np.cumsum(rows))[:-1]
    total = int(rows.sum())
    x = graph.add_variable("float16", (total * inner,), "x")
    w = graph.add_variable("float16", (n * inner * 16,), "w")
    out = graph.add_variable("float16", (total * 16,), "out")
    graph.set_tile_mapping(x, start * inner, tiles)
    graph.set_tile_mapping(w, tiles * inner * 16, tiles)
    graph.set_tile_mapping(out, start * 16, tiles)
    fields = {
        "x": blocks(
            x.variable,
            start * inner,
            [1, 1, groups, 1, rows, depth],
            [0, 0, rows * depth, rows * depth, depth, 1],
            n,
        ),
        "w": blocks(
            w.variable,
            tiles * inner * 16,
            [1, 1, groups, 1, 1, depth, 16],
            [0, 0, depth * 16, depth * 16, depth * 16, 16, 1],
            n,
        ),
        "out": blocks(
            out.variable, start * 16, [1, 1, 1, 1, rows, 16], [0, 0, 0, rows * 16, 16, 1], n
        ),
    }
    scalars: dict[str, NDArray[np.int64] | int] = {
        **dict.fromkeys(("stride_y", "stride_x", "dilation_y", "dilation_x"), 1),
        "shift_y": 0,
        "shift_x": 0,
        "combined": 1,
        "requested": 16,
        "products": rows * inner * 16,
    }
    convolve = graph.add_compute_set("convolve")
    graph.add_vertices(convolve, CONV_PARTIAL_1X1, tiles, fields, scalars)
    return compile_programs(graph, [Execute(convolve)])


def on_tile() -> Mapping[str, float]:
    """Return the rate of all tiles when every tile multiplies [N, 16] x [16, 16], TFLOP/s."""
    machine = load_machine("bow")
    rates = {}
    for n in (16, 64, 256, 1024):
        built = _one_vertex_a_tile(machine, np.full(machine.n_tiles, n, dtype=np.int64), 16)
        (step,) = built.steps
        seconds = int(step.cost.cycles[0]) / machine.clock_hz
        rates[f"N = {n}"] = int(step.cost.flops[0]) / seconds / 1e12
    return rates


def attention_scores() -> Mapping[str, float]:
    """Return the cycles of 16 heads of scores in the published partition."""
    machine = load_machine("c600")
    rows = np.tile(np.repeat(np.array([365, 364], dtype=np.int64), 46), 16)
    return {"convolve": compute_cycles(_one_vertex_a_tile(machine, rows, 80))}


def planned_product(dtype: str, batch: int, sizes: tuple[int, int, int]) -> int:
    """Return the cycles of the longest tile of a product on a C600, partial sums in half."""
    rows, inner, columns = sizes
    graph = Graph(load_machine("c600"))
    a = graph.add_variable(dtype, (batch, rows, inner), "a")
    b = graph.add_variable(dtype, (batch, inner, columns), "b")
    graph.map_linearly(a, grain=16)
    graph.map_linearly(b, grain=16)
    program = Sequence("main")
    matmul(Builder(graph, program), a, b, partials_type="half")
    return compute_cycles(compile_programs(graph, [program]), "convolve")


def large_products() -> Mapping[str, float]:
    """Return the cycles of the product's compute set for two layers of a vision transformer."""
    return {
        f"729 x 1152 x {columns}": planned_product("float16", 1, (729, 1152, columns))
        for columns in (3456, 4304)
    }


def float8_products() -> Mapping[str, float]:
    """Return the cycles of the product's compute set for float8 layers of a vision transformer."""
    shapes = {
        "729 x 1152 x 3456": (1, 729, 1152, 3456),
        "729 x 4304 x 1152": (1, 729, 4304, 1152),
        "probabilities by values": (16, 729, 729, 72),
    }
    return {
        name: planned_product("float8_143", batch, (rows, inner, columns))
        for name, (batch, rows, inner, columns) in shapes.items()
    }


@cache
def chained_program() -> Executable:
    """Compile the two products of tutorial 4; the matrices keep their values between runs."""
    graph = Graph(load_machine("gc200", parameter_set="ipu_model"))
    shapes = {"m1": (1, 800, 500), "m2": (1, 500, 400), "m3": (1, 400, 200)}
    matrices = {name: graph.add_variable("float32", shape, name) for name, shape in shapes.items()}
    for matrix in matrices.values():
        graph.map_linearly(matrix)
    program = Sequence("main")
    builder = Builder(graph, program)
    m4 = matmul(builder, matrices["m1"], matrices["m2"], "m4")
    matmul(builder, m4, matrices["m3"], "m5")
    return compile_programs(graph, [program], plans=builder.plans)


def chained_time() -> Mapping[str, float]:
    """Return cycles, efficiency and balance of the program of tutorial 4."""
    built = chained_program()
    return {
        "total": total_cycles(built),
        "first product, convolve": compute_cycles(built, "m4/convolve"),
        "first product, reduce": compute_cycles(built, "m4/reduce"),
        "parallel efficiency": parallel_efficiency(built),
        "tile balance": tile_balance(built),
    }


def chained_memory() -> Mapping[str, float]:
    """Return the memory of the program of tutorial 4."""
    memory = chained_program().memory
    code = sum(int(memory.categories[name].sum()) for name in _CODE_AND_STACK)
    idle = np.sort(memory.excluding_gaps)[:72]  # the published number of idle tiles
    return {
        "excluding gaps": int(memory.excluding_gaps.sum()) / 1e6,
        "including gaps": int(memory.including_gaps.sum()) / 1e6,
        "always live, without code and stack": (int(memory.always_live.sum()) - code) / 1e6,
        "peak of what comes and goes": int(memory.live.totals.max()) / 1e6,
        "a tile without work": float(idle.mean()) / 1e3,
    }
