import random
import subprocess
import sys
from pathlib import Path

import apsw
import numpy as np
import pytest
import zstandard
from tests.faults.bombs import compressed_bombs

from tilescope.reports import DamagedReport, ReportError, check_report, open_report
from tilescope.reports.integrity import chunks
from tilescope.reports.schema import ARRAYS, TABLES, array_chunk, step, variable

ROOT = Path(__file__).parents[2]
BOMBS = compressed_bombs()


#: Tables that hold digests.
_SEALS = ("row_block", "milestone")


def _content(path):
    with open_report(path) as report:
        return (
            report.milestones,
            [report.table(table) for table in TABLES.values() if table.name not in _SEALS],
            [report.array(name).read().tolist() for name in ARRAYS],
            [report.table(TABLES[name]) for name in _SEALS],
        )


def _without_leftovers(path):
    """Return the file with zeros where SQLite has left what it moved to other pages."""
    connection = apsw.Connection(str(path))
    connection.pragma("secure_delete", True)
    connection.execute("VACUUM")
    connection.close()
    return path.read_bytes()


@pytest.mark.slow
def test_no_flipped_bit_changes_what_is_read(small_report):
    expected = _content(small_report)
    sound = _without_leftovers(small_report)
    assert _content(small_report) == expected
    generator = random.Random(7)
    used = [index for index, byte in enumerate(sound) if byte]
    n_found = 0
    for _ in range(2_000):
        damaged = bytearray(sound)
        # Most of a small file is empty space; sample it, but not most of the time.
        is_used = generator.random() < 0.8
        index = generator.choice(used) if is_used else generator.randrange(len(damaged))
        damaged[index] ^= 1 << generator.randrange(8)
        small_report.write_bytes(damaged)
        try:
            content = _content(small_report)
        except ReportError:
            n_found += 1
        else:
            assert content == expected
    assert n_found > 1_450  # the others hit unused space and indexes, which no reader uses


def test_invalid_utf8_is_damage(small_report):
    connection = apsw.Connection(str(small_report))
    connection.execute("UPDATE step SET name = CAST(x'c328ff' AS TEXT) WHERE step_id = 1")
    connection.close()
    with open_report(small_report) as report, pytest.raises(DamagedReport, match="not valid UTF-8"):
        report.table(step)


def test_other_tables_stay_readable_beside_a_damaged_one(small_report):
    connection = apsw.Connection(str(small_report))
    connection.execute("UPDATE variable SET bytes = bytes + 1 WHERE variable_id = 3")
    connection.close()
    with open_report(small_report) as report:
        for _ in range(2):
            with pytest.raises(DamagedReport, match="Table variable of"):
                report.column(variable, "name")
        assert len(report.table(step)["name"]) == 30


_TAMPERED = {
    "text in a column of numbers": "UPDATE variable SET bytes = 'many' WHERE variable_id = 1",
    "bytes in a column of text": "UPDATE step SET name = x'00ff' WHERE step_id = 1",
    "a fraction in a column of integers": "UPDATE step SET program_id = 1.5 WHERE step_id = 1",
    "an unknown array": "UPDATE array SET name = 'other' WHERE array_id = 0",
    "another type": "UPDATE array SET dtype = '|O' WHERE array_id = 0",
    "another chunk size": "UPDATE array SET chunk_rows = 1 << 40",
    "endless columns": "UPDATE array SET n_columns = 1 << 40",
    "other columns than the target": "UPDATE target SET tiles_per_ipu = 9",
    "a target of negative size": "UPDATE target SET tiles_per_ipu = -8",
    "chunks of no array": "UPDATE array_chunk SET array_id = 99 WHERE array_chunk_id = 0",
    "a gap": "UPDATE array_chunk SET row_start = row_start + 1",
    "negative rows": "UPDATE array_chunk SET n_rows = -5",
    "endless rows": "UPDATE array_chunk SET n_rows = 1 << 60",
    "a chunk that is missing": "DELETE FROM chunk WHERE chunk_id = 0",
    "a lying length": "UPDATE chunk SET raw_bytes = 1 << 50",
    "a negative length": "UPDATE chunk SET raw_bytes = -1",
    "another codec": "UPDATE chunk SET codec = 'pickle'",
    "swapped codecs": "UPDATE chunk SET codec = CASE codec WHEN 'zstd' THEN 'shuffle+zstd'"
    " ELSE 'zstd' END",
    "no compressed data": "UPDATE chunk SET data = x'00'",
    "text for data": "UPDATE chunk SET data = 'text'",
}


