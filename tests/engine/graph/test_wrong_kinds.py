"""Every argument of the public interface, with values of the wrong type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilescope.engine import Engine, Field, Graph, Scalar, codelet, compile_programs, load_machine
from tilescope.engine import program as programs
from tilescope.engine.codelets.popops.elementwise.fill import FILL
from tilescope.engine.errors import EngineError
from tilescope.engine.graph import ROOT, Tensor, blocks, concat
from tilescope.engine.options import resolve
from tilescope.engine.program import Copy, Execute, Function, Program

WRONG: list[Any] = [
    None,
    -1,
    2.5,
    float("nan"),
    "",
    "x y",
    b"x",
    True,
    [],
    [None],
    [[1], [2, 3]],
    ("x",),
    {"a": 1},
    {1, 2},
    object(),
    np.zeros(3),
    np.zeros((2, 2), np.int64),
    np.array(["a"]),
    int,
]


class World:
    """A small graph with one of everything."""

    def __init__(self) -> None:
        self.graph = Graph(load_machine("gc200", tiles_per_ipu=4))
        self.x, self.y = (self.graph.add_variable("float32", (2, 4), name) for name in "xy")
        self.flag = self.graph.add_variable("int32", (1,), "flag")
        for tensor in (self.x, self.y, self.flag):
            self.graph.map_linearly(tensor)
        self.compute_set = self.graph.add_compute_set("c")
        self.buffer = self.graph.add_remote_buffer("rows", "float32", 8, 2)
        self.copy = Copy(self.x, self.y)
        self.both = concat([self.x, self.y], 0)
        self.region = blocks(self.x.variable, 0, [8], [1], 1)

    def engine(self, program: Program | None = None) -> Engine:
        compiled = compile_programs(self.graph, [program or self.copy])
        built = Engine(compiled, resolve(environ={}))
        built.print_line = lambda _: None
        return built

    def run(self, program: Program) -> None:
        built = self.engine(program)
        built.connect_stream("s", np.zeros((2, 4), np.float32))
        built.run()

    def stream(self, source: Any) -> None:
        built = self.engine(programs.StreamCopyIn("s", self.x))
        built.connect_stream("s", source)
        built.run()


def of_graph(name: str) -> Callable[..., Any]:
    return lambda world, **arguments: getattr(world.graph, name)(**arguments)


def of_view(which: str, name: str) -> Callable[..., Any]:
    return lambda world, **arguments: getattr(getattr(world, which), name)(*arguments.values())


def of_engine(name: str) -> Callable[..., Any]:
    return lambda world, **arguments: getattr(world.engine(), name)(**arguments)


def as_program(name: str) -> Callable[..., Any]:
    return lambda world, **arguments: world.run(getattr(programs, name)(**arguments))


def law(batch: Any, _: Any) -> Any:
    return batch.size["x"][:, 0]


def one(x: Any) -> None:
    x[0] = 1


def own_codelet(world: World, field: Any, function: Any, **arguments: Any) -> None:
    built = codelet(field, **arguments)(function)
    world.graph.add_vertices(world.compute_set, built, [0], {"x": world.region})
    world.run(Execute(world.compute_set))


def take(name: str) -> Callable[[World], Any]:
    return lambda world: getattr(world, name)


X, COPY, FLAG = take("x"), take("copy"), take("flag")
CASES: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "Graph": (
        lambda _, **a: Graph(**a),
        {"machine": load_machine("gc200", tiles_per_ipu=4), "n_io_tiles": 0},
    ),
    "load_machine": (
        lambda _, **a: load_machine(**a),
        {"name": "gc200", "n_ipus": 1, "tiles_per_ipu": 4, "parameter_set": "hardware"},
    ),
    "add_variable": (
        of_graph("add_variable"),
        {"dtype": "int32", "shape": (2,), "name": "v", "debug": ROOT},
    ),
    "add_constant": (
        of_graph("add_constant"),
        {"values": [1.0, 2.0], "name": "v", "dtype": "float32", "debug": ROOT},
    ),
    "add_remote_buffer": (
        of_graph("add_remote_buffer"),
        {"name": "v", "dtype": "float32", "n_elements": 2, "repeats": 2},
    ),
    "set_tile_mapping": (
        of_graph("set_tile_mapping"),
        {"tensor": X, "starts": [0], "tiles": [0]},
    ),
    "map_linearly": (
        of_graph("map_linearly"),
        {"tensor": X, "grain": 1, "tiles": [0], "first": 0},
    ),
    "tile_mapping": (of_graph("tile_mapping"), {"tensor": X}),
    "add_compute_set": (of_graph("add_compute_set"), {"name": "d", "debug": ROOT}),
    "add_vertices": (
        of_graph("add_vertices"),
        {
            "compute_set": take("compute_set"),
            "codelet": FILL,
            "tile": [0],
            "fields": lambda world: {"out": world.region},
            "scalars": {"value": 1.0},
        },
    ),
    "field and scalar": (
        lambda world, out, value: world.graph.add_vertices(
            world.compute_set, FILL, [0], {"out": out}, {"value": value}
        ),
        {"out": take("region"), "value": 1.0},
    ),
    "blocks": (
        lambda _, **a: blocks(**a),
        {
            "variable": lambda world: world.x.variable,
            "start": 0,
            "sizes": [8],
            "strides": [1],
            "n_vertices": 1,
        },
    ),
    "concat": (lambda _, **a: concat(**a), {"tensors": lambda world: [world.x], "dim": 0}),
    "concat of": (lambda _, **a: concat([a["of"]]), {"of": X}),
    "codelet": (
        own_codelet,
        {
            "field": Field("x", "out"),
            "function": one,
            "law": law,
            "code_bytes": 8,
            "source": "s",
            "scalars": (),
            "name": "n",
            "flops": None,
            "is_supervisor": False,
            "is_data_dependent": False,
            "apart": (),
            "has_slow_path": False,
        },
    ),
    "Field": (
        lambda _, **a: Field(**a),
        {
            "name": "x",
            "direction": "in",
            "n_dims": 1,
            "kind": "vector",
            "interleaved": False,
            "dtype": "",
            "dtype_of": "",
            "size_of": "",
        },
    ),
    "Scalar": (lambda _, **a: Scalar(**a), {"name": "x", "kind": "int", "on_device": True}),
    "Sequence": (
        as_program("Sequence"),
        {"name": "n", "children": lambda world: [world.copy]},
    ),
    "Execute": (as_program("Execute"), {"compute_set": take("compute_set")}),
    "Copy": (as_program("Copy"), {"source": X, "target": take("y"), "name": "c"}),
    "Repeat": (as_program("Repeat"), {"count": 2, "body": COPY, "name": "r"}),
    "RepeatWhile": (
        as_program("RepeatWhile"),
        {"condition": COPY, "predicate": FLAG, "body": COPY, "while_true": True, "name": "r"},
    ),
    "If": (
        as_program("If"),
        {"predicate": FLAG, "then": COPY, "otherwise": COPY, "name": "i"},
    ),
    "Switch": (
        as_program("Switch"),
        {"control": FLAG, "cases": lambda w: {1: w.copy}, "default": COPY, "name": "s"},
    ),
    "Call": (as_program("Call"), {"function": lambda world: Function(world.copy, "f")}),
    "Function": (
        lambda world, **a: world.run(programs.Call(Function(**a))),
        {"body": COPY, "name": "f"},
    ),
    "Sync": (as_program("Sync"), {"external": False, "name": "s"}),
    "Block": (as_program("Block"), {"name": "b", "body": COPY}),
    "PrintTensor": (as_program("PrintTensor"), {"tensor": X, "title": "t"}),
    "StreamCopyIn": (as_program("StreamCopyIn"), {"stream": "s", "target": X}),
    "StreamCopyOut": (as_program("StreamCopyOut"), {"source": X, "stream": "s"}),
    "RemoteCopyIn": (
        as_program("RemoteCopyIn"),
        {"buffer": take("buffer"), "target": X, "row": 0},
    ),
    "RemoteCopyOut": (
        as_program("RemoteCopyOut"),
        {"buffer": take("buffer"), "source": X, "row": 0},
    ),
    "WriteUndef": (as_program("WriteUndef"), {"target": X}),
    "compile_programs": (
        lambda _, **a: compile_programs(**a),
        {"graph": take("graph"), "programs": lambda world: [world.copy]},
    ),
    "Engine": (
        lambda _, **a: Engine(**a),
        {
            "executable": lambda world: compile_programs(world.graph, [world.copy]),
            "options": resolve(environ={}),
            "name": "n",
            "provenance": {},
        },
    ),
    "connect_stream": (of_engine("connect_stream"), {"stream": "s", "source": np.zeros(3)}),
    "read_tensor": (of_engine("read_tensor"), {"tensor": X}),
    "write_tensor": (of_engine("write_tensor"), {"tensor": X, "values": np.zeros((2, 4))}),
    "read_remote": (of_engine("read_remote"), {"buffer": take("buffer"), "row": 0}),
    "write_remote": (
        of_engine("write_remote"),
        {"buffer": take("buffer"), "values": np.zeros(8), "row": 0},
    ),
    "run": (of_engine("run"), {"program": 0, "name": "n"}),
    "timelines": (of_engine("timelines"), {"program": 0}),
    "values of a stream": (lambda world, **a: world.stream(a["v"]), {"v": np.zeros((2, 4))}),
    "values of a callback": (
        lambda world, **a: world.stream(lambda: a["v"]),
        {"v": np.zeros((2, 4))},
    ),
}
for _which in ("x", "both"):
    _views: dict[str, dict[str, Any]] = {
        "slice": {"dim": 0, "start": 0, "stop": 1},
        "reverse": {"dim": 0},
        "dim_shuffle": {"first": 1, "second": 0},
        "broadcast_to": {"shape": lambda world, which=_which: getattr(world, which).shape},
        "reshape": {"first": -1, "second": 2},
    }
    for _name, _arguments in _views.items():
        CASES[f"{_name} of {_which}"] = (of_view(_which, _name), _arguments)


def called(case: str, **changed: Any) -> Any:
    """Call a case with its own arguments and overrides."""
    call, good = CASES[case]
    world = World()
    arguments = {
        name: value(world)
        if callable(value) and not isinstance(value, type) and value not in (law, one)
        else value
        for name, value in good.items()
    }
    return call(world, **arguments | changed)


@pytest.mark.parametrize("case", CASES)
def test_valid_arguments_are_accepted(case: str) -> None:
    called(case)


@pytest.mark.parametrize(
    ("case", "argument"), [(case, name) for case, (_, good) in CASES.items() for name in good]
)
def test_an_argument_of_the_wrong_type_is_named(case: str, argument: str) -> None:
    """Invalid arguments raise `EngineError` with a one-line message, and no other exception."""
    output = []
    for problem in WRONG:
        try:
            called(case, **{argument: problem})
        except EngineError as error:
            output.append(str(error))
    assert output or argument == "source"  # which is checked when the program runs
    assert not [text for text in output if "\n" in text or len(text) > 400]


def test_a_tensor_is_not_a_sequence_of_tensors() -> None:
    world = World()
    assert isinstance(world.x, Tensor)
    with pytest.raises(EngineError, match="expected a list of tensors"):
        concat(world.x)  # type: ignore[arg-type]


def test_groups_to_keep_apart_that_are_a_number() -> None:
    with pytest.raises(EngineError, match="'one': what it keeps apart is 5: expected groups of"):
        codelet(Field("x", "out"), law=law, code_bytes=8, apart=5)(one)  # type: ignore[arg-type]
