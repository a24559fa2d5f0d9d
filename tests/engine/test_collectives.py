"""Collectives between replicas: what every replica holds in the end, computed in numpy."""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from tilescope.engine import Builder, Engine, Graph, compile_programs, load_machine
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import Tensor, View
from tilescope.engine.library.comm_group import CommGroup
from tilescope.engine.library.gcl.cross_replica import (
    all_gather_cross_replica,
    all_reduce_cross_replica,
    all_reduce_in_place_cross_replica,
    all_to_all_cross_replica,
    broadcast_cross_replica,
    reduce_scatter_cross_replica,
)
from tilescope.engine.library.gcl.rings import METHODS, Ring, method_of
from tilescope.engine.library.gcl.within_replica import (
    all_gather_within_replica,
    all_reduce_within_replica,
    reduce_scatter_within_replica,
)
from tilescope.engine.program import Sequence

_ALL = CommGroup()
_TYPES = {"float32": np.float32, "float16": np.float16, "int32": np.int32, "bool": np.bool_}


def results(
    collective: Callable[[Builder, Tensor], Tensor | None],
    values: NDArray[Any],
    dtype: str = "float32",
    n_ipus: int = 1,
    tiles: int = 6,
    mapping: NDArray[np.int32] | None = None,
) -> list[NDArray[Any]]:
    """Run a collective; return what every replica gets.

    Parameters
    ----------
    values : ndarray, shape (n_replicas, …)
        What the replicas have.
    mapping : ndarray of int32
        Tile of every element; None spreads them.
    """
    machine = load_machine("gc200", n_ipus=n_ipus, n_replicas=len(values), tiles_per_ipu=tiles)
    graph = Graph(machine)
    x = graph.add_variable(dtype, values.shape[1:], "x")
    if mapping is None:
        graph.map_linearly(x)
    else:
        graph.set_tile_mapping(x, np.arange(mapping.size), mapping)
    builder = Builder(graph, Sequence("main"))
    out = collective(builder, x)
    out = x if out is None else out
    executable = compile_programs(graph, [builder.sequence], is_checked=True)
    with Engine(executable) as engine:
        for replica, array in enumerate(values):
            engine.write_tensor(x, array, replica)
        engine.run()
        return [engine.read_tensor(out, replica) for replica in range(len(values))]


def whole(n_replicas: int, shape: tuple[int, ...], seed: int = 0) -> NDArray[np.float32]:
    """Return small whole numbers, whose sums are exact."""
    drawn = np.random.default_rng(seed).integers(-8, 8, (n_replicas, *shape))
    return drawn.astype(np.float32)


@pytest.mark.parametrize("method", ["auto", *METHODS])
@pytest.mark.parametrize("n_replicas", [1, 2, 3, 4, 5, 8])
def test_a_sum_is_the_same_on_all_replicas(n_replicas: int, method: str) -> None:
    values = whole(n_replicas, (5, 7))
    for array in results(
        lambda builder, x: all_reduce_cross_replica(builder, x, "add", _ALL, method), values
    ):
        np.testing.assert_array_equal(array, values.sum(axis=0))


@pytest.mark.parametrize("method", ["auto", *METHODS])
@pytest.mark.parametrize("n_replicas", [2, 3])
def test_replicas_of_several_ipus_and_any_mapping(n_replicas: int, method: str) -> None:
    values = whole(n_replicas, (40,))
    mapping = np.random.default_rng(1).integers(0, 12, 40).astype(np.int32)
    for array in results(
        lambda builder, x: all_reduce_in_place_cross_replica(builder, x, "add", _ALL, method),
        values,
        n_ipus=2,
        mapping=mapping,
    ):
        np.testing.assert_array_equal(array, values.sum(axis=0))


@pytest.mark.parametrize(
    ("operation", "dtype", "function"),
    [
        ("add", "float16", lambda v: v.sum(axis=0)),
        ("add", "int32", lambda v: v.sum(axis=0)),
        ("mean", "float32", lambda v: v.mean(axis=0)),
        ("square_add", "float32", lambda v: (v * v).sum(axis=0)),
        ("mul", "float32", lambda v: v.prod(axis=0)),
        ("min", "int32", lambda v: v.min(axis=0)),
        ("max", "float16", lambda v: v.max(axis=0)),
        ("logical_and", "bool", lambda v: v.all(axis=0)),
        ("logical_or", "bool", lambda v: v.any(axis=0)),
    ],
)
def test_operators(operation: str, dtype: str, function: Callable[[Any], Any]) -> None:
    values: NDArray[Any] = whole(4, (30,))
    if dtype == "bool":
        values = np.random.default_rng(0).integers(0, 4, (4, 30)) > 1
    arrays = results(
        lambda builder, x: all_reduce_cross_replica(builder, x, operation), values, dtype
    )
    for array in arrays:
        assert array.dtype == _TYPES[dtype]
        np.testing.assert_array_equal(array, function(values))
    shares = results(
        lambda builder, x: reduce_scatter_cross_replica(builder, x, operation), values, dtype
    )
    expected = np.zeros(32, values.dtype)
    expected[:30] = function(values)
    np.testing.assert_array_equal(np.concatenate(shares), expected)


