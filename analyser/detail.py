"""Long series at the level of detail that a chart of some columns can show; peaks are kept."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["keep_extremes"]


def keep_extremes(values: NDArray[np.int64 | np.float64], n_groups: int) -> NDArray[np.int64]:
    """Return the positions of the smallest and largest value of each of ``n_groups`` groups.

    Parameters
    ----------
    values : ndarray of int64 or of finite float64, shape (n,)
    n_groups : int
        Number of groups of neighbours; all values are kept at two or fewer per group.

    Returns
    -------
    ndarray of int64
        Ascending and unique, including the first and last position.
    """
    n_values = len(values)
    if n_values <= 2 * n_groups:
        return np.arange(n_values, dtype=np.int64)
    edges = np.linspace(0, n_values, n_groups + 1).astype(np.int64)
    group = np.repeat(np.arange(n_groups), np.diff(edges))
    order = np.lexsort((values, group))
    low, high = order[edges[:-1]], order[edges[1:] - 1]
    ends = np.array([0, n_values - 1], dtype=np.int64)
    return np.unique(np.concatenate([low, high, ends])).astype(np.int64)
