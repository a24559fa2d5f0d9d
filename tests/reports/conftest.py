from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest
from tests.faults.seal import reseal
from tests.generated_report import generate_report

from tilescope.reports.writing import trace_bars


@pytest.fixture(scope="session")
def small_bytes(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a small generated report, with bars as a long trace has them."""
    directory = tmp_path_factory.mktemp("small")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace_bars, "LONG_TRACE_ENTRIES", 0)
        path = generate_report(
            directory,
            n_tiles=8,
            n_steps=30,
            n_variables=9,
            distinct_patterns=6,
            n_runs=2,
            n_training_steps=12,
        )
    return path.read_bytes()


@pytest.fixture
def small_report(tmp_path: Path, small_bytes: bytes) -> Path:
    path = tmp_path / "profile.pop"
    path.write_bytes(small_bytes)
    return path


@pytest.fixture
def tamper(small_report: Path) -> Callable[[], object]:
    """Open the small report for writing; afterwards, recompute all digests.

    An attacker who knows the format would do this: only the checks beyond the digests detect it.
    """

    @contextmanager
    def change() -> Iterator[apsw.Connection]:
        connection = apsw.Connection(str(small_report))
        yield connection
        reseal(connection)
        connection.close()

    return change
