"""Executables as bytes: another process runs the same program; damaged bytes are rejected."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module, invalidate_caches
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.engine.compiler.entries import decode
from tests.engine.compiler.flat import flat

from tilescope import engine
from tilescope.analyser.diff.identity import unequal_data
from tilescope.engine.codelets.popops.elementwise import fused
from tilescope.engine.codelets.popops.elementwise.expression import Expression, call, operand
from tilescope.engine.compiler.executable import versions
from tilescope.engine.compiler.executable.codelet_place import (
    CodeletPlace,
    codelet_at,
    codelet_modules,
    place_of,
)
from tilescope.engine.compiler.executable.container import encode
from tilescope.engine.compiler.executable.executable import Executable, StreamAccess
from tilescope.engine.errors import BadExecutable
from tilescope.engine.graph import Graph, Tensor, blocks, concat
from tilescope.engine.graph.vertex.codelet import Codelet
from tilescope.engine.ir import IrBuilder
from tilescope.engine.operators import OPERATORS
from tilescope.engine.program import (
    Call,
    Copy,
    Execute,
    Function,
    If,
    Repeat,
    Sequence,
    StreamCopyIn,
    StreamCopyOut,
)
from tilescope.reports import open_report

MACHINE = engine.load_machine("gc200", tiles_per_ipu=4, n_ipus=2)

_MODULE = """
import numpy as np
from tilescope.engine import Field, codelet

STEP = 3.0


def _law(batch, machine):
    return 20 + 5 * batch.n_elements("x") + batch.counts


@codelet(
    Field("x", "inout"), law=_law, code_bytes=64, name="mine::Raise", is_data_dependent=True
)
def raise_by_step(x):
    for i in range(x.size):
        x[i] += STEP
    return int(x[0])
"""

_RUN = """
import sys
from pathlib import Path
import numpy as np
from tilescope import engine

place = Path(sys.argv[1])
executable = engine.Executable.from_bytes((place / "program").read_bytes())
options = engine.resolve_options(
    environ={}, code={"autoReport.all": True, "autoReport.directory": str(place / "there")}
)
inputs = np.load(place / "inputs.npz")
with engine.Engine(executable, options) as device:
    for name in inputs.files:
        device.connect_stream(name, inputs[name])
    device.run()
    cycles = np.array([timeline.n_cycles for timeline in device.timelines(0)])
    np.savez(place / "outputs.npz", output=device.output(sys.argv[2]), cycles=cycles)
