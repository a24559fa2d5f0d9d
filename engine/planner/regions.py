"""Plans of the gradient of aligned regions: groups of regions and rows of images over tiles.

Every channel has vertices of its own. Source: graphcore/poplibs sdk-release-3.4,
lib/popnn/ROIAlign.cpp, whose groups are as many as all workers can take; rows are split here where
images are too large for a tile.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.machine import Machine

__all__ = ["RegionPlan", "plan_regions"]

Counts = NDArray[np.int64]
#: Bytes of a partial sum.
_SUM_BYTES = 4


@dataclass(frozen=True)
class RegionPlan:
    """How the gradient of regions is split.

    Parameters
    ----------
    channels, regions, height
        What is split.
    groups
        Parts of the regions: each has sums of its own for all images.
    bands
        Parts of the rows of images.
    """

    channels: int
    regions: int
    height: int
    groups: int
    bands: int

    @property
    def n_vertices(self) -> int:
        """Vertices: one per group, channel and band."""
        return self.groups * self.channels * self.bands

    @property
    def region_edges(self) -> Counts:
        """Starts of the groups, and the end: ndarray of int64, shape (groups + 1,)."""
        return _edges(self.regions, self.groups)

    @property
    def row_edges(self) -> Counts:
        """Starts of the bands, and the end: ndarray of int64, shape (bands + 1,)."""
        return _edges(self.height, self.bands)


def _edges(size: int, n_parts: int) -> Counts:
    return np.arange(n_parts + 1, dtype=np.int64) * size // n_parts


@lru_cache(maxsize=256)
def plan_regions(
    shape: tuple[int, int, int, int], regions: int, machine: Machine, share: float
) -> RegionPlan | None:
    """Return the plan of the fewest bands, then of the most groups, that fits.

    Parameters
    ----------
    shape
        Shape of the images: batch, channels, height, width.
    regions
        Regions.
    machine
        The tiles.
    share
        Largest share of a tile for sums.

    Returns
    -------
    RegionPlan | None
        None if no plan fits.
    """
    batch, channels, height, width = shape
    bands = np.arange(1, height + 1)
    rows = -(-height // bands)

    def fits(groups: Counts | int) -> NDArray[np.bool_]:
        per_tile = -(-groups * channels * bands // machine.n_tiles)
        n_bytes = per_tile * batch * rows * width * _SUM_BYTES
        return np.asarray(n_bytes <= share * machine.bytes_per_tile)

    if not fits(1).any():
        return None
    bands, rows = (x[np.argmax(fits(1)) :][:1] for x in (bands, rows))
    most = -(-machine.n_worker_contexts * machine.n_tiles // (channels * int(bands[0])))
    groups = np.arange(min(regions, most), 0, -1)
    best = int(groups[np.argmax(fits(groups))])
    return RegionPlan(channels, regions, height, best, int(bands[0]))
