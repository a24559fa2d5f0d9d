"""Data flow between steps: which step last wrote what another reads, on tiny programs."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tests.engine.test_outlining import convolved

from tilescope import engine
from tilescope.engine import compile_model, compile_programs, load_machine
from tilescope.engine.compiler.executable.executable import Executable
from tilescope.engine.frontend.onnx import load_onnx
from tilescope.engine.graph import DebugContext, Graph, Tensor, blocks
from tilescope.engine.ir import IrBuilder, Model
from tilescope.engine.operators import OPERATORS
from tilescope.engine.program import (
    Call,
    Copy,
    Execute,
    Function,
    If,
    Program,
    Repeat,
    RepeatWhile,
    StreamCopyIn,
    StreamCopyOut,
    WriteUndef,
)
from tilescope.engine.program import Sequence as ProgramSequence
from tilescope.engine.recorder.dataflow import dataflow
from tilescope.engine.session import outline as outlining

Flow = tuple[str, str, str, int]


def _ten(batch: Any, _machine: Any) -> NDArray[np.int64]:
    return np.full(batch.n_vertices, 10)


@engine.codelet(engine.Field("x", "in"), engine.Field("out", "out"), law=_ten, code_bytes=20)
def flow_copy(x, out):
    for i in range(out.size):
        out[i] = x[i]


@engine.codelet(engine.Field("x", "inout"), law=_ten, code_bytes=20)
def flow_increment(x):
    for i in range(x.size):
        x[i] += 1


class _Program:
    """A graph on four tiles; every compute set has one vertex."""

    def __init__(self) -> None:
        self.graph = Graph(load_machine("gc200", tiles_per_ipu=4))

    def variable(self, name: str, n: int = 8, dtype: str = "float32", tile: int = 0) -> Tensor:
        tensor = self.graph.add_variable(dtype, (n,), name)
        self.graph.set_tile_mapping(tensor, [0], [tile])
        return tensor

    def move(self, name: str, source: Tensor, target: Tensor) -> Execute:
        """Return a program that writes the elements of a slice into another."""
        compute_set = self.graph.add_compute_set(name)
        fields = {
            field: blocks(part.variable, part.offset, [part.n_elements], [1], 1)
            for field, part in (("x", source), ("out", target))
        }
        self.graph.add_vertices(compute_set, flow_copy, [1], fields)
        return Execute(compute_set)

    def increment(self, name: str, on: Tensor) -> Execute:
        compute_set = self.graph.add_compute_set(name)
        fields = {"x": blocks(on.variable, on.offset, [on.n_elements], [1], 1)}
        self.graph.add_vertices(compute_set, flow_increment, [1], fields)
        return Execute(compute_set)

    def flows(self, *programs: Program) -> set[Flow]:
        """Return source, target, variable and bytes of every flow."""
        executable = compile_programs(self.graph, list(programs))
        actual = dataflow(executable)
        names = [item.name for item in executable.graph.variables]
        steps = [step.name for step in executable.steps]
        rows = np.stack(
            [actual[key] for key in ("target_step_id", "variable_id", "source_step_id")], axis=1
        ).tolist()
        assert rows == sorted(rows), "sorted by target, variable, source"
        assert len({tuple(row) for row in rows}) == len(rows)
        return {
            (steps[source], steps[target], names[which], n)
            for (target, which, source), n in zip(rows, actual["bytes"].tolist(), strict=True)
        }


def test_a_reader_is_linked_to_the_last_writer_of_every_element() -> None:
    built = _Program()
    x, y, z = (built.variable(name, tile=tile) for tile, name in enumerate("xyz"))
    program = ProgramSequence().add(
        StreamCopyIn("input", x),
        built.move("first", x, y),
        built.move("second", x.slice(0, 0, 2), y.slice(0, 3, 5)),
        built.move("third", y.slice(0, 4, 8), z.slice(0, 0, 4)),
        built.increment("fourth", z),
        StreamCopyOut(z, "output"),
    )
    assert built.flows(program) == {
        ("input", "first", "x", 32),
        ("input", "second", "x", 8),
        ("first", "third", "y", 12),
        ("second", "third", "y", 4),
        ("third", "fourth", "z", 16),
        ("fourth", "fourth", "z", 16),  # of the previous run
        ("fourth", "output", "z", 32),
    }


def test_a_loop_hands_its_values_to_the_next_round() -> None:
    built = _Program()
    x, y = built.variable("x"), built.variable("y")
    body = ProgramSequence().add(built.move("read", x, y), built.increment("write", x))
    start = StreamCopyIn("input", x)
    once = {
        ("input", "read", "x", 32),
        ("input", "write", "x", 32),
    }
    assert built.flows(ProgramSequence().add(start, body)) == once
    assert built.flows(ProgramSequence().add(start, Repeat(3, body))) == once | {
        ("write", "read", "x", 32),
        ("write", "write", "x", 32),
    }


def test_both_branches_may_have_written() -> None:
    built = _Program()
    x, y, z = (built.variable(name) for name in "xyz")
    flag = built.variable("flag", 1, "int32")
    program = ProgramSequence().add(
        StreamCopyIn("flag in", flag),
        StreamCopyIn("input", x),
        built.move("before", x, y),
        If(flag.reshape(), built.move("then", x, y), ProgramSequence(), name="choice"),
        built.move("after", y, z),
    )
    flows = built.flows(program)
    assert {flow for flow in flows if flow[1] == "after"} == {
        ("before", "after", "y", 32),
        ("then", "after", "y", 32),
    }
    assert ("flag in", "choice/decision", "flag", 4) in flows


def test_a_while_loop_may_not_run_its_body() -> None:
    built = _Program()
    x, y = built.variable("x"), built.variable("y")
    flag = built.variable("flag", 1, "int32")
    program = ProgramSequence().add(
        StreamCopyIn("flag in", flag),
        StreamCopyIn("input", x),
        RepeatWhile(
            built.increment("test", flag), flag.reshape(), built.increment("body", x), name="loop"
        ),
        built.move("after", x, y),
    )
    flows = built.flows(program)
    assert {flow for flow in flows if flow[2] == "x"} == {
        ("input", "body", "x", 32),
        ("body", "body", "x", 32),
        ("input", "after", "x", 32),
        ("body", "after", "x", 32),
    }
    assert {flow for flow in flows if flow[2] == "flag"} == {
        ("flag in", "test", "flag", 4),
        ("test", "test", "flag", 4),
        ("test", "loop/decision", "flag", 4),
    }


def test_functions_copies_and_ended_values() -> None:
    built = _Program()
    x, y, z = (built.variable(name, tile=tile) for tile, name in enumerate("xyz"))
    function = Function(built.increment("called", x))
    program = ProgramSequence().add(
        StreamCopyIn("input", x),
        Call(function),
        Copy(x, y, "copied"),
        Call(function),
        WriteUndef(x),
        built.move("reads nothing", x, z),
    )
    assert built.flows(program) == {
        ("input", "called", "x", 32),
        ("called", "called", "x", 32),
        ("called", "copied", "x", 32),
    }


def test_what_a_control_program_leaves_another_may_read() -> None:
    built = _Program()
    x, y = built.variable("x"), built.variable("y")
    assert built.flows(StreamCopyIn("load", x), built.move("use", x, y)) == {
        ("load", "use", "x", 32)
    }


def test_flows_between_the_nodes_of_a_model_are_its_edges(tmp_path: Path) -> None:
    """x ─ conv ─ relu ─┬─ left ──┐
    └─ right ─┴─ add ─ softmax: operations equal nodes here."""
    weights = numpy_helper.from_array(np.full((4, 4, 3, 3), 0.1, np.float32), "w")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("Sigmoid", ["r"], ["a"], name="left"),
        helper.make_node("Tanh", ["r"], ["b"], name="right"),
        helper.make_node("Add", ["a", "b"], ["s"], name="add"),
        helper.make_node("Softmax", ["s"], ["y"], name="softmax", axis=1),
    ]
    path = tmp_path / "model.onnx"
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 8, 8])],
        [weights],
    )
    built = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path.write_bytes(built.SerializeToString())
    machine = load_machine("gc200", tiles_per_ipu=16)
    executable = compile_model(load_onnx(path), machine).executable
    edges = node_edges(executable)
    made_by = {output: item.name for item in nodes for output in item.output}
    expected = {
        (made_by[operand], item.name)
        for item in nodes
        for operand in item.input
        if operand in made_by
    }
    assert {(first, second) for first, second in edges if first} == expected
    assert {second for first, second in edges if not first} == {"conv"}, "the model's input"


def node_edges(executable: Executable) -> set[tuple[str, str]]:
    """Return the flows between different nodes of a model; a step in none has the name ''."""
    actual = dataflow(executable)

    def node(step_id: int) -> str:
        context: DebugContext | None = executable.steps[step_id].debug
        while context is not None and not context.is_of_model:
            context = context.parent
        return context.name if context is not None else ""

    pairs = zip(actual["source_step_id"].tolist(), actual["target_step_id"].tolist(), strict=True)
    edges = {(node(source), node(target)) for source, target in pairs}
    return {(first, second) for first, second in edges if first != second and second}


def bottlenecks(n_blocks: int) -> Model:
    """Return blocks of a convolution of 3 × 3, a relu and a convolution of 1 × 1."""
    random = np.random.default_rng(1)
    builder = IrBuilder("bottlenecks")
    x = builder.input("x", (1, 16, 12, 12), "float32")
    for i in range(n_blocks):
        for name, size in (("wide", 3), ("narrow", 1)):
            weights = random.standard_normal((16, 16, size, size)).astype(np.float32)
            x = convolved(builder, x, weights, f"block{i}/{name}")
            if name == "wide":
                x = builder.emit(
                    OPERATORS["unary"], [x], name=f"block{i}/relu", source="Relu", function="relu"
                )
    return builder.finish([("y", x)])


@pytest.mark.parametrize("n_blocks", [1, 3])
def test_copies_of_outlined_operations_hand_on_what_they_move(
    n_blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights of a whole block are copied under the name of its first node: no edge of its own."""
    monkeypatch.setattr(outlining, "_LEAST_BYTES", 0)
    monkeypatch.setattr(outlining, "_MOST_CYCLES", np.inf)
    machine = load_machine("c600", tiles_per_ipu=24)
    executable = compile_model(bottlenecks(n_blocks), machine).executable
    copies = [step for step in executable.steps if step.debug.operation == "outline.copy"]
    assert bool(copies) == (n_blocks > 1)
    nodes = [f"block{i}/{name}" for i in range(n_blocks) for name in ("wide", "relu", "narrow")]
    assert node_edges(executable) == set(pairwise(["", *nodes]))
