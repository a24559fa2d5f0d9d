"""The steps of the how-to on report tables: declare, write, check, query."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.architecture.test_imports import sources

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/how-to/add-a-report-table.md"
_FILES = re.compile(r"`((?:reports|engine|analyser)/[\w/]+\.py)`")
#: Start and end of a program that follows the page.
_BEFORE_WRITING = """
import sys
from pathlib import Path

import numpy as np

from tilescope.engine import Graph, compile_programs, load_machine
from tilescope.reports import ReportWriter, check_report, open_report
from tilescope.reports.schema import TABLES
from tilescope.reports.schema import target as target_table

TABLES["overfull_tile"] = overfull_tile  # step 2

machine = load_machine("gc2", tiles_per_ipu=1)
graph = Graph(machine)
x = graph.add_constant(np.zeros(65_000, np.float32), "x")
graph.set_tile_mapping(x, [0], [0])
executable = compile_programs(graph, [])
writer = ReportWriter.create(Path(sys.argv[1]))
fields = [column.name for column in target_table.columns]
row = {name: getattr(machine, name, 1) for name in fields if name != "target_id"}
writer.add(target_table, [{**row, "target_type": "IPUModel"}])
"""
_WRITING = (
    "\nwrite_overfull_tiles(writer, executable)\nwriter.commit('compiled')\nwriter.finish()\n"
)
_ASKING = """
assert check_report(Path(sys.argv[1])) == []
with open_report(Path(sys.argv[1])) as report:
    print(overfull_tiles(report))
expected = int(executable.memory.including_gaps[0]) - machine.allocatable_bytes
assert executable.overfull_tiles.tolist() == [0]
print(((0, expected),))
"""


def test_the_page_is_followed(tmp_path: Path) -> None:
    declare, write, ask = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    program = tmp_path / "program.py"
    parts = (declare, _BEFORE_WRITING, write, _WRITING, ask, _ASKING)
    program.write_text("\n".join(parts), encoding="utf-8")
    process = subprocess.run(
        [sys.executable, str(program), str(tmp_path / "report")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'compat'}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert process.returncode == 0, process.stderr
    actual, expected = process.stdout.splitlines()
    assert actual == expected


def test_a_table_touches_four_files() -> None:
    """The page names four files; as many mention the table of a plan's stages."""
    steps = PAGE.read_text("utf-8").split("## Finally")[0].split("\n## ")[1:]
    named = [set(_FILES.findall(step)) - {"reports/schema/vocabulary.py"} for step in steps]
    assert [len(files) for files in named] == [1, 1, 1, 1]
    assert all((ROOT / path).is_file() for files in named for path in files)
    knowing = [path for path in sources() if _knows((ROOT / path).read_text("utf-8"), "plan_stage")]
    assert 1 < len(knowing) <= 4, knowing


def _knows(text: str, table: str) -> bool:
    """Return whether a module declares a table, imports it, or accesses it through the schema."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.ImportFrom(module=str(module), names=names):
                startswith = module.startswith("tilescope.reports.schema")
                startswith = startswith and table in {alias.name for alias in names}
            case ast.Attribute(value=ast.Name(id="schema"), attr=attribute):
                startswith = attribute == table
            case ast.Assign(
                targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id="TableSpec"))
            ):
                startswith = name == table
            case _:
                startswith = False
        if startswith:
            return True
    return False