@pytest.mark.parametrize(
    "collective",
    [
        all_reduce_cross_replica,
        all_reduce_in_place_cross_replica,
        reduce_scatter_cross_replica,
        all_gather_cross_replica,
        all_to_all_cross_replica,
        broadcast_cross_replica,
    ],
)
@pytest.mark.parametrize("method", ["auto", *METHODS])
def test_nothing_stays_in_memory_between_collectives(
    collective: Callable[..., Any], method: str
) -> None:
    """Only what the collective is given; its parts have padding that nothing writes."""
    graph = Graph(load_machine("gc200", n_replicas=4, tiles_per_ipu=6))
    x = graph.add_variable("float32", (4, 23), "x")
    graph.map_linearly(x)
    builder = Builder(graph, Sequence("main"))
    without_methods = {all_to_all_cross_replica, broadcast_cross_replica}
    settings = {} if collective in without_methods else {"method": method}
    collective(builder, x, **settings)
    executable = compile_programs(graph, [builder.sequence])
    always = executable.memory.is_always_live
    stays = {v.name for v in executable.graph.variables if always[v.variable_id]}
    assert {name for name in stays if not name.endswith("/replica")} <= {"x"}


@pytest.mark.parametrize("method", ["auto", *METHODS])
@pytest.mark.parametrize("n_replicas", [1, 2, 3, 4, 7])
def test_shares_and_all_of_them(n_replicas: int, method: str) -> None:
    values = whole(n_replicas, (3, 9))
    shares = results(
        lambda builder, x: reduce_scatter_cross_replica(builder, x, "add", _ALL, method), values
    )
    size = -(-27 // n_replicas)
    assert {share.shape for share in shares} == {(size,)}
    total = np.zeros(size * n_replicas, np.float32)
    total[:27] = values.sum(axis=0).reshape(-1)
    np.testing.assert_array_equal(np.concatenate(shares), total)
    for array in results(
        lambda builder, x: all_gather_cross_replica(builder, x, _ALL, method), values
    ):
        np.testing.assert_array_equal(array, values)


_SHAPES = {"x": (4, 7), "part": (6, 3), "y": (11,)}


@pytest.mark.parametrize("is_turned", [False, True])
def test_tensors_that_travel_together(is_turned: bool) -> None:
    """A whole variable in any order is summed where it is, a part of one by a copy."""
    graph = Graph(load_machine("gc200", n_replicas=3, tiles_per_ipu=6))
    variables = [graph.add_variable("float32", shape, name) for name, shape in _SHAPES.items()]
    for variable in variables:
        graph.map_linearly(variable)
    x, part, y = variables
    views = [x.dim_shuffle(1, 0) if is_turned else x, part.slice(0, 1, 4), y]
    builder = Builder(graph, Sequence("main"))
    all_reduce_in_place_cross_replica(builder, views)
    names = [variable.name for variable in graph.variables]
    assert names.count("allReduce/all") == 1, "only the part is copied"
    values = {name: whole(3, shape, seed) for seed, (name, shape) in enumerate(_SHAPES.items())}
    with Engine(compile_programs(graph, [builder.sequence], is_checked=True)) as engine:
        for variable in variables:
            for replica in range(3):
                engine.write_tensor(variable, values[variable.name][replica], replica)
        engine.run()
        for replica in range(3):
            for variable in variables:
                array, expected = values[variable.name], values[variable.name].sum(axis=0)
                if variable is part:
                    own = array[replica]
                    expected = np.concatenate([own[:1], expected[1:4], own[4:]])
                np.testing.assert_array_equal(engine.read_tensor(variable, replica), expected)


def test_a_share_of_its_own() -> None:
    values = whole(3, (7,))
    shares = results(lambda builder, x: reduce_scatter_cross_replica(builder, x, "local"), values)
    for replica, share in enumerate(shares):
        padded = np.zeros(9, np.float32)
        padded[:7] = values[replica]
        np.testing.assert_array_equal(share, padded[3 * replica : 3 * replica + 3])


@pytest.mark.parametrize("n_replicas", [1, 2, 3, 6])
def test_rows_for_each_other(n_replicas: int) -> None:
    values = whole(n_replicas, (n_replicas, 5))
    arrays = results(all_to_all_cross_replica, values)
    for replica, array in enumerate(arrays):
        np.testing.assert_array_equal(array, values[:, replica])


def test_one_replica_s_tensor_for_all() -> None:
    values = whole(5, (11,))
    for array in results(lambda builder, x: broadcast_cross_replica(builder, x, 3), values):
        np.testing.assert_array_equal(array, values[3])


@pytest.mark.parametrize(
    ("group", "groups"),
    [
        (CommGroup("consecutive", 2), [[0, 1], [2, 3], [4, 5]]),
        (CommGroup("orthogonal", 2), [[0, 3], [1, 4], [2, 5]]),
        (CommGroup("orthogonal", 3), [[0, 2, 4], [1, 3, 5]]),
        (CommGroup("none"), [[0], [1], [2], [3], [4], [5]]),
        (CommGroup("all"), [[0, 1, 2, 3, 4, 5]]),
        (CommGroup("all", 3, stride=2), [[0, 2, 4], [1, 3, 5]]),
    ],
)
def test_groups(group: CommGroup, groups: list[list[int]]) -> None:
    values = whole(6, (6,))
    sums = results(lambda builder, x: all_reduce_cross_replica(builder, x, "add", group), values)
    gathered = results(lambda builder, x: all_gather_cross_replica(builder, x, group), values)
    sent = results(lambda builder, x: broadcast_cross_replica(builder, x, 0, group), values)
    for members in groups:
        for replica in members:
            np.testing.assert_array_equal(sums[replica], values[members].sum(axis=0))
            np.testing.assert_array_equal(gathered[replica], values[members])
            np.testing.assert_array_equal(sent[replica], values[members[0]])


def test_a_ring_goes_up_one_side_of_the_ladder_and_down_the_other() -> None:
    machine = load_machine("gc200", n_replicas=8)
    assert Ring.of(machine, _ALL).members == (0, 2, 4, 6, 7, 5, 3, 1)
    torus = load_machine("gc200", n_ipus=2, n_replicas=4, link_topology="torus")
    assert Ring.of(torus, _ALL).members == (0, 1, 2, 3)
    ring = Ring.of(load_machine("gc200", n_replicas=5), _ALL)
    assert ring.members == (0, 2, 4, 3, 1)
    assert ring.by_place(lambda place: place - 1) == (1, 3, 0, 4, 2)


@pytest.mark.parametrize(
    ("n_replicas", "n_ipus", "topology", "n_bytes", "expected"),
    [
        (2, 1, "ladder", 1 << 30, "clockwise_ring"),
        (4, 1, "ladder", 1_245_183, "meet_in_middle_ring"),
        (4, 1, "ladder", 1_245_184, "bidirectional_ring_pair"),
        (16, 1, "ladder", 39_845_887, "meet_in_middle_ring"),
        (16, 1, "ladder", 39_845_888, "bidirectional_ring_pair"),
        (64, 1, "ladder", 40 << 20, "meet_in_middle_ring"),
        (4, 2, "ladder", 1 << 20, "clockwise_ring"),
        (4, 2, "torus", 1 << 20, "meet_in_middle_ring"),
    ],
)
def test_the_method_is_planned_by_size(
    n_replicas: int, n_ipus: int, topology: str, n_bytes: int, expected: str
) -> None:
    machine = load_machine("gc200", n_ipus=n_ipus, n_replicas=n_replicas, link_topology=topology)
    assert method_of(machine, Ring.of(machine, _ALL), n_bytes, is_gather=False) == expected


def test_every_byte_that_has_to_travel_does_and_no_more() -> None:
    """A sum over n replicas sends 2 (n - 1) / n of its bytes from every one."""
    machine = load_machine("gc200", n_replicas=4, tiles_per_ipu=8)
    graph = Graph(machine)
    x = graph.add_variable("float32", (8 * 16,), "x")
    graph.map_linearly(x)
    builder = Builder(graph, Sequence("main"))
    all_reduce_in_place_cross_replica(builder, x, method="clockwise_ring")
    executable = compile_programs(graph, [builder.sequence])
    with Engine(executable) as engine:
        engine.run()
        (timeline,) = engine.timelines()
    executed = np.zeros(len(executable.steps), np.int64)
    np.add.at(executed, timeline.step_id, timeline.count)
    sent = sum(
        int(step.cost.link_out_bytes.sum()) * int(executed[step.step_id])
        for step in executable.steps
    )
    assert sent == 2 * 3 * x.variable.n_bytes // 4


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda b, x: all_reduce_cross_replica(b, x, "sum"), "operator is 'sum'; choose add"),
        (lambda b, x: all_reduce_cross_replica(b, x, "logical_and"), "logical_and is for bool"),
        (lambda b, x: all_reduce_cross_replica(b, x, "add", _ALL, "tree"), "method is 'tree'"),
        (lambda b, x: all_gather_cross_replica(b, x, CommGroup("consecutive", 3)), "of 3 replicas"),
        (
            lambda b, x: all_reduce_in_place_cross_replica(
                b, [x, b.graph.add_variable("int32", (2,), "n")]
            ),
            "tensors that travel together have one type",
        ),
        (all_to_all_cross_replica, "needs a row for each of 4 replicas"),
        (lambda b, x: broadcast_cross_replica(b, x, 4), "a group has replicas 0 to 3"),
        (
            lambda b, x: all_gather_cross_replica(b, x, cast(Any, 3)),
            "expected an engine.library.comm_group",
        ),
    ],
)
def test_wrong_arguments(call: Callable[[Builder, Tensor], object], message: str) -> None:
    graph = Graph(load_machine("gc200", n_replicas=4, tiles_per_ipu=4))
    x = graph.add_variable("float32", (6,), "x")
    graph.map_linearly(x)
    with pytest.raises(BadGraph, match=message):
        call(Builder(graph, Sequence("main")), x)


