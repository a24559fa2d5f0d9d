"""Every argument of every library function, with values of the wrong type or shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.engine.graph.test_wrong_kinds import WRONG

from tilescope.engine import Builder, Graph, compile_programs, load_machine
from tilescope.engine.errors import BadGraph, EngineError
from tilescope.engine.graph import concat
from tilescope.engine.library.poplin.convolution import convolution, matmul
from tilescope.engine.library.poplin.transposed import transposed_convolution
from tilescope.engine.library.poplin.weight_gradient import weight_gradient
from tilescope.engine.library.popnn.non_linearity import non_linearity
from tilescope.engine.library.popnn.norm.batch_norm import batch_norm_gradients, batch_normalise
from tilescope.engine.library.popnn.norm.group_norm import group_norm_statistics
from tilescope.engine.library.popnn.pool import pool
from tilescope.engine.library.popnn.recurrent.lstm import LSTM_UNITS, RecurrentOptions, lstm
from tilescope.engine.library.popnn.softmax import log_softmax, softmax
from tilescope.engine.library.popops.elementwise.fill import fill
from tilescope.engine.library.popops.elementwise.in_place import binary_in_place, unary_in_place
from tilescope.engine.library.popops.elementwise.map import map_expression, operand
from tilescope.engine.library.popops.elementwise.operations import (
    binary,
    cast,
    clamp,
    copy_to,
    rearranged,
    row_major_copy,
    select,
    unary,
)
from tilescope.engine.library.popops.elementwise.scaled_add import scaled_add
from tilescope.engine.library.popops.reduction.reduce import reduce, reduce_with_output
from tilescope.engine.library.popops.slicing.embedding import plan_embedding
from tilescope.engine.library.popops.slicing.sliceable import create_sliceable_tensor
from tilescope.engine.library.poprand.random_numbers import dropout, uniform
from tilescope.engine.library.replicas import Replicas
from tilescope.engine.library.window import Window
from tilescope.engine.program import Copy, Sequence


class World:
    """Operands of all ranks that the library takes."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)

    def __init__(self) -> None:
        self.graph = Graph(load_machine("gc200", tiles_per_ipu=4))
        self.builder = Builder(self.graph, Sequence("main"))
        shapes = {"x": (4, 6), "y": (4, 6), "left": (1, 4, 6), "right": (1, 6, 4)}
        shapes |= {"image": (1, 4, 6, 6), "weights": (4, 4, 3, 3), "grown": (1, 4, 8, 8)}
        shapes |= {"six": (6,), "seed": (2,), "sequence": (3, 2, 6)}
        kinds = {"flags": "bool", "scale": "float32", "seed": "int32"}
        for name, shape in (shapes | {"flags": (4, 6), "scale": (1,)}).items():
            tensor = self.graph.add_variable(kinds.get(name, "float32"), shape, name)
            self.graph.map_linearly(tensor)
            setattr(self, name, tensor)
        self.window, self.one = Window((3, 3)), 1


class Take(str):
    """The name of an attribute of a world."""


