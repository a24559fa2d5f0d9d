import apsw
import pytest
from tests.faults.hostile_schemas import ADDED, ALTERED, FORGED, forge

from tilescope.reports import DamagedReport, open_report
from tilescope.reports.schema import step


def test_there_are_enough_of_them():
    assert len(ADDED) + len(ALTERED) + len(FORGED) >= 50


def _read_steps(path):
    with open_report(path) as report:
        report.table(step)


@pytest.mark.parametrize(
    "statement", [*ADDED, *ALTERED, *FORGED], ids=lambda statement: ascii(statement)[1:60]
)
def test_a_schema_that_is_not_ours_is_refused_at_once(small_report, statement):
    try:
        forge(small_report, statement)
    except apsw.SQLError as error:
        if "no such module" in str(error):
            pytest.skip(f"this SQLite has no such module: {error}")
        raise
    with pytest.raises(DamagedReport) as caught:
        _read_steps(small_report)
    assert "\n" not in str(caught.value)
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_an_error_that_quotes_the_file_is_one_printable_line(small_report):
    content = small_report.read_bytes()
    # Of the same length: SQLite finds the text where it was, and cannot parse it.
    text = b"CREATE TABLE step"
    assert content.count(text)
    damaged = content.replace(text, b"CREATE TABLE [\n\x1b\x00")
    small_report.write_bytes(damaged)
    with pytest.raises(DamagedReport) as caught:
        _read_steps(small_report)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 400