@pytest.mark.parametrize("statement", _TAMPERED.values(), ids=_TAMPERED.keys())
def test_what_the_digests_cannot_catch_is_caught_behind_them(small_report, tamper, statement):
    with tamper() as connection:
        connection.execute(statement)
    with pytest.raises(DamagedReport) as caught:
        _content(small_report)
    assert str(small_report) in str(caught.value)


def test_resealing_alone_leaves_a_sound_report(small_report, tamper):
    _, *before, _ = _content(small_report)
    with tamper():
        pass
    _, *after, _ = _content(small_report)
    assert after == before


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS.keys())
def test_a_zstd_bomb_is_refused(small_report, tamper, bomb):
    with tamper() as connection:
        connection.execute("UPDATE chunk SET data = ?", (bomb,))
    with open_report(small_report) as report:
        array = report.array("liveness.pattern")
        with pytest.raises(DamagedReport, match="chunk"):
            array.read()


_UNPACK_IN_LITTLE_MEMORY = """
import resource, sys
from tilescope.reports import DamagedReport, open_report
with open_report(sys.argv[1]) as report:
    array = report.array("liveness.pattern")
    pages = int(open("/proc/self/statm").read().split()[0])
    limit = pages * resource.getpagesize() + 100 * 1024**2
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    try:
        array.read()
    except DamagedReport as error:
        print("refused:", error)
"""


def test_a_bomb_of_a_gibibyte_needs_no_memory(small_report, tamper):
    bomb = zstandard.ZstdCompressor().compress(bytes(1024**3))
    with tamper() as connection:
        connection.execute("UPDATE chunk SET data = ?", (bomb,))
    command = [sys.executable, "-c", _UNPACK_IN_LITTLE_MEMORY, str(small_report)]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert process.stdout.startswith("refused: "), process.stderr


def test_unpacking_never_makes_more_than_the_rectangle_needs():
    packed = chunks.pack(np.zeros((16, 4), "<i8"))
    bomb = zstandard.ZstdCompressor().compress(bytes(64 * 1024**2))
    liar = chunks.PackedChunk(packed.digest, "zstd", 16 * 4 * 8, bomb)
    with pytest.raises(DamagedReport):
        chunks.unpack(liar, "<i8", (16, 4), "a test")


def test_a_chunk_listed_a_million_times_does_not_fill_the_memory(small_report, tamper):
    with tamper() as connection:
        ids = connection.execute("SELECT array_id FROM array WHERE name LIKE 'trace.%'").fetchall()
        columns = ", ".join(column.name for column in array_chunk.columns[1:])
        for (array_id,) in ids:
            connection.execute(f"DELETE FROM array_chunk WHERE array_id = {array_id}")
            connection.execute(
                "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 9999)"
                f" INSERT INTO array_chunk ({columns})"
                f" SELECT {array_id}, i * 65536, 65536, 0, 1, x'00', 0, 0, 0, NULL FROM n"
            )
    with open_report(small_report) as report:
        array = report.array("trace.start_cycle")
        assert len(array) == 9_999 * 65_536 + 65_536
        with pytest.raises(DamagedReport, match="too large"):
            array.read()


def test_checking_a_damaged_report_reports_and_never_raises(small_report, small_bytes):
    generator = random.Random(5)
    n_found = 0
    for _ in range(60):
        damaged = bytearray(small_bytes)
        page = 4_096 * generator.randrange(1, len(damaged) // 4_096)
        damaged[page : page + 12] = generator.randbytes(12)
        small_report.write_bytes(damaged)
        problems = check_report(small_report)
        n_found += bool(problems)
        assert all("\n" not in problem.sentence for problem in problems)
    assert n_found == 60