X, Y, B = Take("x"), Take("y"), Take("builder")
CONVOLUTION = {
    "window": Take("window"),
    "groups": 1,
    "name": "n",
    "available_memory_proportion": 0.5,
    "partials_type": "float",
}
CASES: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "unary": (unary, {"function": "relu", "x": X}),
    "binary": (binary, {"function": "add", "a": X, "b": Y, "shape": (4, 6)}),
    "select": (select, {"a": X, "b": Y, "chooser": Take("flags")}),
    "clamp": (clamp, {"x": X, "low": Y, "high": Y}),
    "cast": (cast, {"x": X, "dtype": "float16"}),
    "copy_to": (copy_to, {"source": X, "target": Y, "name": "n"}),
    "row_major_copy": (row_major_copy, {"source": X, "name": "n"}),
    "rearranged": (rearranged, {"source": X, "shape": (6, 4), "name": "n"}),
    "fill": (fill, {"target": X, "value": 1}),
    "scaled_add": (
        scaled_add,
        {"a": X, "b": Y, "scale": Take("scale"), "optimise_for_speed": False},
    ),
    "reduce": (reduce, {"operation": "sum", "x": X, "dims": [0], "scale": 1.0}),
    "pool": (
        pool,
        {"x": Take("image"), "window": Take("window"), "kind": "max", "counts_padding": False},
    ),
    "softmax": (softmax, {"x": X, "dim": -1, "stable": True, "scaled": False}),
    "log_softmax": (log_softmax, {"x": X, "dim": 0}),
    "non_linearity": (non_linearity, {"kind": "gelu", "x": X}),
    "unary_in_place": (unary_in_place, {"function": "exp", "x": X}),
    "binary_in_place": (binary_in_place, {"function": "add", "a": X, "b": Y}),
    "map_expression": (
        map_expression,
        {"expression": operand(0) + operand(1), "operands": (X, Y)},
    ),
    "group_norm_statistics": (
        group_norm_statistics,
        {
            "x": X,
            "epsilon": 0.1,
            "n_groups": 2,
            "is_unbiased": False,
            "is_stable": False,
            "partials_type": "float32",
            "statistics_type": "float16",
            "is_strided": False,
        },
    ),
    "batch_normalise": (
        batch_normalise,
        {"x": X, "gamma": Take("six"), "beta": Take("six")},
    ),
    "batch_norm_gradients": (
        batch_norm_gradients,
        {
            "x": X,
            "gradient": Y,
            "inverse": Take("six"),
            "gamma": Take("six"),
            "mean": Take("six"),
            "replicas": Replicas(4, lambda _, tensors, __: tensors),
        },
    ),
    "uniform": (
        uniform,
        {
            "seed": Take("seed"),
            "seed_modifier": 1,
            "reference": X,
            "dtype": "float32",
            "low": 0.0,
            "high": 1.0,
        },
    ),
    "dropout": (
        dropout,
        {
            "seed": Take("seed"),
            "seed_modifier": 1,
            "x": X,
            "reference": Y,
            "keep_probability": 0.5,
            "scale": 2.0,
        },
    ),
    "lstm": (
        lstm,
        {
            "x": Take("sequence"),
            "input_weights": np.ones((4, 6, 2), np.float32),
            "output_weights": np.ones((4, 2, 2), np.float32),
            "biases": np.ones((4, 2), np.float32),
            "initial_output": None,
            "lengths": None,
            "cell_order": LSTM_UNITS,
            "options": RecurrentOptions(),
        },
    ),
    "create_sliceable_tensor": (
        create_sliceable_tensor,
        {"dtype": "float32", "shape": (4, 6), "dim": 0, "name": "n"},
    ),
    "plan_embedding": (
        plan_embedding,
        {
            "dtype": "float32",
            "shape": (4, 6),
            "n_lookups": 3,
            "dim": 0,
            "is_updated": True,
            "available_memory_proportion": 0.5,
        },
    ),
    "matmul": (
        matmul,
        {
            "a": Take("left"),
            "b": Take("right"),
            "name": "n",
            "b_dtype": "float32",
            "available_memory_proportion": 0.5,
            "partials_type": "float",
        },
    ),
    "convolution": (
        convolution,
        {"x": Take("image"), "weights": Take("weights"), **CONVOLUTION, "family": ""},
    ),
    "transposed_convolution": (
        transposed_convolution,
        {"x": Take("image"), "weights": Take("weights"), "size": (8, 8), **CONVOLUTION},
    ),
    "weight_gradient": (
        weight_gradient,
        {"x": Take("grown"), "gradient": Take("image"), **CONVOLUTION},
    ),
}


def _taken(world: World, value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_taken(world, part) for part in value)
    return getattr(world, value) if isinstance(value, Take) else value


def called(case: str, **changed: Any) -> Any:
    function, good = CASES[case]
    world = World()
    arguments = {"builder": B} | good | changed
    return function(**{k: _taken(world, v) for k, v in arguments.items()})


@pytest.mark.parametrize("case", CASES)
def test_valid_arguments_are_accepted(case: str) -> None:
    called(case)


@pytest.mark.parametrize(
    ("case", "argument"),
    [(case, name) for case, (_, good) in CASES.items() for name in ("builder", *good)],
)
def test_an_argument_of_the_wrong_type_is_named(case: str, argument: str) -> None:
    """Invalid arguments raise `EngineError` with a one-line message, and no other exception."""
    output = []
    for problem in WRONG:
        try:
            called(case, **{argument: problem})
        except EngineError as error:
            output.append(str(error))
    assert output
    assert not [text for text in output if "\n" in text or len(text) > 600]


@pytest.mark.parametrize("part", ["kernel", "stride", "dilation", "padding_before"])
def test_a_window_needs_pairs_of_integers(part: str) -> None:
    for problem in (3, (3,), "ab", (1.5, 1), None, (1, 2, 3)):
        with pytest.raises(BadGraph, match=f"The {part.replace('_', ' ')} of a window is"):
            Window(**({"kernel": (3, 3)} | {part: problem}))  # type: ignore[arg-type]
    if part != "padding_before":
        with pytest.raises(BadGraph, match="expected at least 1"):
            Window(**({"kernel": (3, 3)} | {part: (0, 1)}))


