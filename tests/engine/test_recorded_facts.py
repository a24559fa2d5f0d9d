"""What a report holds of origins: attributes, digests, operations, source lines, accesses."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tilescope.engine import Builder, Engine, Graph, compile_model, compile_programs, load_machine
from tilescope.engine.compiler.executable.executable import Executable
from tilescope.engine.fidelity import packaged_version
from tilescope.engine.frontend.onnx import load_onnx
from tilescope.engine.library.poplin.convolution import matmul
from tilescope.engine.options import resolve
from tilescope.engine.program import Sequence as ProgramSequence
from tilescope.reports import Report, check_report, open_report
from tilescope.reports.schema import (
    compute_set_vertex,
    debug_context,
    program,
    provenance,
    variable,
)

MACHINE = load_machine("gc200", tiles_per_ipu=16)


def rows(report: Report, table: Any) -> list[dict[str, Any]]:
    columns = report.table(table)
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def recorded(executable: Executable, folder: Path) -> Report:
    options = resolve(
        environ={}, code={"autoReport.all": True, "autoReport.directory": str(folder)}
    )
    with Engine(executable, options):
        pass
    assert check_report(folder / "profile.pop") == []
    return open_report(folder / "profile.pop")


def model(
    folder: Path,
    *,
    prefix: str = "",
    batch: int = 1,
    weights: float = 1.0,
    kernel: int = 3,
    strides: Sequence[int] = (1, 1),
) -> Path:
    """Write a convolution with a bias, a Softmax and its input; names begin with a prefix."""
    filters = np.full((8, 4, kernel, kernel), weights, np.float32)
    conv = helper.make_node(
        "Conv",
        [f"{prefix}x", f"{prefix}w", f"{prefix}b"],
        [f"{prefix}c"],
        name=f"{prefix}conv",
        strides=list(strides),
        auto_pad="SAME_UPPER",
    )
    softmax = helper.make_node("Softmax", [f"{prefix}c"], [f"{prefix}y"], name=f"{prefix}softmax")
    graph = helper.make_graph(
        [conv, softmax],
        "small",
        [helper.make_tensor_value_info(f"{prefix}x", TensorProto.FLOAT, [batch, 4, 8, 8])],
        [helper.make_tensor_value_info(f"{prefix}y", TensorProto.FLOAT, list("bcyx"))],
        [
            numpy_helper.from_array(filters, f"{prefix}w"),
            numpy_helper.from_array(np.ones(8, np.float32), f"{prefix}b"),
        ],
    )
    path = folder / f"{prefix}model.onnx"
    built = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(built, str(path))
    return path


def facts(folder: Path, **changes: Any) -> dict[str, str]:
    folder.mkdir()
    executable = compile_model(load_onnx(model(folder, **changes)), MACHINE).executable
    with recorded(executable, folder / "report") as report:
        table = report.table(provenance)
    return dict(zip(table["key"], table["value"], strict=True))


def test_a_report_says_which_table_of_expected_errors_was_current(tmp_path: Path) -> None:
    assert facts(tmp_path / "run")["fidelity_version"] == packaged_version()


def test_a_context_holds_what_the_models_own_node_says(tmp_path: Path) -> None:
    executable = compile_model(load_onnx(model(tmp_path, strides=(2, 2))), MACHINE).executable
    with recorded(executable, tmp_path / "report") as report:
        results = {row["name"]: row for row in rows(report, debug_context)}
        flops = report.array("cost.flops").read()
    detail = json.loads(results["conv"]["detail"])
    assert detail["attributes"] == {
        "auto_pad": "SAME_UPPER",
        "group": 1,
        "strides": [2, 2],
    } | {key: detail["attributes"][key] for key in detail["attributes"].keys() & {"dilations"}}
    assert detail["inputs"] == [
        ["x", "float32", [1, 4, 8, 8], False],
        ["w", "float32", [8, 4, 3, 3], True],
        ["b", "float32", [8], True],
    ]
    assert detail["outputs"] == [["c", "float32", [1, 8, 4, 4]]]
    assert json.loads(results["softmax"]["detail"])["attributes"] == {"axis": -1}
    n, k = 8 * 4 * 4, 8 * 4
    assert results["conv"]["flops"] == 2 * n * 4 * 9 + n
    assert results["softmax"]["flops"] == 5 * n - k
    total = flops.sum()
    assert total == results["conv"]["flops"] + results["softmax"]["flops"]
    assert results["conv"]["weights_digest"]
    assert not results["softmax"]["weights_digest"]
    assert results["conv"]["file_name"] is None, "no call of the graph API"


def test_digests_tell_structure_names_and_weights_apart(tmp_path: Path) -> None:
    first = facts(tmp_path / "first")
    renamed = facts(tmp_path / "renamed", prefix="other_")
    heavier = facts(tmp_path / "heavier", weights=2.0)
    assert renamed["graph_digest"] == heavier["graph_digest"] == first["graph_digest"]
    assert renamed["weights_digest"] == first["weights_digest"] != heavier["weights_digest"]
    changes: tuple[dict[str, Any], ...] = ({"batch": 2}, {"kernel": 5}, {"strides": (2, 2)})
    for number, changed in enumerate(changes):
        assert facts(tmp_path / str(number), **changed)["graph_digest"] != first["graph_digest"]


def product(columns: int = 6, value: float = 1.0, first: int = 0) -> Executable:
    graph = Graph(MACHINE)
    builder = Builder(graph, ProgramSequence("main"))
    x = graph.add_variable("float32", (1, 4, 5), "x")
    graph.map_linearly(x, first=first)
    matmul(builder, x, np.full((1, 5, columns), value, np.float32))
    return compile_programs(graph, [builder.sequence], plans=builder.plans)


def test_a_library_call_names_the_line_that_made_it(tmp_path: Path) -> None:
    with recorded(product(), tmp_path) as report:
        (call,) = (row for row in rows(report, debug_context) if row["name"] == "matmul")
    lines = Path(__file__).read_text().splitlines()
    assert call["file_name"] == Path(__file__).name
    assert "matmul(builder, x" in lines[call["line_number"] - 1]
    assert call["flops"] == 2 * 4 * 5 * 6
    assert call["weights_digest"]


def test_variables_have_digests_of_mapping_and_content(tmp_path: Path) -> None:
    results = []
    variations: tuple[dict[str, Any], ...] = ({}, {"value": 2.0}, {"first": 3})
    for number, options in enumerate(variations):
        with recorded(product(**options), tmp_path / str(number)) as report:
            results.append({row["name"]: row for row in rows(report, variable)})
            keys = report.table(provenance)
            results[-1]["facts"] = dict(zip(keys["key"], keys["value"], strict=True))
    plain, heavier, moved = results
    weights = next(name for name in plain if name.endswith("/weights"))
    assert plain[weights]["content_digest"] != heavier[weights]["content_digest"]
    assert plain[weights]["mapping_digest"] == heavier[weights]["mapping_digest"]
    assert plain["x"]["content_digest"] is None
    assert plain["x"]["mapping_digest"] != moved["x"]["mapping_digest"]
    assert plain["facts"]["graph_digest"] == heavier["facts"]["graph_digest"]
    assert plain["facts"]["weights_digest"] != heavier["facts"]["weights_digest"]


@pytest.mark.parametrize("is_renewed", [False, True])
def test_leaves_name_what_they_access(tmp_path: Path, is_renewed: bool) -> None:
    executable = product()
    if is_renewed:
        executable = replace(Executable.from_bytes(executable.to_bytes()))
    with recorded(executable, tmp_path) as report:
        names = report.table(variable)["name"]
        kinds = report.table(program)["kind"]
        pairs = zip(
            report.array("program_variable.program_id").read().tolist(),
            report.array("program_variable.variable_id").read().tolist(),
            strict=True,
        )
        results = {(kinds[leaf], names[which]) for leaf, which in pairs}
        vertices = rows(report, compute_set_vertex)
        patterns = report.array("vertices.pattern").read()
        code = report.array("code.pattern").read()
        leaves = rows(report, program)
    assert ("OnTileExecute", "x") in results
    assert ("DoExchange", "x") in results
    messages = {kind for kind, name in results if "message" in name}
    assert not messages or messages == {"DoExchange", "OnTileExecute"}
    for row in vertices:
        assert patterns[row["vertices_pattern_id"]].sum() == row["n_vertices"]
    for row in leaves:
        if row["code_pattern_id"] is not None:
            assert code[row["code_pattern_id"]].sum() == row["code_bytes"] > 0
