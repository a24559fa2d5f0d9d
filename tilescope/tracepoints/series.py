"""Numbers over time, and how values spread over bins over time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tilescope.tracepoints.recording import current

if TYPE_CHECKING:
    from tilescope.tracepoints.recorder import Recorder

__all__ = ["Graph", "Heatmap", "Series"]


class Series:
    """A line of a graph; made by `Graph.add_series`."""

    def __init__(self, graph: Graph, name: str) -> None:
        self.graph = graph
        self.name = name
        self._recorder: Recorder | None = None
        self._number = 0

    def add(self, value: float) -> None:
        """Record a number, now.

        Parameters
        ----------
        value
            The number; NaN and infinities are kept.

        Raises
        ------
        TypeError
            When it is not a number.
        """
        recorder = current() if self.graph.is_enabled else None
        if recorder is None or recorder.is_closed:
            return
        try:
            number = float(value)
        except (TypeError, ValueError) as error:
            raise TypeError(f"Expected a number for 'value', got {value!r}.") from error
        if recorder is not self._recorder:  # another process, after a fork
            self._recorder = recorder
            self._number = recorder.series(self.graph.name, self.graph.unit, self.name)
        recorder.sample(self._number, number)


class Graph:
    """A chart of one or more series.

    Parameters
    ----------
    name
        Its title.
    unit
        Unit of its numbers, such as ``%``.
    enable
        Whether it is recorded.
    """

    def __init__(self, name: str, unit: str = "", enable: bool = True) -> None:
        self.name = str(name)
        self.unit = str(unit)
        self.is_enabled = bool(enable)

    def add_series(self, name: str = "") -> Series:
        """Return a new line of the graph.

        Parameters
        ----------
        name
            Its name.
        """
        return Series(self, str(name))


class Heatmap:
    """How often values fall into bins, in the course of time.

    Parameters
    ----------
    name
        Its title.
    edges
        Edges of the bins, ascending: one more than there are bins.
    unit
        Label of the values.

    Raises
    ------
    ValueError
        When the edges do not ascend, or are fewer than two.
    """

    def __init__(self, name: str, edges: Sequence[float], unit: str = "") -> None:
        import numpy as np

        self.name = str(name)
        self.unit = str(unit)
        try:
            self.edges = np.array(list(edges), np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"Expected numbers for 'edges', got {edges!r}.") from error
        is_ascending = self.edges.ndim == 1 and bool((np.diff(self.edges) > 0).all())
        if len(self.edges) < 2 or not is_ascending:
            raise ValueError("Expected at least two ascending numbers for 'edges'.")
        self._recorder: Recorder | None = None
        self._number = 0

    def add(self, values: Iterable[float]) -> None:
        """Record how some values spread, now; values outside of the bins are not counted.

        Parameters
        ----------
        values
            Numbers. A bin has its lower edge, the last one its upper edge, too.

        Raises
        ------
        TypeError
            When they are not numbers.
        """
        import numpy as np

        recorder = current()
        if recorder is None or recorder.is_closed:
            return
        given = values if hasattr(values, "__array__") else list(values)
        try:
            numbers = np.asarray(given, np.float64).ravel()
        except (TypeError, ValueError) as error:
            raise TypeError(f"Expected numbers for 'values', got {values!r}.") from error
        if recorder is not self._recorder:
            self._recorder = recorder
            edges = self.edges.astype("<f8").tobytes()
            self._number = recorder.heatmap(self.name, self.unit, edges)
        counts, _ = np.histogram(numbers[~np.isnan(numbers)], self.edges)
        recorder.heatmap_column(self._number, counts.astype("<u4").tobytes())
