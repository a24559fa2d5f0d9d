"""The program trees of two reports as one: programs aligned by the steps in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from tilescope.analyser.diff.alignment.align import align
from tilescope.analyser.diff.alignment.aligned import aligned_steps, cached_for_two
from tilescope.analyser.program.program_tree import (
    ProgramNode,
    all_programs,
    ancestors,
    child_ids,
)
from tilescope.analyser.program.programs import (
    children,
    cycles_inside,
    roots,
    search,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tilescope.reports import Report

__all__ = [
    "Mark",
    "ProgramPair",
    "pair_path",
    "paired_children",
    "paired_roots",
    "search_pairs",
]

Mark: TypeAlias = Literal["same", "changed", "added", "removed"]


@dataclass(frozen=True)
class ProgramPair:
    """A program on the sides that have it.

    ``mark`` is ``changed`` where the two, or programs in them, cost or work differently, repeat
    differently, or only one side has them. ``cycles`` are those of `cycles_inside` on either side,
    of one execution of every step unless both reports have runs; None without a step in it.
    """

    baseline: ProgramNode | None
    candidate: ProgramNode | None
    mark: Mark
    cycles: tuple[int | None, int | None]

    @property
    def key(self) -> str:
        """The baseline's number, or ``c`` and that of the candidate if it alone has the program."""
        if self.baseline is not None:
            return str(self.baseline.program_id)
        return f"c{self.known.program_id}"

    @property
    def known(self) -> ProgramNode:
        """The program on the first side that has it."""
        known_side = self.baseline or self.candidate
        assert known_side is not None
        return known_side


@dataclass(frozen=True)
class _Trees:
    """What is known of two trees: partners of programs with steps, and which programs change."""

    partners: dict[int, int]
    changed: tuple[set[int], set[int]]
    cycles: tuple[dict[int, int], dict[int, int]]


def paired_roots(baseline: Report, candidate: Report) -> tuple[ProgramPair, ...]:
    """Return the control programs and functions of two reports; the baseline's order first."""
    return _pairs(baseline, candidate, roots(baseline), roots(candidate))


def paired_children(
    baseline: Report, candidate: Report, before: int | None, after: int | None
) -> tuple[ProgramPair, ...]:
    """Return the children of a program of two reports, aligned by the steps in them.

    A child that only the candidate has follows the one before it.

    Parameters
    ----------
    baseline, candidate
        The reports.
    before, after
        The program on either side; None where a report lacks it.

    Raises
    ------
    BadQuestion
        When a program does not exist.
    """
    sides = (
        () if before is None else children(baseline, before),
        () if after is None else children(candidate, after),
    )
    return _pairs(baseline, candidate, *sides)


def search_pairs(
    baseline: Report, candidate: Report, text: str, limit: int = 100
) -> tuple[tuple[str, ...], int]:
    """Return keys of the first programs whose label contains a text, and how many there are.

    Programs of the baseline, then those that the candidate alone has, inner ones and steps.
    """
    here, there = (
        search(report, text, len(all_programs(report))) for report in (baseline, candidate)
    )
    added = _added(baseline, candidate)
    keys = [str(match.node.program_id) for match in here.matches]
    keys += [
        f"c{match.node.program_id}" for match in there.matches if match.node.program_id in added
    ]
    return tuple(keys[:limit]), len(keys)


@cached_for_two
def _added(baseline: Report, candidate: Report) -> frozenset[int]:
    """Return the programs that stand in the tree of both reports as the candidate's alone."""
    added = set(all_programs(candidate))
    waiting = list(paired_roots(baseline, candidate))
    while waiting:
        pair = waiting.pop()
        if pair.baseline is None or pair.candidate is None:
            continue
        added.discard(pair.candidate.program_id)
        ends = pair.baseline.program_id, pair.candidate.program_id
        waiting += paired_children(baseline, candidate, *ends)
    return frozenset(added)


def pair_path(
    baseline: Report, candidate: Report, side: int, program_id: int
) -> tuple[tuple[ProgramPair, int], ...]:
    """Return a program with its ancestors from the root inwards, and their places among siblings.

    Parameters
    ----------
    baseline, candidate
        The reports.
    side
        0 for a program of the baseline, 1 for one of the candidate.
    program_id
        The program.

    Raises
    ------
    BadQuestion
        When the program does not exist.
    """
    chain = (*ancestors((baseline, candidate)[side], program_id), program_id)
    siblings = paired_roots(baseline, candidate)
    path: list[tuple[ProgramPair, int]] = []
    for number in chain:
        nodes = [(pair.baseline, pair.candidate)[side] for pair in siblings]
        ids = [None if node is None else node.program_id for node in nodes]
        if number not in ids:
            break
        position = ids.index(number)
        result = siblings[position]
        path.append((result, position))
        siblings = paired_children(
            baseline,
            candidate,
            result.baseline.program_id if result.baseline else None,
            result.candidate.program_id if result.candidate else None,
        )
    return tuple(path)


