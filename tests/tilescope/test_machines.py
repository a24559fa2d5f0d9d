"""``tilescope machines``: presets and machine files side by side."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tilescope.engine import load_machine
from tilescope.engine.machine import PARAMETER_SETS, machine_names


def test_the_table_has_a_column_for_every_machine(tilescope: Callable[..., Any]) -> None:
    finished = tilescope("machines")
    lines = [line.split() for line in finished.out.splitlines()]
    assert finished.code == 0
    assert lines[0] == ["Figure", "Set", "Unit", *machine_names()]
    assert ["sync_cycles", "hardware", "cycles", "237", "237", "117", "237"] in lines
    assert ["sync_cycles", "ipu_model", "cycles", "126", "126", "126", "126"] in lines


@pytest.mark.parametrize("parameter_set", PARAMETER_SETS)
def test_json_holds_every_figure_of_a_machine(
    tilescope: Callable[..., Any], parameter_set: str
) -> None:
    answer = tilescope("machines", "bow", "gc2", "--json").json()
    assert [machine["name"] for machine in answer["machines"]] == ["bow", "gc2"]
    machine = load_machine("gc2", parameter_set=parameter_set)
    visited = 0
    for figure in answer["figures"]:
        if figure["is_used"] and figure["set"] in ("both", parameter_set):
            assert figure["values"][1] == getattr(machine, figure["name"]), figure["name"]
            assert all(figure["sources"])
            visited += 1
    assert visited > 30


def test_a_custom_machine_beside_its_base(tilescope: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('base = "gc200"\n[common]\nsync_cycles = { value = 7, source = "Our board" }\n')
    finished = tilescope("machines", path, "gc200", "--sources")
    rows = [line.split() for line in finished.out.splitlines()]
    assert ["sync_cycles", "hardware", "mine", "7", "cycles", "Our", "board"] in rows
    assert any(row[:4] == ["sync_cycles", "hardware", "gc200", "237"] for row in rows)


@pytest.mark.parametrize("name", ["gc201", "no/such.toml"])
def test_an_unknown_machine(tilescope: Callable[..., Any], name: str) -> None:
    finished = tilescope("machines", name)
    assert finished.code == 2
    assert finished.out == ""
    assert name in finished.err
    assert finished.err.count("\n") == 1
