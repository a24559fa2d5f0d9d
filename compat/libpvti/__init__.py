"""A module for programs written against libpvti, over TileScope's tracepoints.

Names and types are libpvti's; `docs/reference/libpvti.md` lists them all. Traces are read by
`pva.openTrace` and `tilescope system`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tilescope.tracepoints import (
    Channel,
    Series,
    Tracepoint,
    channels,
    close_trace,
    create_channel,
    instrument,
    instrument_fn,
    trace_path,
)
from tilescope.tracepoints import Graph as _Graph
from tilescope.tracepoints import Heatmap as _Heatmap

__all__ = [
    "Channel",
    "Graph",
    "HeatmapDouble",
    "Series",
    "TraceChannel",
    "Tracepoint",
    "checkTraceChannel",
    "closeTrace",
    "createJsonMetadata",
    "createTraceChannel",
    "disableTraceChannel",
    "enableTraceChannel",
    "getCurrentTraceFilename",
    "instrument",
    "instrument_fn",
    "listTraceChannel",
    "traceDrivers",
    "traceFramework",
    "tracePoplar",
]

TraceChannel = Channel

traceDrivers = create_channel("Drivers")
tracePoplar = create_channel("Poplar")
traceFramework = create_channel("Framework")


def createTraceChannel(name: str) -> Channel:
    """Return the channel of a name, which is enabled unless the program has disabled it.

    Parameters
    ----------
    name
        Name of the channel.

    Raises
    ------
    TypeError
        When the name is not a string.
    """
    return create_channel(name)


def enableTraceChannel(channel: Channel) -> None:
    """Have the tracepoints of a channel recorded.

    Parameters
    ----------
    channel
        The channel.
    """
    channel.enabled = True


def disableTraceChannel(channel: Channel) -> None:
    """Have the tracepoints of a channel recorded no more.

    Parameters
    ----------
    channel
        The channel.
    """
    channel.enabled = False


def checkTraceChannel(channel: Channel) -> bool:
    """Return whether a channel is enabled.

    Parameters
    ----------
    channel
        The channel.
    """
    return channel.enabled


def listTraceChannel() -> list[list[str | bool]]:
    """Return the name of every channel, and whether it is enabled."""
    return [[channel.name, channel.enabled] for channel in channels()]


def getCurrentTraceFilename() -> str:
    """Return the path of the trace that this process writes; empty if it writes none."""
    path = trace_path()
    return "" if path is None else str(path)


def closeTrace() -> None:
    """Write all that was recorded, and end the trace: nothing is recorded after it."""
    close_trace()


def createJsonMetadata(text: str) -> str:
    """Return what a tracepoint takes as its metadata.

    Parameters
    ----------
    text
        JSON.
    """
    return text


class Graph(_Graph):
    """A chart of one or more series of numbers.

    Parameters
    ----------
    name
        Its title.
    unit
        Unit of its numbers, such as ``%``.
    enable
        Whether it is recorded.
    """

    def addSeries(self, name: str = "") -> Series:
        """Return a new line of the graph.

        Parameters
        ----------
        name
            Its name.
        """
        return self.add_series(name)


class HeatmapDouble(_Heatmap):
    """How often values fall into bins, in the course of time.

    Parameters
    ----------
    name
        Its title.
    edges
        Edges of the bins, ascending: one more than there are bins.
    label
        Label of the values.

    Raises
    ------
    ValueError
        When the edges do not ascend, or are fewer than two.
    """

    def __init__(self, name: str, edges: Sequence[float], label: str = "") -> None:
        super().__init__(name, edges, label)

    def add(self, values: Iterable[float]) -> None:
        """Record how some values spread, now; values outside of the bins are not counted.

        Parameters
        ----------
        values
            Numbers.

        Raises
        ------
        TypeError
            When they are not numbers.
        """
        super().add(values)
