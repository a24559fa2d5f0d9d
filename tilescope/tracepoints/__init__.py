"""Tracepoints: what a program does on its host, and when, streamed into a trace per process.

The engine and `libpvti` record through this package; `tilescope.reports` holds the file, and
`tilescope.analyser.host` reads it. Nothing is recorded unless ``PVTI_OPTIONS`` is set, and then a
disabled tracepoint costs the look at one attribute.
"""

from tilescope.tracepoints.instrumentation import instrument, instrument_fn, traced, traced_items
from tilescope.tracepoints.recording import (
    Channel,
    Tracepoint,
    channels,
    close_trace,
    create_channel,
    is_recording,
    note_fact,
    trace_id,
    trace_path,
)
from tilescope.tracepoints.series import Graph, Heatmap, Series

__all__ = [
    "Channel",
    "Graph",
    "Heatmap",
    "Series",
    "Tracepoint",
    "channels",
    "close_trace",
    "create_channel",
    "instrument",
    "instrument_fn",
    "is_recording",
    "note_fact",
    "trace_id",
    "trace_path",
    "traced",
    "traced_items",
]
