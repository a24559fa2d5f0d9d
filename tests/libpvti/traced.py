"""Runs a program in a process of its own, with a trace, and reads what it recorded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tilescope.reports import Report
from tilescope.reports.schema import (
    HOST_EVENT_COLUMNS,
    host_channel,
    host_label,
    host_thread,
)
from tilescope.reports.schema.vocabulary import HOST_RECORDS

__all__ = ["ROOT", "environment", "records", "run", "traces"]

ROOT = Path(__file__).parents[2]
_KINDS = {code: name for name, code in HOST_RECORDS.items()}


def environment(options: str | Mapping[str, object] | None) -> dict[str, str]:
    """Return an environment with PVTI_OPTIONS: a text, an object as JSON, or none."""
    inherited = {key: value for key, value in os.environ.items() if key != "PVTI_OPTIONS"}
    inherited["PYTHONPATH"] = f"{ROOT / 'compat'}:{ROOT}"
    if options is not None:
        text = options if isinstance(options, str) else json.dumps(options)
        inherited["PVTI_OPTIONS"] = text
    return inherited


def run(
    script: str,
    folder: Path,
    options: str | Mapping[str, object] | None = '{"enable":"true"}',
    *,
    is_silent: bool = True,
) -> str:
    """Run a program in a folder; return what it prints. Errors are nothing if it is silent."""
    process = subprocess.run(
        [sys.executable, *(["-W", "error"] if is_silent else []), "-c", script],
        env=environment(options),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert process.returncode == 0, process.stderr
    assert not is_silent or process.stderr == ""
    return process.stdout


def traces(folder: Path) -> list[Path]:
    """Return the traces in a folder, oldest first."""
    return sorted(folder.glob("*.pvti"), key=lambda path: path.stat().st_mtime)


def records(report: Report) -> list[tuple[str, str, str, str]]:
    """Return (thread, kind, channel, label) of all records, in the order of the file."""
    columns = [report.array(f"host_event.{name}").read().ravel() for name in HOST_EVENT_COLUMNS]
    times, kinds, labels, threads = columns
    channels = report.rows(host_channel, "name")
    texts = report.rows(host_label, "host_channel_id", "label")
    names = report.rows(host_thread, "name")
    for thread in np.unique(threads):
        assert (np.diff(times[threads == thread]) >= 0).all()
    return [
        (names[thread][0], _KINDS[kind], channels[texts[label][0]][0], texts[label][1])
        for kind, label, thread in zip(
            kinds.tolist(), labels.tolist(), threads.tolist(), strict=True
        )
    ]
