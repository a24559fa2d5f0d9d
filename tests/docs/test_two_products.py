"""The page that compares a published report with ours states the current figures."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fidelity.products import chained_memory, chained_program
from tests.fidelity.read_off import steps_of

PAGE = Path(__file__).parents[2] / "docs/explanation/two-products.md"


@pytest.fixture(scope="module")
def page() -> str:
    return PAGE.read_text(encoding="utf-8")


def test_the_cycles_of_the_steps(page: str) -> None:
    program = chained_program()
    names = {step.name for step in steps_of(program, "OnTileExecute")}
    assert {name.split("/")[0] for name in names} == {"m4", "m5"}
    for name in sorted(names):
        exchange, compute = (
            int(step.cost.cycles.max())
            for kind in ("DoExchange", "OnTileExecute")
            for step in steps_of(program, kind, name)
            if step.name == name
        )
        assert f"{exchange:,} + {compute:,}" in page, name


def test_the_plans_split(page: str) -> None:
    first = chained_program().plans[0]
    parts = [first.split[name] for name in ("columns", "outputs", "inputs")]
    assert first.swaps_operands
    assert (
        f"split it {parts[0]} ways over its rows, {parts[1]} ways\nover its columns and {parts[2]}"
        f" ways over the inner dimension: {first.n_tiles:,} tiles" in page
    )


def test_the_memory(page: str) -> None:
    memory = chained_program().memory
    ours = {
        "Including gaps": int(memory.including_gaps.sum()),
        "Excluding gaps": int(memory.excluding_gaps.sum()),
        "Interleaved": sum(int(rows[1].sum()) for rows in memory.categories.values()),
        "Vertex instances": int(memory.categories["vertexInstanceState"].sum()),
        "Instrumentation results": int(memory.categories["instrumentationResults"].sum()),
    }
    for label, n_bytes in ours.items():
        (line,) = (row for row in page.splitlines() if row.startswith(f"| {label}"))
        assert line.endswith(f"| {n_bytes:,} |"), label
    figures = chained_memory()
    assert f"| {figures['peak of what comes and goes']:.1f} MB |" in page
    assert f"| {figures['always live, without code and stack']:.1f} MB |" in page
    assert f"| {figures['a tile without work']:.1f} kB |" in page