def test_a_window_of_lists_is_one_of_tuples() -> None:
    assert Window([3, 3], stride=[np.int64(2), 1]) == Window((3, 3), (2, 1))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("words", "call"),
    [
        (
            r"left operand: shape \(4, 6\) is not \(batch, rows",
            lambda w: matmul(w.builder, w.x, w.y),
        ),
        (
            r"its input: shape \(4, 6\) is not \(images, channels, rows, columns\)",
            lambda w: convolution(w.builder, w.x, w.weights, w.window),
        ),
        (r"pool: its input: shape", lambda w: pool(w.builder, w.x, w.window)),
        (
            "A window of 9 rows does not fit 6: use more padding",
            lambda w: pool(w.builder, w.image, Window((9, 9))),
        ),
        (
            "is float32: logical_and expects bool",
            lambda w: reduce(w.builder, "logical_and", w.x, [0]),
        ),
        ("to reduce: give different ones from 0", lambda w: reduce(w.builder, "sum", w.x, [0, 0])),
        (
            "'maximum' does not update: use one of sum",
            lambda w: reduce_with_output(w.builder, "maximum", w.x, w.x, [0], update=True),
        ),
        (
            "has shape .*: expected",
            lambda w: reduce_with_output(w.builder, "sum", w.x, w.x, [0]),
        ),
        ("reduction 'mean'; use one of sum", lambda w: reduce(w.builder, "mean", w.x, [0])),
        (
            r"cannot copy 'x' \(float32\) to 'flags' \(bool\): cast it",
            lambda w: copy_to(w.builder, w.x, w.flags),
        ),
        ("to broadcast to is -1: expected at least", lambda w: w.x.broadcast_to((-1, 4, 6))),
        ("to broadcast to is 0", lambda w: concat([w.x, w.x.reverse(0)]).broadcast_to((0, 8, 6))),
        ("The graph of a Builder is", lambda w: Builder(w.x, Sequence())),
        ("The sequence of a Builder is", lambda w: Builder(w.graph, w.x)),
        (
            "The plans of a program is 1",
            lambda w: compile_programs(w.graph, [Sequence()], plans=w.one),
        ),
        (
            "The cache's directory is 1",
            lambda w: compile_programs(w.graph, [Sequence()], cache_directory=w.one),
        ),
    ],
)
def test_a_mistake_is_named(words: str, call: Callable[[Any], Any]) -> None:
    with pytest.raises(BadGraph, match=words):
        call(World())


def test_a_function_of_a_broadcast_tensor_of_its_variable_s_size() -> None:
    world = World()
    wide = world.x.slice(0, 0, 1).broadcast_to((4, 6))
    assert unary(world.builder, "negate", wide).shape == (4, 6)


@pytest.mark.parametrize(
    "write",
    [
        lambda w, x: compile_programs(w.graph, [Copy(w.x, x)]),
        lambda w, x: copy_to(w.builder, w.x, x),
        lambda w, x: fill(w.builder, x, 1),
        lambda w, x: scaled_add(w.builder, x, w.y, 1.0),
    ],
    ids=["Copy", "copy_to", "fill", "scaled_add"],
)
def test_a_target_without_a_mapping(write: Callable[[Any, Any], Any]) -> None:
    world = World()
    nowhere = world.graph.add_variable("float32", (4, 6), "nowhere")
    with pytest.raises(BadGraph, match="'nowhere' has no tile mapping yet: call set_tile_mapping"):
        write(world, nowhere)


@pytest.mark.parametrize(
    "write",
    [
        lambda w, out: fill(w.builder, out, 1),
        lambda w, out: scaled_add(w.builder, out, w.x, 1.0),
        lambda w, out: copy_to(w.builder, w.x, out),
    ],
    ids=["fill", "scaled_add", "copy_to"],
)
def test_a_target_with_aliased_elements(write: Callable[[Any, Any], Any]) -> None:
    world = World()
    row = world.y.slice(0, 0, 2)
    for out in (concat([row, row]), world.y.slice(0, 0, 1).broadcast_to((4, 6))):
        with pytest.raises(BadGraph, match="aliases elements of 'y'"):
            write(world, out)


@pytest.mark.parametrize(("n_levels", "is_taken"), [(150, True), (151, False), (5000, False)])
def test_nested_programs(n_levels: int, is_taken: bool) -> None:
    world = World()
    program = Sequence("innermost", [Copy(world.x, world.y)])
    for _ in range(n_levels - 2):
        program = Sequence("around", [program])
    if is_taken:
        compile_programs(world.graph, [program])
        return
    with pytest.raises(BadGraph, match="is nested in more than 150 programs"):
        compile_programs(world.graph, [program])
