"""The walk on the architecture page matches the compiler, the report and the trace."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from tilescope import analyser
from tilescope.analyser.program.plan_explanation import explain_plan
from tilescope.analyser.trace import KINDS, extent, names, window
from tilescope.engine import Engine, compile_model, load_machine, load_onnx, resolve_options
from tilescope.engine.transform import transform
from tilescope.reports import Report, schema

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def walk() -> str:
    return _section("One tensor, from the file to the pixel")


def _section(title: str) -> str:
    page = (ROOT / "docs/explanation/architecture.md").read_text(encoding="utf-8")
    return re.sub(r"\s+", " ", page.partition(f"## {title}\n")[2].partition("\n## ")[0])


@pytest.fixture(scope="module")
def report(
    catalogue_model: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Report]:
    folder = tmp_path_factory.mktemp("walk")
    compiled = compile_model(load_onnx(catalogue_model("mnist-8")), load_machine("gc200"))
    options = resolve_options(code={"autoReport.all": True, "autoReport.directory": str(folder)})
    with Engine(compiled.executable, options) as engine:
        compiled.run(engine, compiled.random_inputs(0))
    with analyser.open(folder) as opened:
        yield opened


def _array(report: Report, name: str) -> np.ndarray:
    array = report.array(name)
    return array.read(0, len(array))


@pytest.mark.parametrize(
    "title",
    ["One tensor, from the file to the pixel", "One operator, from the file to the vertices"],
)
def test_every_file_of_a_walk_exists(title: str) -> None:
    walk = _section(title)
    named = re.findall(r"`([\w/]+\.(?:py|js))`", walk)
    assert len(named) > 9
    folder = ROOT
    for name in named:  # a bare name is in the folder of the previous one
        path = ROOT / name if "/" in name else folder / name
        assert path.is_file(), name
        folder = path.parent


def test_the_primitives_of_softmax(catalogue_model: Callable[[str], Path]) -> None:
    model = load_onnx(catalogue_model("opennsfw"))
    (softmax,) = (node for node in model.operations if node.operator.name == "Softmax")
    used = [node for node in transform(model).operations if node.name == softmax.name]
    (primitive,) = (node.operator.name for node in used)
    assert f"the primitive `{primitive}`" in _section("One operator, from the file to the vertices")


def test_the_model_s_value(walk: str, catalogue_model: Callable[[str], Path]) -> None:
    model = load_onnx(catalogue_model("mnist-8"))
    (full,) = (node for node in model.operations if node.name == "Convolution28")
    assert full.output.name in walk
    assert f"{full.output.dtype}, {full.output.shape}" in walk
    assert f"record `{full.operator.name}`" in walk
    (used,) = (node for node in transform(model).operations if node.name == "Convolution28")
    assert f"the primitive `{used.operator.name}`" in walk
    assert used.attributes["padding_before"] == used.attributes["padding_after"] == (2, 2)


def test_the_plan_and_its_vertices(walk: str, report: Report) -> None:
    actual = explain_plan(report, "Convolution28")
    split = [number for number in actual.plan.split.values() if number > 1]
    assert " × ".join(map(str, split)) in walk
    assert f"{actual.plan.n_tiles} tiles" in walk
    assert actual.plan.family == "amp"
    assert actual.plan.grouping["inputs"] == 2, "in pairs"
    used = next(vertex for vertex in actual.vertices if vertex.vertex_type.startswith("poplin"))
    assert f"{used.n_vertices} vertices of `{used.vertex_type}`" in walk
    assert f"{used.max_cycles:,} cycles on the busiest tile" in walk
    added = next(vertex for vertex in actual.vertices if vertex.vertex_type.endswith("ReduceAdd"))
    assert f"{added.n_vertices} of `{added.vertex_type}`" in walk


def test_the_variables_and_where_they_lie(walk: str, report: Report) -> None:
    variables = report.rows(schema.variable, "name", "variable_id", "shape")
    for name in ("preArranged", "partials", "out"):
        full = f"Convolution28/convolution/{name}"
        ((_, variable_id, shape),) = [row for row in variables if row[0] == full]
        assert f"`{full}` of shape {tuple(json.loads(shape))}" in walk
    is_part = _array(report, "lowered.variable_id") == variable_id
    (size,) = set(_array(report, "lowered.bytes")[is_part].tolist())
    assert f"{is_part.sum()} parts of {size} bytes" in walk
    position = int((_array(report, "lifetime.variable_id") == variable_id).argmax())
    begin, end = (int(_array(report, f"lifetime.{x}_step")[position]) for x in ("start", "end"))
    name_of = report.column(schema.step, "name")
    assert name_of[begin] == "Convolution28/convolution/reduce"
    assert "compute set `reduce` up to" in walk
    assert name_of[end - 1] == "Pooling66/pool/pool"
    assert "`Pooling66/pool/pool`, which reads it last" in walk
    between = [name.split("/")[0] for name in name_of[begin:end] if "InPlace" in name]
    assert list(dict.fromkeys(between)) == ["Plus30", "ReLU32"]
    assert "`Plus30` adds the bias in place, and `ReLU32` replaces the sum in place" in walk


def test_the_bar(walk: str, report: Report) -> None:
    forest, all_of_it = names(report), extent(report)
    drawn = window(report, all_of_it.start_cycle, all_of_it.end_cycle, 1000)
    compute = next(index for index, kind in enumerate(KINDS) if kind.name == "compute")
    bars = drawn.bars
    position = next(
        position
        for position, (name, kind) in enumerate(zip(bars.name, bars.kind, strict=True))
        if kind == compute and forest.labels[name] == "convolve"
    )
    path, level = [], int(bars.name[position])
    while level >= 0:
        path.append(forest.labels[level])
        level = forest.parents[level]
    assert path == ["convolve", "convolution", "Convolution28"]
    assert "split the step's name into `Convolution28`, `convolution` and `convolve`" in walk
    cycles = int(bars.end_cycle[position] - bars.start_cycle[position])
    assert f"red for compute, {cycles:,} cycles long" in walk
