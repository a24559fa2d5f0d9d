"""Which copies are not made on the host, since source and result share storage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilescope.engine.compiler.executable.tile_memory import Lives
from tilescope.engine.execute.storage import Copy, Trace, coalesce


def without(
    lives: Mapping[int, Lives],
    writers: Mapping[int, Sequence[int]],
    copies: Sequence[Copy],
    segments: Sequence[tuple[int, int]] = ((0, 20),),
    sizes: Sequence[int] = (8, 8, 8),
) -> list[int]:
    """Return the steps whose copies are not made."""
    kinds = ["float32"] * len(sizes)
    trace = Trace(sizes, kinds, lives, frozenset(), segments, writers, copies)
    return [*coalesce(trace).without]


def copy(step: int, source: int, result: int, n_elements: int = 8, shift: int = 0) -> Copy:
    return Copy(step, (0,), source, result, shift, n_elements)


def test_a_result_takes_the_place_of_a_source_that_ends() -> None:
    lives = {0: ((1, 4),), 1: ((3, 8),)}
    assert without(lives, {0: [1], 1: [3, 5]}, [copy(3, 0, 1)]) == [3]


def test_a_copy_that_does_not_change_lies_where_its_source_is_kept() -> None:
    assert without({1: ((3, 8),)}, {1: [3]}, [copy(3, 0, 1)]) == [3]


def test_a_copy_that_changes_while_its_source_is_read_is_made() -> None:
    lives = {0: ((1, 9),), 1: ((3, 8),)}
    assert without(lives, {0: [1], 1: [3, 5]}, [copy(3, 0, 1)]) == []
    assert without(lives, {0: [1, 6], 1: [3]}, [copy(3, 0, 1)]) == []
    assert without(lives, {0: [1], 1: [3]}, [copy(3, 0, 1)]) == [3]


def test_what_is_kept_keeps_its_place() -> None:
    assert without({}, {0: [1], 1: [3]}, [copy(3, 0, 1)]) == []


def test_arguments_of_a_function_are_where_each_of_its_callers_has_them() -> None:
    """Variable 2 holds what 0 and 1, which are kept, pass to it in turn."""
    lives = {2: ((3, 6), (9, 12))}
    copies = [copy(3, 0, 2), copy(9, 1, 2)]
    assert without(lives, {2: [3, 9]}, copies) == [3, 9]
    assert without(lives, {2: [3, 9]}, copies, [(0, 7), (8, 13)]) == [3, 9], "in two branches"


def test_what_a_loop_may_hand_on_has_one_place() -> None:
    """The second life reaches the end of the loop's body."""
    lives = {2: ((1, 6), (9, 12))}
    assert without(lives, {2: [1, 9]}, [copy(9, 0, 2)], [(0, 3), (3, 12)]) == []


def test_parts_are_written_where_the_whole_will_be() -> None:
    lives = {0: ((1, 4),), 1: ((2, 4),), 2: ((3, 8),)}
    parts = [copy(3, 0, 2, 8, 0), Copy(3, (1,), 1, 2, -8, 8)]
    assert without(lives, {0: [1], 1: [2], 2: [3]}, parts, sizes=(8, 8, 16)) == [3]


def test_a_copy_of_a_part_of_what_is_read_on_is_made() -> None:
    lives = {0: ((1, 4),), 2: ((3, 8),)}
    assert without(lives, {0: [1], 2: [3]}, [copy(3, 0, 2, 4, 2)]) == [], "neither is whole"
