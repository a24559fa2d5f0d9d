"""The declared tables: what SQLite makes of them, what they refer to, and what reading imports."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from tilescope.reports import check_report, open_report, schema
from tilescope.reports.recover import recover_report
from tilescope.reports.schema import (
    OLDEST_VERSION,
    SCHEMA_VERSION,
    TABLES,
    TableSpec,
    target,
    variable,
    vertex_type,
)

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


def test_later_columns_are_the_last_of_their_tables_and_may_be_missing() -> None:
    later = 0
    for table in TABLES.values():
        versions = [column.since for column in table.columns]
        assert versions == sorted(versions), table.name
        assert versions[0] >= OLDEST_VERSION
        assert versions[-1] <= SCHEMA_VERSION
        for column in table.columns:
            assert column.is_nullable or column.since == table.since, (table.name, column.name)
            later += column.since > OLDEST_VERSION
        assert table.as_of(SCHEMA_VERSION) is table
    assert later > 0


def test_a_report_of_an_earlier_version_is_read_whole(tmp_path: Path) -> None:
    """What it lacks is null; it is verified, recovered and shown like any other."""
    golden = ROOT / f"tests/golden/v{OLDEST_VERSION}/small.pop"
    with open_report(golden) as report:
        assert set(report.column(variable, "sender_id")) == {None}
        assert set(report.column(vertex_type, "is_copy")) == {None}
        assert report.column(target, "preset_tiles_per_ipu") == (None,)
        names = report.column(variable, "name")
        report.verify()
    assert check_report(golden) == []
    part = tmp_path / "cut.pop"
    part.write_bytes(golden.read_bytes())
    outcome = recover_report(part, tmp_path / "recovered")
    with open_report(tmp_path / "recovered") as report:
        assert report.column(variable, "name") == names
        assert set(report.column(variable, "sender_id")) == {None}
    assert outcome is not None


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