@cached_for_two
def _trees(baseline: Report, candidate: Report) -> _Trees:
    """Return the partners of leaves, and all programs with a change in them."""
    aligned = aligned_steps(baseline, candidate)
    programs = [_program_of_step(report) for report in (baseline, candidate)]
    partners = {
        programs[0][before]: programs[1][after]
        for before, after in aligned.pairs
        if before in programs[0] and after in programs[1]
    }
    differing: tuple[set[int], set[int]] = set(aligned.removed), set(aligned.added)
    for (before, after), is_same in zip(aligned.pairs, aligned.is_same, strict=True):
        if not is_same:
            differing[0].add(before)
            differing[1].add(after)
    changed = tuple(
        _with_ancestors(report, {known[step] for step in steps if step in known})
        for report, known, steps in zip((baseline, candidate), programs, differing, strict=True)
    )
    cycles = cycles_inside(baseline, aligned.cycles[0]), cycles_inside(candidate, aligned.cycles[1])
    return _Trees(partners, (changed[0], changed[1]), cycles)


def _program_of_step(report: Report) -> dict[int, int]:
    """Return the program of every step."""
    return {
        item.step_id: number
        for number, item in all_programs(report).items()
        if item.step_id is not None
    }


def _with_ancestors(report: Report, program_ids: set[int]) -> set[int]:
    """Return programs with all programs around them."""
    every, answer = all_programs(report), set[int]()
    for number in program_ids:
        ancestor: int | None = number
        while ancestor is not None and ancestor in every and ancestor not in answer:
            answer.add(ancestor)
            ancestor = every[ancestor].parent_id
    return answer


def _pairs(
    baseline: Report,
    candidate: Report,
    baseline_items: Sequence[ProgramNode],
    candidate_items: Sequence[ProgramNode],
) -> tuple[ProgramPair, ...]:
    """Return siblings of two sides, aligned."""
    trees = _trees(baseline, candidate)
    partner = _by_steps(baseline, candidate, trees, baseline_items, candidate_items)
    left = [index for index in range(len(baseline_items)) if index not in partner]
    used = set(partner.values())
    right = [index for index in range(len(candidate_items)) if index not in used]
    # Programs with steps in them have said what they are; the others are named.
    named = [[_name(side[index]) for index in positions] for side, positions in (
        (baseline_items, left), (candidate_items, right))]  # fmt: skip
    pairs, _, _ = align(*named, *named)
    partner |= {left[before]: right[after] for before, after in pairs}
    return _merged(trees, baseline_items, candidate_items, partner)


def _name(node: ProgramNode) -> tuple[str, str, str, int | None]:
    """Return what two programs without common steps must share to be the same."""
    number = node.root_index if node.parent_id is None else None
    return node.kind, node.name, node.root_kind if node.parent_id is None else "", number


def _by_steps(
    baseline: Report,
    candidate: Report,
    trees: _Trees,
    baseline_items: Sequence[ProgramNode],
    candidate_items: Sequence[ProgramNode],
) -> dict[int, int]:
    """Return the places of siblings that hold the same steps; the first that says so decides."""
    where = {
        leaf: index
        for index, node in enumerate(candidate_items)
        for leaf in _leaves(candidate, node.program_id)
    }
    partners: dict[int, int] = {}
    used: set[int] = set()
    for index, node in enumerate(baseline_items):
        for leaf in _leaves(baseline, node.program_id):
            goal = where.get(trees.partners.get(leaf, -1))
            if goal is not None and goal not in used and candidate_items[goal].kind == node.kind:
                partners[index] = goal
                used.add(goal)
                break
    return partners


def _leaves(report: Report, program_id: int) -> list[int]:
    """Return the programs in one that have no children, in order; itself for a leaf."""
    below, leaves, waiting = child_ids(report), [], [program_id]
    while waiting:
        number = waiting.pop()
        inside = below.get(number)
        if inside:
            waiting += reversed(inside)
        else:
            leaves.append(number)
    return leaves


def _merged(
    trees: _Trees,
    baseline_items: Sequence[ProgramNode],
    candidate_items: Sequence[ProgramNode],
    partner: dict[int, int],
) -> tuple[ProgramPair, ...]:
    """Return siblings in order of the baseline, those of the candidate alone in between."""
    of_other = {goal: position for position, goal in partner.items()}
    after: dict[int, list[ProgramPair]] = {}
    anchor = -1
    for position, node in enumerate(candidate_items):
        if position in of_other:
            anchor = of_other[position]
        else:
            after.setdefault(anchor, []).append(_pair(trees, None, node))
    merged = list(after.get(-1, ()))
    for position, node in enumerate(baseline_items):
        goal = partner.get(position)
        second = None if goal is None else candidate_items[goal]
        merged.append(_pair(trees, node, second))
        merged += after.get(position, ())
    return tuple(merged)


def _pair(trees: _Trees, before: ProgramNode | None, after: ProgramNode | None) -> ProgramPair:
    """Return a program on the sides that have it, with how it differs and its cycles."""
    cycles = (
        None if before is None else trees.cycles[0].get(before.program_id),
        None if after is None else trees.cycles[1].get(after.program_id),
    )
    return ProgramPair(before, after, _mark(trees, before, after), cycles)


def _mark(trees: _Trees, before: ProgramNode | None, after: ProgramNode | None) -> Mark:
    """Return how a program differs between the sides, at least one of which has it."""
    if before is None:
        return "added"
    if after is None:
        return "removed"
    is_changed = (
        before.program_id in trees.changed[0]
        or after.program_id in trees.changed[1]
        or before.repeat_count != after.repeat_count
    )
    return "changed" if is_changed else "same"
