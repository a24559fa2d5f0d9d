"""The available memory of operations: how users set it, and its effect on plans."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tilescope.engine import (
    Builder,
    Executable,
    Graph,
    Machine,
    compile_model,
    load_machine,
    load_onnx,
)
from tilescope.engine.errors import BadModel, BadOption
from tilescope.engine.ir import IrBuilder, Model
from tilescope.engine.library.poplin.convolution import matmul
from tilescope.engine.lower import lower
from tilescope.engine.operators import OPERATORS
from tilescope.engine.operators.elementwise.elementwise import UNARY
from tilescope.engine.options import ENVIRONMENT_VARIABLE, resolve
from tilescope.engine.options.available_memory import AvailableMemory
from tilescope.engine.options.catalogue import CONVOLUTION_MEMORY, MATMUL_MEMORY
from tilescope.engine.program import Sequence
from tilescope.engine.session import compilation

MACHINE = load_machine("gc200", tiles_per_ipu=32)


def _save(path: Path, **attributes: Any) -> Path:
    """Save a convolution, a product with a bias and another product; attributes go to the first."""
    random = np.random.default_rng(3)
    weights = {
        "k": random.standard_normal((32, 8, 3, 3)).astype(np.float32),
        "g": random.standard_normal((15488, 16)).astype(np.float32),
        "c": np.zeros(16, np.float32),
        "m": random.standard_normal((16, 4)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "k"], ["a"], name="conv", **attributes),
        helper.make_node("Flatten", ["a"], ["b"], name="flat"),
        helper.make_node("Gemm", ["b", "g", "c"], ["d"], name="gemm", **attributes),
        helper.make_node("MatMul", ["d", "m"], ["y"], name="product"),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 24, 24])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
        [numpy_helper.from_array(values, name) for name, values in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


def _shares(path: Path, available_memory: AvailableMemory | None = None) -> dict[str, float]:
    compiled = compile_model(load_onnx(path), MACHINE, available_memory=available_memory)
    return {
        plan.name.split("/")[0]: plan.available_memory_proportion
        for plan in compiled.executable.plans
    }


def test_every_kind_has_its_share_and_a_node_overrides_it(tmp_path: Path) -> None:
    memory = AvailableMemory(convolution=0.3, matmul=0.2)
    plain = _save(tmp_path / "plain.onnx")
    assert _shares(plain) == {"conv": 0.6, "gemm": 0.6, "product": 0.6}
    assert _shares(plain, memory) == {"conv": 0.3, "gemm": 0.2, "product": 0.2}
    local = _save(tmp_path / "own.onnx", __available_memory=0.1)
    assert _shares(local, memory) == {"conv": 0.1, "gemm": 0.1, "product": 0.2}


def test_a_list_of_one_is_taken_as_popart_writes_it(tmp_path: Path) -> None:
    path = _save(tmp_path / "list.onnx", __available_memory=[0.25])
    assert _shares(path) == {"conv": 0.25, "gemm": 0.25, "product": 0.6}


@pytest.mark.parametrize("share", [0.0, -0.5, 1.5, float("nan"), [0.1, 0.2], "half"])
def test_an_invalid_share_of_a_node_is_rejected(tmp_path: Path, share: Any) -> None:
    path = _save(tmp_path / "bad.onnx", __available_memory=share)
    with pytest.raises(
        BadModel, match=r"'conv' .*__available_memory must be above 0 and at most 1"
    ):
        load_onnx(path)


def test_less_memory_never_increases_usage_and_the_plan_reports_the_bound(tmp_path: Path) -> None:
    path = _save(tmp_path / "m.onnx")
    used = []
    for share in (1.0, 0.01, 0.002, 0.001):
        memory = AvailableMemory(share, share)
        plans = compile_model(load_onnx(path), MACHINE, available_memory=memory).executable.plans
        used.append([plan.temporary_bytes for plan in plans])
        for plan in plans:
            keeps = plan.temporary_bytes <= share * MACHINE.allocatable_bytes
            assert keeps != (plan.bound == "least_memory"), plan
    for extra, less in pairwise(used):
        assert all(low <= high for high, low in zip(extra, less, strict=True))
    assert used[0] != used[-1], "the smallest share must bind something"


def _wide(n_zero: int = 0, side: int = 24) -> Model:
    """Return a convolution that does not fit on eight tiles with 0.6 of their memory.

    So many of its 256 filters are zero; `side` is that of its picture.
    """
    builder = IrBuilder("wide")
    x = builder.input("x", (1, 256, side, side), "float32")
    filters = np.ones((256, 256, 3, 3), np.float32)
    filters[:n_zero] = 0
    weights = builder.constant(filters, "w")
    y = builder.emit(
        OPERATORS["convolution"], [x, weights], name="conv", source="Conv", kernel=(3, 3),
        stride=(1, 1), dilation=(1, 1), padding_before=(1, 1), padding_after=(1, 1), groups=1,
    )  # fmt: skip
    return builder.finish([("y", y)])


def test_a_model_that_does_not_fit_is_compiled_with_less() -> None:
    machine = load_machine("c600", tiles_per_ipu=8)
    executable = compile_model(_wide(), machine).executable
    assert not executable.overfull_tiles.size
    assert [plan.available_memory_proportion for plan in executable.plans] == [0.3]
    local = AvailableMemory()
    selected = compile_model(_wide(), machine, available_memory=local).executable
    assert selected.overfull_tiles.size
    assert [plan.available_memory_proportion for plan in selected.plans] == [0.6]


def test_a_model_that_fits_at_no_share_keeps_the_usual_one() -> None:
    machine = load_machine("c600", tiles_per_ipu=4)
    executable = compile_model(_wide(), machine).executable
    assert executable.overfull_tiles.size
    assert [plan.available_memory_proportion for plan in executable.plans] == [0.6]


def _compiled_shares(
    monkeypatch: pytest.MonkeyPatch, model: Model, machine: Machine
) -> tuple[list[float], Executable]:
    """Return the shares with which a model is compiled, and the result."""
    shares = []

    def recorded(*arguments: Any) -> Any:
        shares.append(arguments[2].convolution)
        return lower(*arguments)

    monkeypatch.setattr(compilation, "lower", recorded)
    return shares, compile_model(model, machine).executable


def test_shares_that_change_no_plan_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its plan takes 340,992 bytes, which is more than 0.3 of a tile; none takes below 300,672."""
    machine = load_machine("c600", tiles_per_ipu=4)
    shares, executable = _compiled_shares(monkeypatch, _wide(), machine)
    assert executable.overfull_tiles.size
    assert [plan.temporary_bytes for plan in executable.plans] == [340_992]
    assert shares == [0.6, 0.3]
    for share in (0.3, 0.15, 0.075):
        local = AvailableMemory(share, share)
        (plan,) = compile_model(_wide(), machine, available_memory=local).executable.plans
        assert (plan.temporary_bytes, plan.bound) == (300_672, "least_memory")


