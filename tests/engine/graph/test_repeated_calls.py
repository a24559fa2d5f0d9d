"""Equal products of a graph share the arrays of their vertices, and are as if they did not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tilescope.engine import Engine, Graph, compile_programs, load_machine, resolve_options
from tilescope.engine.compiler.executable.executable import Executable
from tilescope.engine.graph import Regions, Tensor
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.poplin.convolution import matmul
from tilescope.engine.library.repeated import repeated
from tilescope.engine.program import Sequence

MACHINE = load_machine("gc200", tiles_per_ipu=64)


class Forgetful(dict[Any, Any]):
    """Forgets what it is given, so that no call finds an equal one."""

    def __setitem__(self, key: Any, value: Any) -> None:
        del key, value


def products(
    rows: Iterable[int],
    weights: Iterable[NDArray[np.float32]],
    split: dict[str, int] | None = None,
    *,
    shares: bool,
) -> tuple[Executable, list[NDArray[Any]]]:
    """Multiply ones, one product after another, and return the program and its results."""
    graph = Graph(MACHINE)
    if not shares:
        graph.steps_of_calls = Forgetful()
    builder = Builder(graph, Sequence("main"))
    inputs: list[Tensor] = []
    outs: list[Tensor] = []
    for i, (n_rows, values) in enumerate(zip(rows, weights, strict=True)):
        # Operands on other tiles for each: that decides their exchanges only.
        a = graph.add_variable("float32", (1, n_rows, values.shape[1]), f"a{i}")
        graph.set_tile_mapping(a, [0], [i])
        inputs.append(a)
        outs.append(matmul(builder, a, values, f"product {i}", split=split))
    executable = compile_programs(graph, [builder.sequence], plans=builder.plans)
    with Engine(executable, resolve_options()) as engine:
        for a in inputs:
            engine.write_tensor(a, np.ones(a.shape, np.float32))
        engine.run()
        return executable, [engine.read_tensor(out) for out in outs]


def drawn(n: int, inner: int, columns: int) -> list[NDArray[np.float32]]:
    random = np.random.default_rng(n)
    full = random.integers(-8, 9, (n, 1, inner, columns))
    return [*full.astype(np.float32)]


def described(regions: Regions) -> tuple[Any, ...]:
    variable = regions.variable
    return variable.name, regions.start.tolist(), regions.size.tolist(), regions.stride.tolist()


def facts(executable: Executable) -> list[Any]:
    graph = executable.graph
    return [
        [
            (v.name, v.debug.name, v.shape, v.map_start.tolist(), v.map_tile.tolist())
            for v in graph.variables
        ],
        [
            (
                *(
                    compute_set.name,
                    compute_set.plan_stage,
                    batch.codelet.name,
                    batch.tile.tolist(),
                ),
                *(described(regions) for regions in batch.fields.values()),
            )
            for compute_set in graph.compute_sets
            for batch in compute_set.batches
        ],
        [
            (step.name, step.kind, step.cost.tile_cycles.values.tolist())
            for step in executable.steps
        ],
        executable.memory.including_gaps.tolist(),
    ]


@pytest.mark.parametrize("split", [None, {"inputs": 8}, {"inputs": 32}], ids=str)
def test_equal_products_are_as_if_none_was_known(split: dict[str, int] | None) -> None:
    weights = drawn(4, 512, 24)
    arguments = [6, 6, 5, 6], weights, split
    executable, results = products(*arguments, shares=True)
    for n_rows, values, result in zip(arguments[0], weights, results, strict=True):
        expected = np.broadcast_to(values.sum(axis=1, keepdims=True), (1, n_rows, 24))
        np.testing.assert_array_equal(result, expected)
    apart, again = products(*arguments, shares=False)
    assert facts(executable) == facts(apart)
    np.testing.assert_array_equal(np.concatenate(results, axis=1), np.concatenate(again, axis=1))
    arrays = [
        compute_set.batches[0].fields["out"].start for compute_set in executable.graph.compute_sets
    ]
    assert len({start.__array_interface__["data"] for start in arrays}) < len(arrays)


def test_products_on_other_tiles_have_vertices_of_their_own() -> None:
    graph = Graph(MACHINE)
    builder = Builder(graph, Sequence("main"))
    outs = []
    for tiles in (range(32), range(32, 64), range(32)):
        a = graph.add_variable("float32", (1, 8, 64), "a")
        graph.map_linearly(a)
        outs.append(matmul(builder.on_tiles(tiles), a, np.ones((1, 64, 16), np.float32)))
    first, second, third = (set(out.variable.map_tile.tolist()) for out in outs)
    assert max(first) < 32 <= min(second)
    assert first == third


def test_a_call_maps_operands_again_and_leaves_those_mapped_in_part_to_the_call() -> None:
    graph = Graph(MACHINE)
    builder = Builder(graph, Sequence("main"))
    n_calls = 0

    def call(x: Tensor) -> Tensor:
        nonlocal n_calls
        n_calls += 1
        graph.set_tile_mapping(x, [0], [7])
        out = graph.add_variable("float32", (4,), "out", builder.debug)
        graph.set_tile_mapping(out, [0, 2], [1, 2])
        return out.slice(0, 1, 3)

    def mapped(rows: slice) -> tuple[list[int], list[int]]:
        tensor = graph.add_variable("float32", (2, 4), "x")
        x = tensor.slice(0, rows.start, rows.stop)
        out = repeated(builder, ("call",), [x], lambda: call(x))
        assert (out.offset, out.shape) == (1, (2,))
        assert out.variable.map_tile.tolist() == [1, 2]
        start, tile = tensor.variable.partial_mapping or (
            tensor.variable.map_start,
            tensor.variable.map_tile,
        )
        return start.tolist(), tile.tolist()

    assert mapped(slice(0, 2)) == mapped(slice(0, 2)) == ([0], [7])
    assert n_calls == 1
    assert mapped(slice(0, 1)) == mapped(slice(0, 1)) == ([0, 4], [7, -1])
    assert n_calls == 3