"""


@pytest.fixture
def own_codelet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Codelet]:
    """Return a codelet from a user's module."""
    (tmp_path / "my_codelets.py").write_text(_MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    invalidate_caches()
    yield import_module("my_codelets").raise_by_step
    sys.modules.pop("my_codelets", None)


def program_of(codelet: Codelet) -> Executable:
    """Return a program with copies, a loop, a decision, a function and a constant."""
    graph = Graph(MACHINE)
    x = graph.add_variable("float32", (32,), "x")
    graph.set_tile_mapping(x, [0, 16], [0, 5])
    turned = graph.add_variable("float32", (32,), "turned")
    graph.set_tile_mapping(turned, [0], [1])
    flag = graph.add_variable("int32", (1,), "flag")
    graph.set_tile_mapping(flag, [0], [1])
    weights = graph.add_constant(np.arange(32, dtype=np.float32), "weights")
    graph.map_linearly(weights)
    raised = graph.add_compute_set("raise")
    start = np.array([0, 16])
    graph.add_vertices(raised, codelet, [0, 5], {"x": blocks(x.variable, start, [16], [1], 2)})
    body = Function(Sequence("body", [Execute(raised), Copy(x.reverse(0), turned)]), "body")
    both = concat([x.slice(0, 0, 8), weights.slice(0, 8, 32)])
    root = Sequence(
        "program",
        [
            StreamCopyIn("x", x),
            StreamCopyIn("flag", flag),
            Repeat(2, Call(body), "loop"),
            If(flag, Call(body), Sequence("nothing"), "decide"),
            Copy(both, x),
            StreamCopyOut(x, "total"),
        ],
    )
    return engine.compile_programs(graph, [root])


def model() -> Executable:
    """Return a model with two planned convolutions of half values."""
    builder = IrBuilder("network")
    value = builder.input("x", (1, 8, 10, 10), "float16")
    random = np.random.default_rng(3)
    for i in range(2):
        weights = random.standard_normal((8, 8, 3, 3)).astype(np.float16)
        value = builder.emit(
            OPERATORS["convolution"], [value, builder.constant(weights, f"w{i}")],
            name=f"layer {i}", source="Conv", kernel=(3, 3), stride=(1, 1), dilation=(1, 1),
            padding_before=(1, 1), padding_after=(1, 1), groups=1,
        )  # fmt: skip
    machine = engine.load_machine("gc200", tiles_per_ipu=32)
    return engine.compile_model(builder.finish([("total", value)]), machine).executable


def inputs_of(executable: Executable) -> dict[str, NDArray[Any]]:
    """Return values for the input streams."""
    results: dict[str, NDArray[Any]] = {}
    for step in executable.steps:
        access = step.access
        if isinstance(access, StreamAccess) and access.is_input:
            kind = np.int32 if access.tensor.dtype.name == "int32" else np.float32
            values = np.arange(1, 1 + access.tensor.n_elements).astype(kind)
            results[access.stream] = values.reshape(access.tensor.shape)
    return results


def run_here_and_there(executable: Executable, place: Path) -> None:
    """Run an executable here and its bytes in another process; compare all results."""
    inputs = inputs_of(executable)
    options = engine.resolve_options(
        environ={}, code={"autoReport.all": True, "autoReport.directory": str(place / "here")}
    )
    with engine.Engine(executable, options) as device:
        for name, values in inputs.items():
            device.connect_stream(name, values)
        device.run()
        expected = device.output("total")
        cycles = [timeline.n_cycles for timeline in device.timelines(0)]
    (place / "program").write_bytes(executable.to_bytes())
    np.savez(place / "inputs.npz", **inputs)  # type: ignore[arg-type]
    search = os.pathsep.join([str(place), *filter(None, [os.environ.get("PYTHONPATH")])])
    subprocess.run(
        [sys.executable, "-c", _RUN, str(place), "total"],
        env={**os.environ, "PYTHONPATH": search},
        check=True,
    )
    with np.load(place / "outputs.npz") as actual:
        np.testing.assert_array_equal(actual["output"], expected)
        assert actual["cycles"].tolist() == cycles
    with (
        open_report(place / "here" / "profile.pop") as first,
        open_report(place / "there" / "profile.pop") as second,
    ):
        assert unequal_data(first, second) == ()


def test_another_process_runs_a_program_with_a_user_s_codelet(
    own_codelet: Codelet, tmp_path: Path
) -> None:
    run_here_and_there(program_of(own_codelet), tmp_path)


def test_another_process_runs_a_model(tmp_path: Path) -> None:
    run_here_and_there(model(), tmp_path)


def test_nothing_is_lost_and_nothing_can_be_changed(own_codelet: Codelet) -> None:
    for executable in (program_of(own_codelet), model()):
        data = executable.to_bytes()
        read = Executable.from_bytes(data)
        assert flat(read) == flat(replace(executable, graph=replace(executable.graph, sources=())))
        assert read.to_bytes() == Executable.from_bytes(read.to_bytes()).to_bytes()
        assert read.plans == executable.plans
        assert read.steps[0].is_frozen
        assert read.graph.variables[0].is_frozen
        assert not read.graph.variables[0].map_start.flags.writeable
        assert read.nodes[0].step is None or read.nodes[0].step in read.steps
        for step in read.steps:
            if step.compute_set is not None:
                assert read.graph.compute_sets[step.compute_set.compute_set_id] is step.compute_set


def test_variables_of_the_image_are_read_and_written(own_codelet: Codelet) -> None:
    executable = Executable.from_bytes(program_of(own_codelet).to_bytes())
    weights = next(
        variable for variable in executable.graph.variables if variable.name == "weights"
    )
    with engine.Engine(executable) as device:
        actual = device.read_tensor(Tensor(weights, 0, (((32, 1),),)))
    np.testing.assert_array_equal(actual, np.arange(32))


def test_damaged_bytes_are_refused_with_a_sentence() -> None:
    data = program_of(FILLED).to_bytes()
    random = np.random.default_rng(0)
    refused: list[str] = []
    for bit in random.choice(8 * len(data), 300, replace=False).tolist():
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            # Some bits of a compressed chunk are unused: then every value is unchanged.
            assert Executable.from_bytes(bytes(damaged)).to_bytes() == data
        except BadExecutable as error:
            refused.append(str(error))
    assert len(refused) > 290
    assert all(text.startswith("These bytes are not an executable: ") for text in refused)
    for length in {0, 1, 7, 8, 40, *random.integers(len(data), size=50).tolist()}:
        with pytest.raises(BadExecutable, match="These bytes are not an executable"):
            Executable.from_bytes(data[:length])
    with pytest.raises(BadExecutable, match="longer than it was written"):
        Executable.from_bytes(data + b"?")


class _Caller:
    """An object that would run a command when it is made again."""

    def __reduce__(self) -> Any:
        return os.system, ("exit 3",)


def _planted(
    facts: dict[str, Any], arrays: dict[str, NDArray[Any]], value: object
) -> tuple[dict[str, Any], dict[str, NDArray[Any]], str]:
    """Return facts and arrays with another root."""
    parts = pickle.dumps(value), pickle.dumps([])
    content = np.frombuffer(b"".join(parts), np.uint8)
    objects = {**facts["objects"], "lengths": [len(part) for part in parts]}
    message = "only a part of one" if isinstance(value, int) else "their table is malformed"
    return {**facts, "objects": objects}, {**arrays, "objects": content}, message


def test_well_formed_bytes_of_something_else_are_refused() -> None:
    data = program_of(FILLED).to_bytes()
    facts, arrays = decode(BytesIO(data), len(data))
    objects = facts["objects"]
    cases: list[tuple[dict[str, Any], dict[str, NDArray[Any]], str]] = [
        ({}, arrays, "they hold something else"),
        ({**facts, "content": "plan"}, arrays, "they hold something else"),
        ({**facts, "objects": {}}, arrays, "their table is malformed"),
        ({**facts, "objects": {**objects, "codelets": [["os", "path"]]}}, arrays, "malformed"),
        ({**facts, "objects": {**objects, "lengths": [1, 1]}}, arrays, "their table is malformed"),
        (facts, {}, "their table is malformed"),
        (facts, {**arrays, "array_begin": arrays["array_begin"][:1]}, "their table is malformed"),
        (facts, {**arrays, "objects": arrays["objects"][::-1]}, "their table is malformed"),
        *(_planted(facts, arrays, planted) for planted in (_Caller(), Path("a"), 5)),
    ]
    for outlier, of, message in cases:
        with pytest.raises(BadExecutable, match=message):
            Executable.from_bytes(encode(outlier, of))
    with pytest.raises(BadExecutable, match="Expected the bytes of an executable"):
        Executable.from_bytes("text")  # type: ignore[arg-type]


def test_bytes_of_another_engine_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = program_of(FILLED).to_bytes()
    local = versions.engine_versions()
    position = "tilescope.engine.compiler.executable.executable_bytes.engine_versions"
    monkeypatch.setattr(position, lambda: {**local, "sources": "others"})
    with pytest.raises(BadExecutable, match="by another engine, of version"):
        Executable.from_bytes(data)


def test_a_codelet_that_is_gone_or_changed_is_named(own_codelet: Codelet, tmp_path: Path) -> None:
    data = program_of(own_codelet).to_bytes()
    changes = {
        _MODULE.replace("STEP = 3.0", "STEP = 4.0"): "'mine::Raise' of module 'my_codelets' has",
        _MODULE.replace("20 + 5", "20 + 66"): "has changed since the program was compiled",
        _MODULE.replace("mine::Raise", "mine::Lift"): "the module has no codelet of that name",
        "import nothing_of_this_name\n": "importing the module failed with ModuleNotFoundError",
    }
    for i, (text, message) in enumerate(changes.items()):
        sys.modules.pop("my_codelets", None)
        path = tmp_path / "my_codelets.py"
        path.write_text(text + "#" * (i + 1))  # another size forces a recompilation
        invalidate_caches()
        with pytest.raises(BadExecutable, match=message):
            Executable.from_bytes(data)


def test_a_codelet_without_an_importable_name_is_rejected() -> None:
    hidden = replace(FILLED, name="hidden")
    with pytest.raises(
        BadExecutable, match="Cannot serialise codelet 'hidden': another process finds it"
    ):
        program_of(hidden).to_bytes()


def _codelets(value: object) -> Iterator[Codelet]:
    """Yield a codelet, or all codelets of a nested dictionary."""
    if isinstance(value, Codelet):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _codelets(item)


def test_all_codelets_of_the_engine_can_be_written() -> None:
    results = [
        codelet
        for module in codelet_modules()
        for value in vars(module).values()
        for codelet in _codelets(value)
    ]
    assert len(set(results)) > 100
    for codelet in set(results):
        assert codelet_at(place_of(codelet)) is codelet


def _law(batch: Any, _: Any) -> NDArray[np.int64]:
    count: NDArray[np.int64] = 10 + batch.n_elements("x")
    return count


@engine.codelet(engine.Field("x", "inout"), law=_law, code_bytes=32, name="test::Fill")
def FILLED(x: Any) -> None:  # noqa: N802
    for i in range(x.size):
        x[i] = 1.0


_EXPRESSIONS = [
    operand(0) * 2.0 + operand(1) / (call("absolute", operand(0)) + 1.0),
    call("select", operand(2), call("tanh", operand(0)), call("less", operand(1), 3.0)),
    call("clamp", operand(0), -1.0, operand(1) - 0.5),
]


@pytest.mark.parametrize("is_in_place", [False, True])
@pytest.mark.parametrize("is_block", [False, True])
@pytest.mark.parametrize("expression", _EXPRESSIONS, ids=lambda e: e.text())
def test_another_process_finds_the_codelets_of_an_expression(
    expression: Expression, is_block: bool, is_in_place: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It did not use the expression before."""
    codelet = fused.fused_codelets(expression, is_in_place=is_in_place)[is_block]
    place = place_of(codelet)
    monkeypatch.setattr(fused, "FUSED", {})
    monkeypatch.setattr(fused, "FUSED_BLOCK", {})
    again = codelet_at(place)
    assert again is not codelet
    assert place_of(again) == place


@pytest.mark.parametrize(
    "text", ["", "add", "add(_1)", "add(_1,k1", "own(_1)", "add(_1,k1))", "_9"]
)
def test_what_is_no_expression_is_no_codelet(text: str) -> None:
    assert fused.codelet_named(f"popops::Map1D<{text}>") is None
    place = CodeletPlace(fused.__name__, f"popops::Map1D<{text}>", "")
    with pytest.raises(BadExecutable, match="the module has no codelet of that name"):
        codelet_at(place)
