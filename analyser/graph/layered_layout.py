"""A layered drawing of a directed graph: rows by the longest path, few crossings, straight lines.

Source: Sugiyama, Tagawa, Toda, "Methods for visual understanding of hierarchical system
structures", IEEE Trans. SMC 11 (1981); positions in a row by isotonic regression.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

__all__ = ["Layout", "Point", "lay_out"]

#: Sweeps over the rows that order them, and that shift them.
_N_SWEEPS = 8
#: Width of a line between the boxes of a row, in box widths.
_LINE_WIDTH = 0.3
#: Places of lines between rows, above which lines run straight through.
_MOST_PLACES = 6_000
#: Isolated boxes that stand beside each other.
_N_BESIDE = 6

#: A place in the drawing: box widths from the left, and row.
Point = tuple[float, int]


@dataclass(frozen=True)
class Layout:
    """Where boxes and lines stand.

    Attributes
    ----------
    x
        Centre of every box, in box widths from the left.
    row
        Row of every box, from 0.
    routes
        By edge: the places between its ends where its line crosses a row.
    """

    x: tuple[float, ...]
    row: tuple[int, ...]
    routes: Mapping[tuple[int, int], tuple[Point, ...]]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return max(self.row, default=-1) + 1


def lay_out(n_boxes: int, edges: Sequence[tuple[int, int]]) -> Layout:
    """Return a drawing in which edges lead down; the same for the same graph.

    Parameters
    ----------
    n_boxes
        Boxes, numbered from 0 in program order.
    edges
        Pairs of a source and a target. Those whose source is not before their target lead
        backwards: they do not influence the rows and have no route.
    """
    forward = sorted({(first, second) for first, second in edges if first < second})
    touched = sorted({end for edge in edges for end in edge})
    rows = _rows(n_boxes, forward, touched)
    drawing = _Drawing(rows, forward, touched)
    drawing.order()
    x = drawing.places()
    routes = {
        edge: tuple((x[node], drawing.row[node]) for node in between)
        for edge, between in drawing.between.items()
    }
    boxes = {box: x[box] for box in touched}
    below = max(rows.values(), default=-1) + 1
    isolated = [box for box in range(n_boxes) if box not in rows]
    for number, box in enumerate(isolated):
        rows[box], boxes[box] = below + number // _N_BESIDE, 0.5 + number % _N_BESIDE
    return Layout(
        tuple(boxes[box] for box in range(n_boxes)),
        tuple(rows[box] for box in range(n_boxes)),
        routes,
    )


def _rows(
    n_boxes: int, forward: Sequence[tuple[int, int]], touched: Sequence[int]
) -> dict[int, int]:
    """Return the row of every box with an edge: below all that lead to it."""
    row = dict.fromkeys(touched, 0)
    nearest: dict[int, int] = {}
    has_source = set()
    for first, second in forward:  # in order of the source, whose own row is known by then
        row[second] = max(row[second], row[first] + 1)
        has_source.add(second)
    for first, second in forward:
        nearest[first] = min(nearest.get(first, n_boxes), row[second])
    for box, next_row in nearest.items():
        if box not in has_source:
            row[box] = next_row - 1
    return row


class _Drawing:
    """Boxes, and the places of lines between rows, ordered and shifted row by row."""

    def __init__(
        self, row: Mapping[int, int], forward: Sequence[tuple[int, int]], touched: Sequence[int]
    ) -> None:
        self.row = dict(row)
        self.between: dict[tuple[int, int], list[int]] = {edge: [] for edge in forward}
        self._is_line: set[int] = set()
        self._above: dict[int, list[int]] = {}
        self._below: dict[int, list[int]] = {}
        self._split(forward, max(touched, default=-1) + 1)
        self.rows: list[list[int]] = [[] for _ in range(max(self.row.values(), default=-1) + 1)]
        for box in touched:
            self.rows[self.row[box]].append(box)
        for nodes in self.between.values():
            for node in nodes:
                self.rows[self.row[node]].append(node)

    def _split(self, forward: Sequence[tuple[int, int]], number: int) -> None:
        """Give a line a place in every row that it crosses."""
        n_places = sum(self.row[second] - self.row[first] - 1 for first, second in forward)
        for first, second in forward:
            chain = [first]
            if n_places <= _MOST_PLACES:
                for row in range(self.row[first] + 1, self.row[second]):
                    self.row[number] = row
                    self._is_line.add(number)
                    chain.append(number)
                    number += 1
            self.between[first, second] = chain[1:]
            for upper, lower in pairwise([*chain, second]):
                self._below.setdefault(upper, []).append(lower)
                self._above.setdefault(lower, []).append(upper)

    def order(self) -> None:
        """Order rows by the mean place of neighbours; keep the order that crosses least."""
        best, fewest = [list(row) for row in self.rows], self._n_crossings()
        for sweep in range(_N_SWEEPS):
            is_down = sweep % 2 == 0
            rows = self.rows if is_down else self.rows[::-1]
            beside = self._above if is_down else self._below
            index_of = self._indices()
            for row in rows:
                target_index = {
                    box: _mean(beside.get(box, ()), index_of, index_of[box]) for box in row
                }
                row.sort(key=target_index.__getitem__)
                index_of.update({box: index for index, box in enumerate(row)})
            n_crossings = self._n_crossings()
            if n_crossings < fewest:
                best, fewest = [list(row) for row in self.rows], n_crossings
        self.rows = best

    def _indices(self) -> dict[int, float]:
        return {box: index for row in self.rows for index, box in enumerate(row)}

    def _n_crossings(self) -> int:
        """Return how often lines between adjacent rows cross."""
        index_of, n_crossings = self._indices(), 0
        for row in self.rows:
            ends: list[float] = []
            for box in row:
                lower = sorted(index_of[neighbour] for neighbour in self._below.get(box, ()))
                n_crossings += sum(len(ends) - bisect_right(ends, end) for end in lower)
                for end in lower:
                    insort(ends, end)
        return n_crossings

    def places(self) -> dict[int, float]:
        """Return the centre of every box and place, so that lines are as straight as rows allow."""
        x: dict[int, float] = {}
        for row in self.rows:
            x.update(zip(row, self._offsets(row), strict=True))
        for sweep in range(_N_SWEEPS + 1):
            is_down = sweep % 2 == 0
            for row in self.rows if is_down else self.rows[::-1]:
                target_x = [self._wanted(box, x, is_down=is_down) for box in row]
                x.update(zip(row, _fitted(target_x, self._offsets(row)), strict=True))
        left = min((x[box] - self._width(box) / 2 for box in x), default=0.0)
        return {box: round(centre - left, 3) for box, centre in x.items()}

    def _width(self, box: int) -> float:
        return _LINE_WIDTH if box in self._is_line else 1.0

    def _offsets(self, row: Sequence[int]) -> list[float]:
        """Return the least centres of the boxes of a row from the first box's centre."""
        offsets, x = [], 0.0
        for index, box in enumerate(row):
            if index:
                x += (self._width(row[index - 1]) + self._width(box)) / 2
            offsets.append(x)
        return offsets

    def _wanted(self, box: int, x: Mapping[int, float], *, is_down: bool) -> float:
        first, second = (self._above, self._below) if is_down else (self._below, self._above)
        return _mean(first.get(box) or second.get(box) or (), x, x[box])


def _mean(boxes: Sequence[int], index_of: Mapping[int, float], otherwise: float) -> float:
    """Return the mean place of some boxes; something else without any."""
    return sum(index_of[box] for box in boxes) / len(boxes) if boxes else otherwise


def _fitted(target_x: Sequence[float], offsets: Sequence[float]) -> list[float]:
    """Return the centres nearest to those wanted, by least squares, that keep the distances."""
    blocks: list[tuple[float, int]] = []  # sum and number of what boxes moved together want
    for centre, offset in zip(target_x, offsets, strict=True):
        total, n = centre - offset, 1
        while blocks and blocks[-1][0] / blocks[-1][1] >= total / n:
            before = blocks.pop()
            total, n = total + before[0], n + before[1]
        blocks.append((total, n))
    shifts = [total / n for total, n in blocks for _ in range(n)]
    return [shift + offset for shift, offset in zip(shifts, offsets, strict=True)]
