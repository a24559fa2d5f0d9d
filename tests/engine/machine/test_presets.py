"""Machine presets: every figure has a source, and sizes match published ones."""

from __future__ import annotations

from typing import Any

import pytest

from tilescope.engine import Executable, Graph, compile_programs, load_machine
from tilescope.engine.errors import BadMachine
from tilescope.engine.execute.timeline import timeline_of
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popops.elementwise.operations import unary
from tilescope.engine.machine import FIGURES, PARAMETER_SETS, describe_machine, machine_names
from tilescope.engine.program import Sequence


def test_there_are_four_machines() -> None:
    assert machine_names() == ["bow", "c600", "gc2", "gc200"]


@pytest.mark.parametrize("name", machine_names())
def test_every_figure_has_a_source(name: str) -> None:
    for parameter_set in PARAMETER_SETS:
        figures = describe_machine(name).by_set[parameter_set]
        assert {spec.name for spec in FIGURES.values() if spec.is_used} <= set(figures)
        for key, figure in figures.items():
            assert len(figure.source) > 15, key
            assert figure.is_assumption or "assumption" not in figure.source.lower(), key


@pytest.mark.parametrize("name", machine_names())
@pytest.mark.parametrize("parameter_set", PARAMETER_SETS)
def test_memory_regions_make_up_the_tile(name: str, parameter_set: str) -> None:
    machine = load_machine(name, parameter_set=parameter_set)
    regions_bytes = machine.non_interleaved_bytes + machine.interleaved_bytes
    reserved = 8192 if name == "gc2" else 0  # the system reserves 8 KiB of a GC2 tile's 256 KiB
    assert machine.bytes_per_tile - regions_bytes == reserved
    assert machine.n_worker_contexts == 6
    assert machine.total_bytes == machine.n_tiles * machine.bytes_per_tile


def test_external_sync_takes_the_published_cycles() -> None:
    def cycles(name: str, n_ipus: int, parameter_set: str) -> int:
        machine = load_machine(name, n_ipus=n_ipus, parameter_set=parameter_set)
        return machine.external_sync_cycles

    # lbm-graphcore: 501 to 642 on 16 GC2, and 166 in the mean of two GC2 of the IPU Model.
    # poplibs: 2 x 15 ns x clock per hop, 1 + IPUs/4 hops; all after an internal sync of 126.
    assert cycles("gc2", 16, "hardware") == 642
    assert [cycles("gc200", n, "ipu_model") for n in (1, 2, 4, 16)] == [166, 166, 206, 326]
    assert cycles("gc2", 2, "ipu_model") == 174


def test_published_sizes() -> None:
    gc2, gc200, bow = (load_machine(name) for name in ("gc2", "gc200", "bow"))
    assert (gc2.n_tiles, gc2.bytes_per_tile) == (1216, 256 * 1024)
    assert (gc200.n_tiles, gc200.bytes_per_tile) == (1472, 624 * 1024)
    assert (bow.n_tiles, bow.clock_hz) == (1472, 1.85e9)
    assert load_machine("gc200", n_ipus=4).n_tiles == 4 * 1472


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("gc20", {}, ["choose one of bow, c600, gc2, gc200", "did you mean gc2"]),
        ("gc200", {"n_ipus": 0}, ["n_ipus is 0"]),
        ("gc200", {"n_ipus": 65}, ["between 1 and 64"]),
        ("gc200", {"tiles_per_ipu": 1473}, ["1 to 1472 tiles"]),
        ("gc200", {"tiles_per_ipu": 0}, ["tiles_per_ipu is 0"]),
        ("gc200", {"parameter_set": "fast"}, ["hardware or ipu_model"]),
        ("gc200", {"link_topology": "star"}, ["'star'", "ladder or torus"]),
    ],
)
def test_an_invalid_machine(name: str, options: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(BadMachine) as caught:
        load_machine(name, **options)
    assert all(word in str(caught.value) for word in words)


def test_only_a_model_can_be_without_code() -> None:
    model = load_machine("gc200", parameter_set="ipu_model", compiles_code=False)
    assert not model.compiles_code
    with pytest.raises(BadMachine, match="runs compiled code"):
        load_machine("gc200", compiles_code=False)
    with pytest.raises(BadMachine, match="compiles_code is 0"):
        load_machine("gc200", parameter_set="ipu_model", compiles_code=0)  # type: ignore[arg-type]


def test_a_model_without_code_has_the_same_cycles_and_no_code() -> None:
    def compiled(compiles_code: bool) -> Executable:
        machine = load_machine(
            "gc2", parameter_set="ipu_model", tiles_per_ipu=4, compiles_code=compiles_code
        )
        builder = Builder(Graph(machine), Sequence("main"))
        x = builder.graph.add_variable("float32", (64, 64), "x")
        builder.graph.map_linearly(x)
        unary(builder, "sqrt", x)
        return compile_programs(builder.graph, [builder.sequence])

    bare, whole = compiled(compiles_code=False), compiled(compiles_code=True)
    cycles = [timeline_of(one.roots[0], one.machine)[0].n_cycles for one in (bare, whole)]
    assert cycles[0] == cycles[1]
    assert bare.memory.always_live.sum() < whole.memory.always_live.sum()
