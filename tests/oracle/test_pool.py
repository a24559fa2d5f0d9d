"""Pools in two passes, columns and then rows, against the naive machine and compiled programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.planner.busiest import planners_total
from tests.oracle.compared import check, seeds, small_machine, values_for
from tests.oracle.drawn_graphs import new_builder

from tilescope.engine import Builder, Graph, Tensor, compile_programs, load_machine
from tilescope.engine.codelets.popnn.pool import MAX_POOL
from tilescope.engine.library.popnn import pool as library
from tilescope.engine.library.popnn.pool import pool
from tilescope.engine.library.popnn.pool_pass import PoolPass, choose_passes, forms, predicted
from tilescope.engine.library.window import Window
from tilescope.engine.program import Sequence

#: Shapes (images, groups, rows, columns, channels of a group) and windows.
CASES: dict[str, tuple[tuple[int, ...], Window, str]] = {
    "mean of pictures": ((1, 128, 7, 7, 16), Window((7, 7)), "average"),
    "pyramid": ((1, 4, 20, 20, 16), Window((13, 13), (1, 1), (1, 1), (6, 6), (6, 6)), "max"),
    "after the first convolution": (
        (1, 4, 112, 112, 16), Window((3, 3), (2, 2), (1, 1), (1, 1), (1, 1)), "max",
    ),
    "between dense blocks": ((1, 8, 56, 56, 16), Window((2, 2), (2, 2)), "average"),
}  # fmt: skip


def _sources(builder: Builder, shape: tuple[int, ...]) -> Tensor:
    """Return images in the layout that a pool takes without a copy."""
    x = builder.graph.add_variable("float16", shape, "x")
    builder.graph.map_linearly(x, grain=shape[-1])
    return x.dim_shuffle(0, 1, 4, 2, 3).reshape(shape[0], shape[1] * shape[-1], *shape[2:4])


@pytest.mark.parametrize("name", CASES)
def test_the_faster_form_is_taken_and_its_cycles_are_predicted(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Compiled, both forms take at most as long as predicted, and 10 % less at most.

    Exchanges are those of the busiest tile, as planners count them.
    """
    shape, window, kind = CASES[name]
    used: list[int] = []
    cycles: dict[int, int] = {}
    for n_passes in (0, 1, 2):
        expected: list[int] = []

        def chosen(*arguments: Any, n: int = n_passes, out: list[int] = expected) -> Any:
            _, shape, _, *rest = arguments
            passes = forms(shape, *rest)[n - 1] if n else choose_passes(*arguments)
            used.append(len(passes))
            out.append(predicted(arguments[0], passes, arguments[2]).cycles)
            return passes

        monkeypatch.setattr(library, "choose_passes", chosen)
        builder = Builder(Graph(load_machine("c600")), Sequence())
        pool(builder, _sources(builder, shape), window, kind)
        cycles[n_passes] = planners_total(compile_programs(builder.graph, [builder.sequence]))
        assert 0.9 * expected[0] <= cycles[n_passes] <= expected[0]
    assert used == [1 if cycles[1] < cycles[2] else 2, 1, 2]
    assert cycles[0] == min(cycles[1], cycles[2])


def test_two_passes_are_taken_where_one_does_not_fit() -> None:
    """A result of a 640 x 640 window reads 800 KiB of halves, and of 640 columns 1,280 bytes."""
    machine = load_machine("c600")
    builder = Builder(Graph(machine), Sequence())
    x = builder.graph.add_variable("float16", (1, 1, 640, 640), "x")
    builder.graph.map_linearly(x)
    pool(builder, x, Window((640, 640)), "max")
    executable = compile_programs(builder.graph, [builder.sequence])
    assert not executable.overfull_tiles.size
    passes = (PoolPass((1, 1, 640, 640, 1), Window((640, 640)), MAX_POOL),)
    full = predicted(builder.tiles, passes, x.dtype)
    assert full.n_bytes == 640 * 640 * 2 + 2 > machine.allocatable_bytes


@given(
    st.sampled_from(["max", "average", "sum"]),
    st.booleans(),
    st.tuples(*[st.integers(4, 9)] * 2),
    st.tuples(*[st.integers(2, 4)] * 2),
    st.tuples(*[st.integers(1, 3)] * 4),
    st.tuples(*[st.integers(-1, 2)] * 4),
    st.sampled_from([1, 18]),
    seeds,
)
def test_two_passes_compute_what_one_does(
    kind: str, counts_padding: bool, size: Any, kernel: Any, steps: Any, padding: Any,
    channels: int, seed: int,
) -> None:  # fmt: skip
    extents = [(k - 1) * d + 1 for k, d in zip(kernel, steps[2:], strict=True)]
    padding = [min(p, e - 1) for p, e in zip(padding, [*extents, *extents], strict=True)]
    size = [max(n, e + 2) for n, e in zip(size, extents, strict=True)]
    window = Window(
        kernel, steps[:2], steps[2:], (padding[0], padding[1]), (padding[2], padding[3])
    )
    results = []
    for n_passes in (1, 2):
        graph, builder = new_builder(small_machine(3))
        x = graph.add_variable("float32", (1, channels, *size), "x")
        graph.map_linearly(x)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                library,
                "choose_passes",
                lambda _, shape, __, *rest, n=n_passes: forms(shape, *rest)[n - 1],
            )
            counts = counts_padding and kind == "average"
            out = pool(builder, x, window, kind, counts_padding=counts)
        results += check(builder, [(x, values_for(x, seed))], [out])
        names = [c.name for c in graph.compute_sets if "pool" in c.name]
        assert len(names) == n_passes
    np.testing.assert_allclose(results[1], results[0], rtol=1e-5, atol=1e-5)
