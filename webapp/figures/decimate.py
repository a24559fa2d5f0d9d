"""Decimation of long series that keeps their peaks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["LINE_SHAPE", "Kept", "keep_extremes", "visible_points"]

#: Buckets in the visible range, about one per pixel; a bucket yields two points.
WINDOW_BUCKETS = 800
#: Buckets outside the visible range, for the overview strip.
OUTSIDE_BUCKETS = 200
#: Line shape of series: a value holds for its whole position.
LINE_SHAPE = "hvh"
#: Extension of the first and last step beyond the data, in positions.
_ALMOST_HALF = 0.499


@dataclass(frozen=True)
class Kept:
    """Positions to draw, int64 and ascending: ``n_shown`` of the window's ``n_window`` values."""

    positions: NDArray[np.int64]
    n_window: int
    n_shown: int

    @property
    def is_decimated(self) -> bool:
        """Whether some values of the window are left out."""
        return self.n_shown < self.n_window

    def steps(self, n_values: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return the x coordinates of the points and the positions of their values.

        Steps change half-way between two positions, so the first and last would be half as wide
        as the others, and a single step would have no width. They are drawn twice, almost half
        a position apart; hovering there still rounds to the position.

        Returns
        -------
        tuple of ndarray
            x coordinates, float64, and positions of the values, int64, of equal length.
        """
        places, positions = self.positions.astype(np.float64), self.positions
        if not len(positions):
            return places, positions
        before = [-_ALMOST_HALF] if positions[0] == 0 else []
        after = [n_values - 1 + _ALMOST_HALF] if positions[-1] == n_values - 1 else []
        first, last = positions[: len(before)], positions[len(positions) - len(after) :]
        return np.concatenate([before, places, after]), np.concatenate([first, positions, last])

    def note(self, noun: str) -> str:
        """Return a note about decimation, empty when every value is drawn."""
        if not self.is_decimated:
            return ""
        return (
            f"{self.n_window:,} {noun} drawn as minimum and maximum of {self.n_shown // 2:,}"
            " groups; zoom in to see all"
        )


def keep_extremes(values: NDArray[np.int64], n_buckets: int) -> NDArray[np.int64]:
    """Return the positions of the smallest and largest value of each of ``n_buckets`` groups.

    Parameters
    ----------
    values : ndarray of int64, shape (n,)
    n_buckets : int
        Number of groups of neighbours; all values are kept at two or fewer per group.

    Returns
    -------
    ndarray of int64
        Ascending and unique, including the first and last position.
    """
    n_values = len(values)
    if n_values <= 2 * n_buckets:
        return np.arange(n_values, dtype=np.int64)
    edges = np.linspace(0, n_values, n_buckets + 1).astype(np.int64)
    bucket = np.repeat(np.arange(n_buckets), np.diff(edges))
    order = np.lexsort((values, bucket))
    low, high = order[edges[:-1]], order[edges[1:] - 1]
    ends = np.array([0, n_values - 1], dtype=np.int64)
    return np.unique(np.concatenate([low, high, ends])).astype(np.int64)


def visible_points(values: NDArray[np.int64], window: tuple[float, float] | None) -> Kept:
    """Return the positions to draw, fine in the window and coarse elsewhere.

    Parameters
    ----------
    values : ndarray of int64, shape (n,)
        The values whose minima and maxima are kept.
    window : tuple or None
        First and last visible position; None for all.
    """
    n_values = len(values)
    low, high = window or (0.0, float(n_values))
    first = min(max(int(np.floor(low)), 0), n_values)
    stop = min(max(int(np.ceil(high)) + 1, first), n_values)
    inner = keep_extremes(values[first:stop], WINDOW_BUCKETS) + first
    parts = [
        keep_extremes(values[:first], OUTSIDE_BUCKETS),
        inner,
        keep_extremes(values[stop:], OUTSIDE_BUCKETS) + stop,
    ]
    return Kept(np.concatenate(parts).astype(np.int64), stop - first, len(inner))