def test_a_model_without_plans_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = IrBuilder("flat")
    x = builder.input("x", (4, 200_000), "float32")
    y = builder.emit(UNARY, [x], name="exp", source="Exp", function="exp")
    machine = load_machine("c600", tiles_per_ipu=4)
    shares, executable = _compiled_shares(monkeypatch, builder.finish([("y", y)]), machine)
    assert executable.overfull_tiles.size
    assert shares == [0.6]


@pytest.mark.parametrize(("n_zero", "expected"), [(0, [0.6]), (128, [0.6, 0.3])])
def test_constants_that_exceed_all_tiles_end_the_search(
    monkeypatch: pytest.MonkeyPatch, n_zero: int, expected: list[float]
) -> None:
    """Three tiles have 1.92 MB, weights take 2.36 MB; zeros may be padding of a plan."""
    machine = load_machine("c600", tiles_per_ipu=3)
    shares, executable = _compiled_shares(monkeypatch, _wide(n_zero, side=18), machine)
    assert executable.overfull_tiles.size
    assert shares == expected


def test_options_set_the_share_of_every_kind() -> None:
    options = resolve(
        environ={ENVIRONMENT_VARIABLE: json.dumps({MATMUL_MEMORY: "0.15"})},
        command_line={MATMUL_MEMORY: 0.4, CONVOLUTION_MEMORY: 0.5},
    )
    assert AvailableMemory.of(options) == AvailableMemory(convolution=0.5, matmul=0.15)
    rows = {row.name: (row.value, row.origin, row.has_effect) for row in options.records()}
    assert rows[MATMUL_MEMORY] == ("0.15", "environment", True)
    assert rows[CONVOLUTION_MEMORY] == ("0.5", "command line", True)
    assert AvailableMemory.given(options) == AvailableMemory.of(options)
    assert AvailableMemory.given(resolve(environ={})) is None


@pytest.mark.parametrize("share", ["0", "1.01", "-1", "nan", "much", "true"])
def test_an_option_out_of_range_is_refused(share: str) -> None:
    with pytest.raises(BadOption, match=f"a number above 0 and at most 1 for '{MATMUL_MEMORY}'"):
        resolve(environ={}, code={MATMUL_MEMORY: share})


@pytest.mark.parametrize("share", [0.0, 1.5, float("nan")])
def test_a_share_in_code_out_of_range_is_refused(share: float) -> None:
    with pytest.raises(BadOption, match="of matmul must be above 0"):
        AvailableMemory(matmul=share)
    graph = Graph(MACHINE)
    a = graph.add_variable("float32", (1, 4, 8), "a")
    graph.map_linearly(a)
    with pytest.raises(BadOption, match="above 0 and at most 1"):
        matmul(
            Builder(graph, Sequence()), a, np.ones((1, 8, 4), np.float32),
            available_memory_proportion=share,
        )  # fmt: skip
