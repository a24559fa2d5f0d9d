"""Layered drawings: rows, crossings, straight lines, and columns of long ones."""

from __future__ import annotations

import random
from itertools import pairwise

from tilescope.analyser.graph.folded_layout import fold
from tilescope.analyser.graph.layered_layout import Layout, lay_out


def test_rows_follow_the_longest_path() -> None:
    # 0 ─ 1 ─ 2 ─ 4, and 0 ─ 4; 3 feeds 4 alone and stands right above it.
    actual = lay_out(5, [(0, 1), (1, 2), (2, 4), (0, 4), (3, 4)])
    assert actual.row == (0, 1, 2, 2, 3)
    assert actual.n_rows == 4
    assert [row for _, row in actual.routes[0, 4]] == [1, 2]
    assert actual.routes[0, 1] == ()


def test_backward_edges_and_loops_move_no_row() -> None:
    edges = [(0, 1), (1, 2)]
    assert lay_out(3, [*edges, (2, 0), (1, 1)]).row == lay_out(3, edges).row == (0, 1, 2)
    assert (2, 0) not in lay_out(3, [*edges, (2, 0)]).routes


def test_a_chain_is_a_straight_line_and_a_diamond_is_even() -> None:
    chain = lay_out(4, [(0, 1), (1, 2), (2, 3)])
    assert chain.x == (0.5,) * 4
    diamond = lay_out(4, [(0, 1), (0, 2), (1, 3), (2, 3)])
    assert diamond.x == (1.0, 0.5, 1.5, 1.0)


def test_crossings_are_removed() -> None:
    # In program order the lines 0 ─ 3 and 1 ─ 2 cross.
    actual = lay_out(4, [(0, 3), (1, 2)])
    assert (actual.x[0] < actual.x[1]) == (actual.x[3] < actual.x[2])


def test_boxes_without_edges_stand_below() -> None:
    actual = lay_out(9, [(0, 1)])
    assert actual.row == (0, 1, 2, 2, 2, 2, 2, 2, 3)
    assert actual.x[2:8] == (0.5, 1.5, 2.5, 3.5, 4.5, 5.5)
    assert lay_out(0, []).n_rows == 0


def test_boxes_of_a_row_never_overlap() -> None:
    source = random.Random(3)
    for _ in range(20):
        n = source.randint(2, 40)
        pairs = (source.sample(range(n), 2) for _ in range(2 * n))
        edges = [(min(pair), max(pair)) for pair in pairs]
        actual = lay_out(n, edges)
        assert actual == lay_out(n, list(reversed(edges))), "the order of edges does not matter"
        for first, second in edges:
            assert actual.row[first] < actual.row[second]
        rows: dict[int, list[float]] = {}
        for x, row in zip(actual.x, actual.row, strict=True):
            rows.setdefault(row, []).append(x)
        for positions in rows.values():
            ordered = sorted(positions)
            assert all(b - a > 0.999 for a, b in pairwise(ordered))
        # A place of a line is no further left than half a line's width.
        assert all(x > 0.1 for route in actual.routes.values() for x, _ in route)


def test_a_short_drawing_stays_in_one_column() -> None:
    layout = lay_out(5, [(i, i + 1) for i in range(4)])
    actual = fold(layout)
    assert (actual.x, actual.row, actual.folds) == (layout.x, layout.row, {})
    assert (actual.width, actual.n_rows) == (1.0, 5)


def test_a_long_chain_becomes_columns_joined_by_folds() -> None:
    layout = lay_out(40, [(i, i + 1) for i in range(39)])
    actual = fold(layout)
    columns = sorted(set(actual.x))
    assert len(columns) > 1
    assert actual.n_rows < 20
    positions = list(zip(actual.x, actual.row, strict=True))
    assert len(set(positions)) == 40
    assert len(actual.folds) == len(columns) - 1
    for (first, second), (only,) in actual.folds.items():
        assert actual.row[second] == 0
        assert (only.after, only.last_row) == (0, actual.row[first])
        assert actual.x[first] + 0.5 < only.x < actual.x[second] - 0.5


def test_folds_lie_between_columns_of_any_width() -> None:
    # A chain with a fan at its start, which stands in the middle below it.
    edges = [(0, i) for i in range(1, 6)] + [(i, i + 1) for i in range(3, 50) if i != 5]
    actual = fold(lay_out(51, edges))
    assert actual.folds
    positions = [*zip(actual.x, actual.row, strict=True)]
    for (first, second), local in actual.folds.items():
        for fold_ in local:
            left = [x for x, _ in positions if x <= actual.x[first] + 0.1]
            right = [x for x, _ in positions if x >= actual.x[second] - 0.1]
            assert max(left) + 0.5 <= fold_.x <= min(right) - 0.5


def test_columns_are_cut_where_few_lines_cross() -> None:
    # A chain with a second line beside it, except above box 11: four columns of about ten.
    edges = [(i, i + 1) for i in range(39)] + [(i, i + 2) for i in range(38) if i not in (9, 10)]
    actual = fold(lay_out(40, edges))
    assert [box for box in range(40) if actual.row[box] == 0][:2] == [0, 11]
    assert [edge for edge in actual.folds if edge[1] == 11] == [(10, 11)]
    assert [edge for edge in sorted(actual.folds) if edge[0] < 20 <= edge[1]] == [
        (18, 20),
        (19, 20),
        (19, 21),
    ]


def test_lines_that_run_straight_through_are_not_cut() -> None:
    layout = Layout((0.5,) * 40, tuple(range(40)), {(0, 39): ()})
    assert fold(layout).folds == {}
    assert fold(layout).n_rows == 40