@pytest.mark.parametrize("arguments", [("some",), ("consecutive", -1), ("all", 2, -1)])
def test_wrong_groups(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(BadGraph):
        CommGroup(*arguments)


def _within(
    collective: Callable[[Builder, Tensor], View], values: NDArray[Any]
) -> tuple[NDArray[Any], list[int]]:
    """Return the result of a collective between IPUs, and the bytes that each IPU sends."""
    n = len(values)
    graph = Graph(load_machine("gc200", n_ipus=n, tiles_per_ipu=4))
    x = graph.add_variable("float32", values.shape, "x")
    for ipu in range(n):
        row = x.slice(0, ipu, ipu + 1).flatten()
        graph.map_linearly(row, tiles=range(4 * ipu, 4 * ipu + 4))
    builder = Builder(graph, Sequence("main"))
    out = collective(builder, x)
    executable = compile_programs(graph, [builder.sequence], is_checked=True)
    with Engine(executable) as engine:
        engine.write_tensor(x, values)
        engine.run()
        sent = sum(step.cost.link_out_bytes.dense() for step in executable.steps)
        return engine.read_tensor(out), np.broadcast_to(sent, n).tolist()


@pytest.mark.parametrize("n_ipus", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("n_elements", [5, 24])
def test_ipus_of_one_replica(n_ipus: int, n_elements: int) -> None:
    values = whole(n_ipus, (n_elements,))
    total = values.sum(axis=0)
    every, sent = _within(all_reduce_within_replica, values)
    np.testing.assert_array_equal(every, np.broadcast_to(total, values.shape))
    if n_elements % n_ipus == 0:
        assert sent == [2 * (n_ipus - 1) * n_elements * 4 // n_ipus] * n_ipus, "the least there is"
    shares, _ = _within(reduce_scatter_within_replica, values)
    np.testing.assert_array_equal(shares, total)
    gathered, _ = _within(all_gather_within_replica, values)
    np.testing.assert_array_equal(gathered, np.broadcast_to(values, (n_ipus, *values.shape)))


def test_other_operators_within_a_replica() -> None:
    values = whole(3, (7,))
    largest, _ = _within(lambda b, x: all_reduce_within_replica(b, x, "max"), values)
    np.testing.assert_array_equal(largest[2], values.max(axis=0))
    with pytest.raises(BadGraph, match="operator is 'mean'; choose add, mul, min, max"):
        _within(lambda b, x: all_reduce_within_replica(b, x, "mean"), values)
    with pytest.raises(BadGraph, match="needs a row for each of 3 IPUs"):
        _within(lambda b, x: all_reduce_within_replica(b, x.reshape(7, 3)), values)


def test_shares_of_a_tensor_in_another_order() -> None:
    """Of an odd number of elements, transposed: no share is a view of the tensor."""
    values = np.random.default_rng(3).standard_normal((2, 7, 9)).astype(np.float32)
    shares = results(
        lambda builder, x: reduce_scatter_cross_replica(builder, x.dim_shuffle(1, 0)), values
    )
    total = np.zeros(64, np.float32)
    total[:63] = values.sum(0).T.reshape(-1)
    np.testing.assert_allclose(np.concatenate(shares), total, rtol=1e-6, atol=1e-6)
