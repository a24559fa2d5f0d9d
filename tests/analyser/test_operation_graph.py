"""The graph of operations, computed on paper: groups, sums, alignment, what is opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tilescope import analyser
from tilescope.analyser.graph.operation_graph import (
    Figures,
    GraphSide,
    OperationGraph,
    graph_side,
    operation_graph,
)
from tilescope.analyser.program.dataflow import Dataflow, operation_flows
from tilescope.analyser.program.operations import Operation, Operations, operations
from tilescope.engine import (
    Builder,
    Engine,
    Graph,
    compile_programs,
    load_machine,
    resolve_options,
)
from tilescope.engine.library.popops.elementwise.operations import unary
from tilescope.engine.program import Copy
from tilescope.engine.program import Sequence as ProgramSequence


def _operation(number: int, name: str, cycles: int = 10, *, kind: str = "map") -> Operation:
    return Operation(number, name, kind, cycles, cycles, 0, None, 100, 20 + number, 3, 1)


def _side(
    names: Sequence[str] | Mapping[str, int], flows: Mapping[tuple[int, int], int]
) -> GraphSide:
    """Return operations in program order, with cycles if given, and flows between them."""
    cycles = names if isinstance(names, Mapping) else dict.fromkeys(names, 10)
    actual = tuple(
        _operation(i, name, cycles[name], kind="sum" if name == "new" else "map")
        for i, name in enumerate(names)
    )
    listed = Operations("library", actual, 1000, 1)
    return GraphSide(listed, Dataflow(bool(flows), flows), {i: i for i in range(len(actual))})


#: A layer of two groups between an input and an output.
_NAMES = ("in", "net/attention/q", "net/attention/k", "net/mlp/up", "net/mlp/down", "out")
_FLOWS = {(0, 1): 8, (0, 2): 8, (1, 3): 16, (2, 3): 4, (1, 4): 2, (3, 4): 32, (4, 5): 64}


def _lines(graph: OperationGraph) -> dict[tuple[str, str], int | None]:
    return {
        (graph.boxes[edge.source].label, graph.boxes[edge.target].label): edge.baseline_bytes
        for edge in graph.edges
    }


def test_groups_are_opened_while_few_boxes_are_visible() -> None:
    graph = operation_graph([_side(_NAMES, _FLOWS)])
    assert [box.label for box in graph.boxes] == ["in", "q", "k", "up", "down", "out"]
    assert [box.place for box in graph.boxes] == [
        "", "net / attention", "net / attention", "net / mlp", "net / mlp", "",
    ]  # fmt: skip
    assert graph.boxes[1].around == ("net/", "net/attention/")
    assert [group.key for group in graph.open_groups] == ["net/", "net/attention/", "net/mlp/"]
    assert graph.is_recorded == (True,)


@pytest.mark.parametrize(
    ("depth", "labels"),
    [
        (1, ["in", "net", "out"]),
        (2, ["in", "attention", "mlp", "out"]),
        (3, ["in", "q", "k", "up", "down", "out"]),
    ],
)
def test_levels_are_opened_one_by_one(depth: int, labels: list[str]) -> None:
    graph = operation_graph([_side(_NAMES, _FLOWS)], depth=depth)
    assert [box.label for box in graph.boxes] == labels


def test_figures_and_lines_of_a_group_are_sums() -> None:
    cycles = dict(zip(_NAMES, (1, 20, 300, 4000, 50_000, 6), strict=True))
    graph = operation_graph([_side(cycles, _FLOWS)], depth=2)
    _, attention, mlp, _ = graph.boxes
    assert attention.baseline == Figures(320, 6, 2 * 100 + 21 + 22)
    assert mlp.baseline == Figures(54_000, 6, 2 * 100 + 23 + 24)
    assert (attention.n_operations, attention.is_group, attention.key) == (
        2,
        True,
        "net/attention/",
    )
    assert _lines(graph) == {
        ("in", "attention"): 16,
        ("attention", "mlp"): 22,
        ("mlp", "out"): 64,
    }


def test_a_toggled_group_is_closed_or_opened_and_the_chosen_operation_is_found() -> None:
    side = _side(_NAMES, _FLOWS)
    closed = operation_graph([side], toggled=["net/mlp/"], chosen="net/mlp/down")
    assert [box.label for box in closed.boxes] == ["in", "q", "k", "mlp", "out"]
    assert closed.chosen == 3
    opened = operation_graph([side], depth=2, toggled=["net/mlp/"], chosen="net/mlp/down")
    assert [box.label for box in opened.boxes] == ["in", "attention", "up", "down", "out"]
    assert opened.chosen == 3
    assert operation_graph([side], chosen="elsewhere").chosen is None


def test_a_name_may_be_that_of_a_group_and_names_may_repeat() -> None:
    graph = operation_graph([_side(("a", "a/b", "a/c", "/d//e"), {})])
    assert [box.key for box in graph.boxes] == ["a", "a/b", "a/c", "/d//e"]
    assert [box.label for box in graph.boxes] == ["a", "b", "c", "d//e"]
    twice = Operations("library", (_operation(0, "x"), _operation(1, "x")), 20, 1)
    graph = operation_graph([GraphSide(twice, Dataflow(False, {}), {0: 0, 1: 1})])
    assert [(box.key, box.label) for box in graph.boxes] == [("x", "x"), ("x#2", "x#2")]


def test_order_is_that_of_the_steps_and_lines_back_are_marked() -> None:
    side = _side(("late", "early"), {(0, 1): 4, (1, 0): 8})
    side = GraphSide(side.listed, side.flows, {0: 7, 1: 2})
    graph = operation_graph([side])
    assert [box.label for box in graph.boxes] == ["early", "late"]
    assert [(edge.source, edge.target, edge.is_backward) for edge in graph.edges] == [
        (0, 1, False),
        (1, 0, True),
    ]
    assert [box.row for box in graph.boxes] == [0, 1]


def test_lines_between_interleaved_groups_are_not_backward() -> None:
    side = _side(("a/one", "b/two", "a/three", "b/four"), {(0, 1): 4, (1, 2): 8})
    graph = operation_graph([side], depth=1)
    assert [box.label for box in graph.boxes] == ["a", "b"]
    assert [(edge.source, edge.target, edge.is_backward) for edge in graph.edges] == [
        (0, 1, False),
        (1, 0, False),
    ]


def test_a_large_group_is_cut_into_stretches_of_the_program() -> None:
    names = [f"op{i}/call" for i in range(100)]
    side = _side(names, {(i, i + 1): 4 for i in range(99)})
    graph = operation_graph([side])
    assert len(graph.boxes) == 9  # a hundred in stretches of at most twelve
    assert graph.boxes[0].label == "op0 … op10"
    assert sum(box.n_operations for box in graph.boxes) == 100
    assert {edge.baseline_bytes for edge in graph.edges} == {4}
    opened = operation_graph([side], toggled=[graph.boxes[1].key])
    assert [box.label for box in opened.boxes[:3]] == ["op0 … op10", "op11/call", "op12/call"]


def test_never_more_than_four_hundred_boxes() -> None:
    names = [f"layer{i}/op{j}" for i in range(3000) for j in range(3)]
    graph = operation_graph([_side(names, {(0, 1): 4})], depth=99)
    assert len(graph.boxes) <= 400
    assert graph.is_full
    assert sum(box.n_operations for box in graph.boxes) == 9000
    assert not operation_graph([_side(names, {(0, 1): 4})]).is_full


def test_two_reports_are_aligned_and_differ_in_figures_and_lines() -> None:
    baseline = _side({"a": 10, "b": 20, "gone": 5, "c": 30}, {(0, 1): 4, (1, 3): 4, (2, 3): 4})
    candidate = _side({"a": 10, "b": 90, "new": 7, "c": 30}, {(0, 1): 4, (1, 2): 8, (2, 3): 4})
    graph = operation_graph([baseline, candidate])
    costs = {
        box.label: tuple(side and side.cycles for side in (box.baseline, box.candidate))
        for box in graph.boxes
    }
    assert costs == {
        "a": (10, 10), "b": (20, 90), "new": (None, 7), "gone": (5, None), "c": (30, 30),
    }  # fmt: skip
    assert list(costs) == ["a", "b", "new", "gone", "c"]
    lines = {
        (graph.boxes[edge.source].label, graph.boxes[edge.target].label): (
            edge.baseline_bytes,
            edge.candidate_bytes,
        )
        for edge in graph.edges
    }
    assert lines == {
        ("a", "b"): (4, 4),
        ("b", "new"): (None, 8),
        ("b", "c"): (4, None),
        ("new", "c"): (None, 4),
        ("gone", "c"): (4, None),
    }


def test_a_report_without_flows_says_so(small) -> None:
    side = graph_side(small, "library")
    assert not side.flows.is_recorded
    assert operation_graph([side]).is_recorded == (False,)


def test_flows_of_operations_pass_through_a_copy_of_the_author(tmp_path: Path) -> None:
    graph = Graph(load_machine("gc200", tiles_per_ipu=4))
    program = ProgramSequence()
    builder = Builder(graph, program)
    x, z = (graph.add_variable("float32", (8,), name) for name in "xz")
    for tensor in (x, z):
        graph.map_linearly(tensor)
    y = unary(builder, "relu", x)
    program.add(Copy(y, z, "authors"))
    unary(builder, "exp", z)
    executable = compile_programs(graph, [program])
    options = {"autoReport.all": True, "autoReport.directory": str(tmp_path)}
    with Engine(executable, resolve_options(code=options)) as engine:
        engine.run()
    with analyser.open(tmp_path) as report:
        number = {
            operation.name: operation.number
            for operation in operations(report, "library").operations
        }
        assert operation_flows(report, "library").n_bytes == {(number["relu"], number["exp"]): 32}
        steps = graph_side(report, "step")
        drawn = operation_graph([steps])
    assert [box.label.split("/")[0] for box in drawn.boxes] == ["relu", "authors", "exp"]
    assert drawn.n_left_out == len(steps.listed.operations) - 3
