"""A layered drawing cut into columns beside each other, so that a long one fills a screen."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tilescope.analyser.graph.layered_layout import Layout, Point

__all__ = ["Fold", "FoldedLayout", "fold"]

#: Sizes of a usual screen in box widths and rows.
_SCREEN_BOXES, _SCREEN_ROWS = 5.6, 8.0
#: Space between columns, and between lines in it, in box widths.
_GUTTER, _LANE = 0.7, 0.05
#: Lines beside each other in it; further ones share their places.
_N_LANES = 9
_MOST_COLUMNS = 16
#: What folding must gain in scale.
_LEAST_GAIN = 1.2


@dataclass(frozen=True)
class Fold:
    """Where a line leads from the end of a column to the start of the next.

    Attributes
    ----------
    after
        Number of the point of the line's route that it follows; 0 is the source, the first place
        of the route is 1.
    x
        Where the line runs between the columns, in box widths from the left.
    last_row
        Last row of the column that it leaves.
    lane
        Number of the line among those between the two columns, from 0.
    """

    after: int
    x: float
    last_row: int
    lane: int


@dataclass(frozen=True)
class FoldedLayout:
    """Where boxes and lines stand: as in `Layout`, with rows counted from the top of a column.

    Attributes
    ----------
    folds
        By edge, where its line leads from column to column.
    width
        Of the drawing, in box widths.
    """

    x: tuple[float, ...]
    row: tuple[int, ...]
    routes: Mapping[tuple[int, int], tuple[Point, ...]]
    folds: Mapping[tuple[int, int], tuple[Fold, ...]]
    width: float
    n_rows: int


def fold(layout: Layout) -> FoldedLayout:
    """Return a layout in as many columns as make it largest on a screen."""
    tops = _tops(layout)
    column = [bisect_right(tops, row) - 1 for row in range(layout.n_rows)]
    points = [*zip(layout.x, layout.row, strict=True), *_places(layout)]
    shift, left = _columns(points, column, len(tops))

    def moved(point: Point) -> Point:
        target_column = column[point[1]]
        return round(point[0] + shift[target_column], 3), point[1] - tops[target_column]

    x, row = zip(*map(moved, points[: len(layout.x)]), strict=True) if layout.x else ((), ())
    ends = [*(top - 1 for top in tops[1:]), layout.n_rows - 1]
    lanes = [0] * len(tops)
    folds: dict[tuple[int, int], tuple[Fold, ...]] = {}
    for edge, route in layout.routes.items():
        rows = [layout.row[edge[0]], *(point[1] for point in route), layout.row[edge[1]]]
        levels = []
        for after, (upper, lower) in enumerate(pairwise(rows)):
            number = column[upper]
            if column[lower] != number:
                lane = lanes[number] % _N_LANES
                x_of_lane = left[number + 1] - _GUTTER / 2 + _LANE * (lane - _N_LANES // 2)
                levels.append(Fold(after, round(x_of_lane, 3), ends[number] - tops[number], lane))
                lanes[number] += 1
        if levels:
            folds[edge] = tuple(levels)
    return FoldedLayout(
        tuple(x),
        tuple(row),
        {edge: tuple(map(moved, route)) for edge, route in layout.routes.items()},
        folds,
        round(max((x_value + 0.5 for x_value in x), default=0.0), 3),
        max(row, default=-1) + 1,
    )


def _places(layout: Layout) -> list[Point]:
    return [point for route in layout.routes.values() for point in route]


def _tops(layout: Layout) -> list[int]:
    """Return the first row of every column: one column unless several are drawn larger."""
    crossing = [0] * (layout.n_rows + 1)
    for first, second in layout.routes:
        if len(layout.routes[first, second]) < layout.row[second] - layout.row[first] - 1:
            return [0]  # the lines have no places to be cut at
        for row in range(layout.row[first] + 1, layout.row[second] + 1):
            crossing[row] += 1
    width = max(layout.x, default=0.0) + 0.5
    best, best_scale = [0], _scale(width, layout.n_rows) * _LEAST_GAIN
    for n_columns in range(2, min(_MOST_COLUMNS, layout.n_rows) + 1):
        tops = _cuts(crossing, layout.n_rows, n_columns)
        tallest = max(end - top for top, end in pairwise([*tops, layout.n_rows]))
        scale = _scale(n_columns * width + (n_columns - 1) * _GUTTER, tallest)
        if scale > best_scale:
            best, best_scale = tops, scale
    return best


def _scale(width: float, n_rows: int) -> float:
    """Return how large a drawing is on a screen; 1 is full size."""
    return min(1.0, _SCREEN_BOXES / max(width, 1e-9), _SCREEN_ROWS / max(n_rows, 1))


def _cuts(crossing: Sequence[int], n_rows: int, n_columns: int) -> list[int]:
    """Return the first rows of columns of similar height, where few lines cross."""
    height = n_rows / n_columns
    room = max(1, int(height / 6))
    tops = [0]
    for number in range(1, n_columns):
        ideal = round(number * height)
        near = range(max(tops[-1] + 1, ideal - room), min(n_rows, ideal + room + 1))
        if near:
            tops.append(min(near, key=lambda row: (crossing[row], abs(row - ideal))))
    return tops


def _columns(
    points: Sequence[Point], column: Sequence[int], n_columns: int
) -> tuple[list[float], list[float]]:
    """Return how far every column moves to the right, and where it begins then."""
    leftmost, rightmost = [float("inf")] * n_columns, [0.0] * n_columns
    for x, row in points:
        column_index = column[row]
        leftmost[column_index], rightmost[column_index] = (
            min(leftmost[column_index], x - 0.5),
            max(rightmost[column_index], x + 0.5),
        )
    shifts, lefts, left_edge = [], [], 0.0
    for first, last in zip(leftmost, rightmost, strict=True):
        shifts.append(left_edge - first)
        lefts.append(left_edge)
        left_edge += last - first + _GUTTER
    return shifts, lefts
