"""Traces of hosts: events, their trees, figures by label and thread, series, heatmaps.

Pages and commands ask `events` first; the others follow from it.
"""

from tilescope.analyser.host.events import Children, Events, children, events
from tilescope.analyser.host.figures import (
    ChannelFigures,
    LabelFigures,
    ThreadFigures,
    channel_figures,
    label_figures,
    thread_figures,
)
from tilescope.analyser.host.numbers import HeatmapColumns, SeriesValues, heatmaps, series
from tilescope.analyser.host.trace import HostTrace, Thread, host_trace, open_trace
from tilescope.analyser.host.window import window

__all__ = [
    "ChannelFigures",
    "Children",
    "Events",
    "HeatmapColumns",
    "HostTrace",
    "LabelFigures",
    "SeriesValues",
    "Thread",
    "ThreadFigures",
    "channel_figures",
    "children",
    "events",
    "heatmaps",
    "host_trace",
    "label_figures",
    "open_trace",
    "series",
    "thread_figures",
    "window",
]
