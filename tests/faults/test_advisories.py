"""What is read from pip-audit's report."""

from __future__ import annotations

from tests.faults.advisories import read_report


def test_advisories_and_unchecked_packages_are_told_apart() -> None:
    advisory = {"id": "PYSEC-2024-1", "fix_versions": ["2.0", "1.9.1"], "aliases": []}
    report = {
        "dependencies": [
            {"name": "sound", "version": "1.0", "vulns": []},
            {"name": "old", "version": "1.9", "vulns": [advisory]},
            {"name": "local", "skip_reason": "Dependency not found"},
        ]
    }
    advisories, unchecked = read_report(report)
    assert advisories == ["old 1.9: PYSEC-2024-1, fixed in 2.0, 1.9.1"]
    assert unchecked == ["local"]
