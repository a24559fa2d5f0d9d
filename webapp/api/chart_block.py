"""The binary block of a chart's range: one or two reports over an axis of tiles or steps.

A block is the length of the header (uint32), the header (JSON, padded with spaces to a multiple of
eight bytes from the block's start), then the columns of every entry of its ``sides`` in turn, all
little-endian: ``n_shown`` values (float64, bytes) of every entry of its ``series``, ``n_shown``
totals (float64), ``n_shown`` places (int32) and tiles or steps (int32); then of its matches
``n_matches`` heights (float64), places (int32) and steps (int32).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from fastapi import Depends, Query

from tilescope.analyser.memory.charts import ChartRange, ChartSeries
from tilescope.webapp.figures.theme import BASELINE_COLOUR, CANDIDATE_COLOUR, series_colour

__all__ = ["AskedRange", "pack_block", "pack_chart"]

_Place = Annotated[int, Query(ge=-(2**31), le=2**31 - 1)]


def _asked_range(
    start: _Place, end: _Place, width: Annotated[int, Query(ge=1, le=20_000)]
) -> ChartRange:
    """Return the range of a question: half-open places, and a width in columns."""
    return ChartRange(start, end, width)


#: The parameters ``start``, ``end`` and ``width`` of a question.
AskedRange = Annotated[ChartRange, Depends(_asked_range)]


def pack_chart(
    shown: ChartRange, sides: Sequence[ChartSeries], n_places: int, **header: Any
) -> bytes:
    """Return the series of one or two reports as one binary block.

    Parameters
    ----------
    shown
        The range.
    sides
        The series of the baseline, and of the candidate if there is one.
    n_places
        Length of the whole axis.
    header
        More entries of the header; those that start with ``side_`` hold one value a side.
    """
    own_values = {name[5:]: values for name, values in header.items() if name.startswith("side_")}
    head = {name: value for name, value in header.items() if not name.startswith("side_")}
    head |= {
        "start": shown.start,
        "end": min(shown.end, n_places),
        "n_columns": shown.n_columns,
        "n_places": n_places,
        "sides": [
            _describe(side, index, {name: values[index] for name, values in own_values.items()})
            for index, side in enumerate(sides)
        ],
    }
    return pack_block(head, [column for side in sides for column in _columns(side)])


def pack_block(header: Mapping[str, Any], columns: Sequence[bytes]) -> bytes:
    """Return a header and columns as one binary block."""
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 4) % 8)
    return b"".join([np.asarray([len(text)], "<u4").tobytes(), text, *columns])


def _describe(side: ChartSeries, place: int, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return a side's part of the header."""
    matches = side.matches
    return {
        "name": ("Baseline", "Candidate")[place],
        "colour": (BASELINE_COLOUR, CANDIDATE_COLOUR)[place],
        "n_shown": len(side.place),
        "n_items": side.n_items,
        "highest_bytes": side.highest_bytes,
        "capacity_bytes": side.capacity_bytes,
        "beside_bytes": side.beside_bytes,
        "series": [
            {"label": label, "colour": series_colour(label, number)}
            for number, label in enumerate(side.series)
        ],
        "n_matches": 0 if matches is None else len(matches.place),
        "n_found": None if matches is None else matches.n_found,
        **own,
    }


def _columns(side: ChartSeries) -> list[bytes]:
    """Return a side's columns."""
    columns = [values.astype("<f8") for values in (*side.series.values(), side.total_bytes)]
    columns += [side.place.astype("<i4"), side.item.astype("<i4")]
    if side.matches is not None:
        columns.append(side.matches.bytes.astype("<f8"))
        columns += [side.matches.place.astype("<i4"), side.matches.item.astype("<i4")]
    return [column.tobytes() for column in columns]
