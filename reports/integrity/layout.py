"""The chunk layout of packed arrays, validated before any chunk is unpacked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilescope.reports.errors import DamagedReport
from tilescope.reports.integrity.verify import VerifiedTables
from tilescope.reports.schema import ARRAYS, ArraySpec, array, array_chunk, target
from tilescope.reports.schema.constraint import MAX_IPUS, MAX_TILES_PER_IPU

__all__ = ["ArrayLayout", "read_layouts"]

_LIMIT_ROWS = 2**40
_LIMIT_TILES = MAX_IPUS * MAX_TILES_PER_IPU


@dataclass(frozen=True)
class ArrayLayout:
    """The chunk grid of one array.

    ``row_start`` is an ndarray of int64, shape (n_bands + 1,): the first row of every band of
    chunks, then the number of rows. ``digests`` has one list per band with one digest per column of
    chunks, ``packed_digests`` the same for their packed bytes, or None. ``minimum``, ``maximum``
    and ``total`` are int64 arrays of shape (n_bands, n_chunk_columns). ``checked`` holds the places
    of chunks whose values have been checked against them.
    """

    spec: ArraySpec
    n_columns: int
    row_start: np.ndarray
    digests: list[list[bytes]]
    packed_digests: list[list[bytes | None]]
    minimum: np.ndarray
    maximum: np.ndarray
    total: np.ndarray
    checked: set[tuple[int, int]] = field(default_factory=set, compare=False)

    @property
    def n_rows(self) -> int:
        """Number of rows of the array."""
        return int(self.row_start[-1])


def read_layouts(tables: VerifiedTables, report_name: str) -> dict[str, ArrayLayout]:
    """Return the layout of every array of the catalogue; missing arrays have no rows.

    Raises
    ------
    DamagedReport
        An array does not match the catalogue and the target, or its chunks have gaps or overlap, or
        the tables that describe them do not match their digests.
    """
    widths = {"one": 1, "tiles": None, "ipu_tiles": None, "ipus": None}
    for n_ipus, tiles_per_ipu in tables.rows(target, "n_ipus", "tiles_per_ipu")[:1]:
        if not (1 <= n_ipus <= MAX_IPUS and 1 <= tiles_per_ipu <= MAX_TILES_PER_IPU):
            raise DamagedReport(
                f"{report_name} has an invalid target: {n_ipus} × {tiles_per_ipu} tiles."
            )
        widths.update(tiles=n_ipus * tiles_per_ipu, ipu_tiles=tiles_per_ipu, ipus=n_ipus)
    parts: dict[int, list[tuple[Any, ...]]] = {}
    for row in tables.rows(array_chunk):
        parts.setdefault(row[1], []).append(row)
    layouts = {}
    for array_id, name, dtype, n_columns, chunk_rows, chunk_columns in tables.rows(array):
        known = ARRAYS.get(name)
        spec = None if known is None else known.as_of(tables.version)
        if spec is None or (dtype, chunk_rows, chunk_columns) != (
            spec.dtype,
            spec.chunk_rows,
            spec.chunk_columns,
        ):
            raise DamagedReport(
                f"Array {str(name)[:80]!r} of {report_name} does not match its schema."
            )
        width = widths[spec.columns]
        if not 1 <= n_columns <= _LIMIT_TILES or (width is not None and n_columns != width):
            raise DamagedReport(
                f"Array {name} of {report_name} has {n_columns} columns;"
                f" expected {width} for the target."
            )
        layouts[name] = _layout(spec, n_columns, parts.pop(array_id, []), report_name)
    if parts:
        raise DamagedReport(f"{report_name} has chunks that belong to no array.")
    for name, spec in ARRAYS.items():
        if name not in layouts:
            layouts[name] = _layout(spec, widths[spec.columns] or 0, [], report_name)
    return layouts


def _layout(
    spec: ArraySpec, n_columns: int, parts: list[tuple[Any, ...]], report_name: str
) -> ArrayLayout:
    broken = DamagedReport(
        f"The chunks of array {spec.name} of {report_name} have gaps or overlap."
    )
    starts = range(0, n_columns, spec.chunk_columns)
    n_across = len(starts)
    if n_across and len(parts) % n_across:
        raise broken
    row_start, digests, packed_digests, summaries = [0], [], [], []
    for band in (parts[i : i + n_across] for i in range(0, len(parts), n_across or 1)):
        n_rows = band[0][3]
        if not 1 <= n_rows <= spec.chunk_rows or row_start[-1] > _LIMIT_ROWS:
            raise broken
        for start, part in zip(starts, band, strict=True):
            width = min(spec.chunk_columns, n_columns - start)
            if part[2:6] != (row_start[-1], n_rows, start, width):
                raise broken
        row_start.append(row_start[-1] + n_rows)
        digests.append([part[6] for part in band])
        packed_digests.append([part[10] for part in band])
        summaries.append([part[7:10] for part in band])
    numbers = np.array(summaries, np.int64).reshape(len(digests), n_across, 3)
    return ArrayLayout(
        spec,
        n_columns,
        np.array(row_start, np.int64),
        digests,
        packed_digests,
        numbers[:, :, 0],
        numbers[:, :, 1],
        numbers[:, :, 2],
    )
