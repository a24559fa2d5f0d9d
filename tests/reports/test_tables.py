"""The declared tables: what SQLite makes of them, what they refer to, and what reading imports."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from tilescope.reports import schema
from tilescope.reports.schema import TABLES, TableSpec

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
def test_sqlite_makes_the_table_that_is_declared(table: TableSpec) -> None:
    connection = apsw.Connection(":memory:")
    connection.execute(table.create)
    columns = list(connection.execute("SELECT * FROM pragma_table_info(?)", (table.name,)))
    assert [
        (name, kind, not not_null, bool(key)) for _, name, kind, not_null, _, key in columns
    ] == [
        (column.name, column.sql_type, column.is_nullable, column.name == table.primary_key)
        for column in table.columns
    ]
    indices = connection.execute("SELECT name FROM pragma_index_list(?)", (table.name,))
    unique = {
        tuple(name for (name,) in connection.execute(
            "SELECT name FROM pragma_index_info(?)", (index,)
        ))
        for (index,) in list(indices)
    }  # fmt: skip
    expected = {(column.name,) for column in table.columns if column.is_unique}
    assert unique == expected | ({table.unique} if table.unique else set())


def test_every_declared_table_is_listed_and_refers_to_columns_that_exist() -> None:
    declared = [
        value
        for module in pkgutil.iter_modules(schema.__path__)
        for value in vars(importlib.import_module(f"{schema.__name__}.{module.name}")).values()
        if isinstance(value, TableSpec)
    ]
    assert {table.name for table in declared} == set(TABLES)
    for table in TABLES.values():
        assert table.columns[0].kind == "integer", table.name
        for column in table.columns:
            if column.refers_to is not None:
                name, referred = column.refers_to
                assert referred in {peer.name for peer in TABLES[name].columns}


def test_neither_reading_nor_writing_imports_a_database_library(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from tests.generated_report import generate_report\n"
        "from tilescope import analyser\n"
        "from tilescope.analyser.diff import compare\n"
        "from tilescope.analyser.summary.summarise import summarise\n"
        f"path = generate_report({str(tmp_path)!r}, n_tiles=8, n_steps=30)\n"
        "with analyser.open(path) as report:\n"
        "    summarise(report)\n"
        "    compare(report, report)\n"
        "assert 'sqlalchemy' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)
