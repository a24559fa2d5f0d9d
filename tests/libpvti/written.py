"""Writes traces from given records, for tests of what reads them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tilescope.reports import ReportWriter
from tilescope.reports.kind import KIND_KEY, Kind
from tilescope.reports.schema import host_channel, host_label, host_thread, provenance
from tilescope.reports.schema.vocabulary import HOST_RECORDS

__all__ = ["Record", "write_trace"]

#: Time in nanoseconds, begin, end or mark, channel, label, and thread.
Record = tuple[int, str, str, str, int]


def write_trace(path: Path, records: Sequence[Record], pid: int = 7) -> Path:
    """Write a finished trace."""
    channels = list(dict.fromkeys(channel for _, _, channel, _, _ in records))
    labels = list(dict.fromkeys((channel, label) for _, _, channel, label, _ in records))
    threads = list(dict.fromkeys(thread for *_, thread in records))
    with ReportWriter.create_trace(path) as writer:
        facts = {
            KIND_KEY: Kind.HOST_TRACE,
            "wall_trace_id": path.stem,
            "wall_process_id": str(pid),
            "wall_program": "program.py",
            "wall_origin_ns": str(10**18),
        }
        writer.add(provenance, [{"key": key, "value": text} for key, text in facts.items()])
        writer.add(host_channel, [{"name": name} for name in channels])
        writer.add(host_thread, [{"tid": 100 + t, "name": f"thread {t}"} for t in threads])
        rows = [{"host_channel_id": channels.index(c), "label": label} for c, label in labels]
        writer.add(host_label, rows)
        columns: dict[str, np.ndarray] = {
            "wall_ns": np.array([moment for moment, *_ in records], np.int64),
            "kind": np.array([HOST_RECORDS[kind] for _, kind, *_ in records], np.int32),
            "host_label_id": np.array(
                [labels.index((channel, label)) for _, _, channel, label, _ in records], np.int32
            ),
            "host_thread_id": np.array([threads.index(t) for *_, t in records], np.int32),
        }
        writer.append_columns("host_event", columns)
        writer.commit("trace")
        return writer.finish()
