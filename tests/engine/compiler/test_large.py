"""Programs far beyond their machine: compiled in bounded memory, or rejected with an error."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilescope.engine import Builder, Graph, Tensor, compile_programs, load_machine
from tilescope.engine.compiler.elements_by_tile import elements_by_tile
from tilescope.engine.errors import RunFailed
from tilescope.engine.graph import ROOT
from tilescope.engine.host import memory as host_memory
from tilescope.engine.host.memory import available_bytes, within_available
from tilescope.engine.intervals import runs
from tilescope.engine.library.poplin.convolution import matmul
from tilescope.engine.program import Copy, Sequence, StreamCopyIn, StreamCopyOut


def new(n_tiles: int) -> Graph:
    return Graph(load_machine("gc200", tiles_per_ipu=n_tiles))


def variable(graph: Graph, name: str, shape: tuple[int, ...], grain: int = 1) -> Tensor:
    tensor = graph.add_variable("float32", shape, name)
    graph.map_linearly(tensor, grain=grain)
    return tensor


@pytest.fixture
def _one_gigabyte_more() -> Iterator[None]:
    """Limit the additional memory of a test to a gigabyte."""
    with open("/proc/self/status", encoding="ascii") as status:
        (line,) = (line for line in status if line.startswith("VmData:"))
    limits = resource.getrlimit(resource.RLIMIT_DATA)
    maximum = int(line.split()[1]) * 1024 + 10**9
    resource.setrlimit(resource.RLIMIT_DATA, (maximum, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_DATA, limits)


@pytest.mark.usefixtures("_one_gigabyte_more")
def test_a_product_far_beyond_its_tiles_is_compiled() -> None:
    graph = new(16)
    builder = Builder(graph, Sequence("program"), ROOT)
    n = 4096
    x, y = (variable(graph, name, (1, n, n), grain=4) for name in "xy")
    builder.sequence.add(StreamCopyIn("x", x), StreamCopyIn("y", y))
    builder.sequence.add(StreamCopyOut(matmul(builder, x, y), "z"))
    executable = compile_programs(graph, [builder.sequence])
    assert executable.overfull_tiles.size == 16
    # At least three matrices are on the tiles at once.
    assert executable.memory.including_gaps.sum() > 3 * n * n * 4
    worst = executable.steps[int(executable.memory.live.peak_step[0])]
    assert worst.kind == "OnTileExecute"


@pytest.mark.usefixtures("_one_gigabyte_more")
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_stream_of_any_view_of_a_huge_variable(order: tuple[int, int]) -> None:
    graph = new(4)
    n = 16_000  # a gigabyte, of which no element has an index
    x = variable(graph, "x", (n, n))
    executable = compile_programs(graph, [StreamCopyOut(x.dim_shuffle(*order), "out")])
    cost = executable.steps[1].cost
    assert cost.host_out_bytes.tolist() == [n * n * 4]
    assert cost.sent_bytes.tolist() == [n * n] * 4


def test_a_copy_of_more_fragments_than_this_computer_can_hold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runs, "available_bytes", lambda: 500_000_000)
    graph = new(1472)
    x, y = (variable(graph, name, (1 << 14, 1 << 14)) for name in "xy")
    with pytest.raises(RunFailed) as refused:
        compile_programs(graph, [Copy(x.dim_shuffle(1, 0), y, "turn")])
    assert "in 'turn' touch at least" in str(refused.value)
    assert "this computer has 0.5 GB free" in str(refused.value)


def test_within_what_is_available_allocations_fail_and_then_do_not() -> None:
    before = resource.getrlimit(resource.RLIMIT_DATA)
    too_much = 2 * available_bytes()
    with within_available(), pytest.raises(MemoryError):
        np.empty(too_much, np.uint8)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


def test_a_container_s_own_limit_counts_without_the_files_it_has_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_memory, "_CGROUP", tmp_path)
    full = available_bytes()
    assert full > 10_000
    (tmp_path / "memory.max").write_text("9000\n")
    (tmp_path / "memory.current").write_text("8000\n")
    (tmp_path / "memory.stat").write_text("anon 3000\ninactive_file 4000\nactive_file 1000\n")
    assert available_bytes() == 6_000
    (tmp_path / "memory.max").write_text("max\n")
    assert available_bytes() > 10_000


@given(
    st.permutations([0, 1, 2]),
    st.lists(st.integers(0, 2), max_size=2),
    st.tuples(st.integers(0, 3), st.integers(1, 3)),
    st.lists(st.integers(1, 59), max_size=6, unique=True),
    st.sampled_from([None, (2, 3, 4, 5), (7, 3, 4, 5)]),
)
def test_elements_follow_the_tile_mapping(
    order: list[int],
    reversed_dims: list[int],
    cut: tuple[int, int],
    edges: list[int],
    stretched: tuple[int, ...] | None,
) -> None:
    graph = new(4)
    tensor = graph.add_variable("float32", (3, 4, 5), "x")
    starts = [0, *sorted(edges)]
    graph.set_tile_mapping(tensor, starts, [i * 3 % 4 for i in range(len(starts))])
    if stretched is not None:
        tensor = tensor.broadcast_to(stretched)
        tensor = tensor.dim_shuffle(0, *(1 + d for d in order))
    else:
        tensor = tensor.slice(1, cut[0], min(4, cut[0] + cut[1])).dim_shuffle(*order)
    for dim in reversed_dims:
        tensor = tensor.reverse(dim)
    owners = tensor.variable.tile_of(_elements(tensor))
    expected = np.bincount(owners, minlength=4)
    assert elements_by_tile(tensor, 4).tolist() == expected.tolist()


def _elements(tensor: Tensor) -> np.ndarray:
    """Return the variable's element behind every element of a view."""
    actual = np.array([tensor.offset])
    for dim in tensor.dims:
        for size, stride in dim:
            actual = (actual[:, None] + np.arange(size) * stride).reshape(-1)
    return actual
