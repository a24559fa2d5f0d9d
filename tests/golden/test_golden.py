"""The golden workload reproduces its stored report exactly.

After an intentional change, update the file with ``pytest tests/golden --update-golden`` and state
the reason in the commit.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.golden.recipe import GOLDEN, make

from tilescope.analyser import diff
from tilescope.analyser.summary.metrics import values
from tilescope.reports import UnsupportedSchema, check_report, open_report
from tilescope.reports.schema import OLDEST_VERSION, SCHEMA_VERSION


def test_the_same_workload_gives_the_stored_report(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    path = tmp_path / "profile.pop"
    make(path)
    assert path.stat().st_size < 100_000, "tables and chunks of a small report have few empty pages"
    if request.config.getoption("--update-golden"):
        make(GOLDEN)
    with open_report(GOLDEN) as baseline, open_report(path) as candidate:
        # Provenance contains package versions, which may differ here.
        unequal = set(diff.unequal_data(baseline, candidate)) - {"provenance"}
        changed = {
            change.name: (change.baseline, change.candidate)
            for change in diff.metric_changes(baseline, candidate)
            if change.baseline != change.candidate
        }
    assert (unequal, changed) == (set(), {}), (
        "The report of the golden workload changed. If this is intended, update it with"
        " --update-golden and state the reason in the commit."
    )


@pytest.mark.parametrize(
    "path",
    sorted(Path(__file__).parent.glob("v*/*.pop")),
    ids=lambda path: "/".join(path.parts[-2:]),
)
def test_every_stored_report_opens_or_explains_what_to_do(path: Path) -> None:
    assert path.stat().st_size < 150_000
    version = int(path.parent.name.removeprefix("v"))
    if version < OLDEST_VERSION:
        supported = f"supports {OLDEST_VERSION} to {SCHEMA_VERSION}"
        with pytest.raises(UnsupportedSchema, match=f"schema {version}.*{supported}"):
            open_report(path)
        return
    assert check_report(path) == []
    with open_report(path) as report:
        assert values(report)["cycles.total"]
