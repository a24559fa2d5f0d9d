"""The memory of a tile over time: computed on paper, and in generated reports."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.analyser.small_report import Shape
from tests.generated_report import generate_report

from tilescope import analyser
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.memory.liveness import step_tile_bytes
from tilescope.analyser.memory.tile_timeline import CODE, Gap, tile_map
from tilescope.analyser.time.figures import tile_rows
from tilescope.reports import Report


def test_blocks_lie_at_their_addresses_from_birth_to_death(small: Report) -> None:
    actual = tile_map(small, 0)
    rows = zip(
        actual.name,
        *(
            values.tolist()
            for values in (actual.offset_bytes, actual.bytes, actual.start_step, actual.end_step)
        ),
        strict=True,
    )
    assert sorted(rows) == [
        ("act", 16, 16, 3, 7),
        ("in", 0, 16, 0, 4),
        ("layer1/conv/exchange", 32, 16, 2, 3),
        ("weights", 400, 40, 0, 7),
    ]
    assert (actual.tile_id, actual.n_steps, actual.peak_step) == (0, 7, 2)
    assert (actual.capacity_bytes, actual.non_interleaved_bytes) == (1000, 600)
    # A variable lies at address 0, so that code cannot: its address is unknown.
    assert actual.unplaced_bytes == 8 + 160 + 24
    steps, top = actual.heights
    assert (steps.tolist(), top.tolist()) == ([0, 2, 3, 4], [440] * 4)


def test_gaps_have_something_below_and_above(small: Report) -> None:
    actual = tile_map(small, 0)
    position = {name: number for number, name in enumerate(actual.name)}
    message, weights = position["layer1/conv/exchange"], position["weights"]
    assert actual.gaps_at(0) == (Gap(16, 384, position["in"], weights),)
    assert actual.gaps_at(2) == (
        Gap(16, 16, position["in"], message),
        Gap(48, 352, message, weights),
    )
    assert actual.gaps_at(3) == (Gap(32, 368, position["act"], weights),)
    # Once "in" is dead, nothing lies below.
    assert actual.gaps_at(5) == (
        Gap(0, 16, None, position["act"]),
        Gap(32, 368, position["act"], weights),
    )
    for step in (-1, 7):
        with pytest.raises(BadQuestion, match="liveness steps 0 to 6"):
            actual.gaps_at(step)


def test_the_heights_at_a_step_are_what_lives_on_the_tile(small: Report) -> None:
    always = tile_rows(small)["always_live"]
    for tile in range(8):
        actual = tile_map(small, tile)
        for step in range(7):
            live = int(actual.bytes[actual.live_at(step)].sum()) + actual.unplaced_bytes
            assert live == always[tile] + step_tile_bytes(small, step)[tile], (tile, step)


def test_code_is_a_block_below_all_variables(tmp_path: Path) -> None:
    path = generate_report(tmp_path, n_tiles=16, n_steps=200, n_variables=80, seed=5)
    with analyser.open(path) as report:
        always = tile_rows(report)["always_live"]
        for tile in (0, 7, 15):
            actual = tile_map(report, tile)
            assert (actual.name[0], actual.category[0]) == (CODE, CODE)
            assert (actual.offset_bytes[0], actual.unplaced_bytes) == (0, 0)
            steps, top = actual.heights
            for step in range(0, 200, 7):
                live = actual.live_at(step)
                assert (
                    int(actual.bytes[live].sum())
                    == always[tile] + step_tile_bytes(report, step)[tile]
                )
                ends = (actual.offset_bytes + actual.bytes)[live]
                assert top[np.searchsorted(steps, step, side="right") - 1] == ends.max()
                # Gaps and blocks fill the tile up to the highest address.
                gaps = sum(gap.bytes for gap in actual.gaps_at(step))
                assert gaps + actual.bytes[live].sum() == ends.max()
                for gap in actual.gaps_at(step):
                    assert actual.offset_bytes[gap.above] == gap.offset_bytes + gap.bytes


def test_a_report_without_liveness_says_so(variation: Callable[[Shape], Report]) -> None:
    with pytest.raises(BadQuestion, match="no liveness"):
        tile_map(variation(Shape(has_memory=False)), 0)
    with pytest.raises(BadQuestion, match="tile"):
        tile_map(variation(Shape()), 8)
