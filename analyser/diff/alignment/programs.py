"""The program trees of two reports as one: programs aligned by the steps in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from tilescope.analyser.diff.alignment.align import align
from tilescope.analyser.diff.alignment.aligned import aligned_steps, cached_for_two
from tilescope.analyser.program.programs import (
    ProgramNode,
    all_programs,
    ancestors,
    child_ids,
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
        found = self.baseline or self.candidate
        assert found is not None
        return found


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
    baseline: Report, candidate: Report, one: int | None, other: int | None
) -> tuple[ProgramPair, ...]:
    """Return the children of a program of two reports, aligned by the steps in them.

    A child that only the candidate has follows the one before it.

    Parameters
    ----------
    baseline, candidate
        The reports.
    one, other
        The program on either side; None where a report lacks it.

    Raises
    ------
    BadQuestion
        When a program does not exist.
    """
    sides = (
        () if one is None else children(baseline, one),
        () if other is None else children(candidate, other),
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
    found = set(all_programs(candidate))
    waiting = list(paired_roots(baseline, candidate))
    while waiting:
        pair = waiting.pop()
        if pair.baseline is None or pair.candidate is None:
            continue
        found.discard(pair.candidate.program_id)
        ends = pair.baseline.program_id, pair.candidate.program_id
        waiting += paired_children(baseline, candidate, *ends)
    return frozenset(found)


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
        place = ids.index(number)
        found = siblings[place]
        path.append((found, place))
        siblings = paired_children(
            baseline,
            candidate,
            found.baseline.program_id if found.baseline else None,
            found.candidate.program_id if found.candidate else None,
        )
    return tuple(path)


@cached_for_two
def _trees(baseline: Report, candidate: Report) -> _Trees:
    """Return the partners of leaves, and all programs with a change in them."""
    aligned = aligned_steps(baseline, candidate)
    programs = [_program_of_step(report) for report in (baseline, candidate)]
    partners = {
        programs[0][one]: programs[1][other]
        for one, other in aligned.pairs
        if one in programs[0] and other in programs[1]
    }
    differing: tuple[set[int], set[int]] = set(aligned.removed), set(aligned.added)
    for (one, other), is_same in zip(aligned.pairs, aligned.is_same, strict=True):
        if not is_same:
            differing[0].add(one)
            differing[1].add(other)
    changed = tuple(
        _with_ancestors(report, {known[step] for step in steps if step in known})
        for report, known, steps in zip((baseline, candidate), programs, differing, strict=True)
    )
    cycles = cycles_inside(baseline, aligned.cycles[0]), cycles_inside(candidate, aligned.cycles[1])
    return _Trees(partners, (changed[0], changed[1]), cycles)


def _program_of_step(report: Report) -> dict[int, int]:
    """Return the program of every step."""
    return {
        one.step_id: number
        for number, one in all_programs(report).items()
        if one.step_id is not None
    }


def _with_ancestors(report: Report, found: set[int]) -> set[int]:
    """Return programs with all programs around them."""
    every, answer = all_programs(report), set[int]()
    for number in found:
        place: int | None = number
        while place is not None and place in every and place not in answer:
            answer.add(place)
            place = every[place].parent_id
    return answer


def _pairs(
    baseline: Report, candidate: Report, ones: Sequence[ProgramNode], others: Sequence[ProgramNode]
) -> tuple[ProgramPair, ...]:
    """Return siblings of two sides, aligned."""
    trees = _trees(baseline, candidate)
    partner = _by_steps(baseline, candidate, trees, ones, others)
    left = [place for place in range(len(ones)) if place not in partner]
    taken = set(partner.values())
    right = [place for place in range(len(others)) if place not in taken]
    # Programs with steps in them have said what they are; the others are named.
    named = [[_name(side[place]) for place in places] for side, places in (
        (ones, left), (others, right))]  # fmt: skip
    pairs, _, _ = align(*named, *named)
    partner |= {left[one]: right[other] for one, other in pairs}
    return _merged(trees, ones, others, partner)


def _name(node: ProgramNode) -> tuple[str, str, str, int | None]:
    """Return what two programs without common steps must share to be the same."""
    number = node.root_index if node.parent_id is None else None
    return node.kind, node.name, node.root_kind if node.parent_id is None else "", number


def _by_steps(
    baseline: Report,
    candidate: Report,
    trees: _Trees,
    ones: Sequence[ProgramNode],
    others: Sequence[ProgramNode],
) -> dict[int, int]:
    """Return the places of siblings that hold the same steps; the first that says so decides."""
    where = {
        leaf: place
        for place, node in enumerate(others)
        for leaf in _leaves(candidate, node.program_id)
    }
    found: dict[int, int] = {}
    taken: set[int] = set()
    for place, node in enumerate(ones):
        for leaf in _leaves(baseline, node.program_id):
            goal = where.get(trees.partners.get(leaf, -1))
            if goal is not None and goal not in taken and others[goal].kind == node.kind:
                found[place] = goal
                taken.add(goal)
                break
    return found


def _leaves(report: Report, program_id: int) -> list[int]:
    """Return the programs in one that have no children, in order; itself for a leaf."""
    below, found, waiting = child_ids(report), [], [program_id]
    while waiting:
        number = waiting.pop()
        inside = below.get(number)
        if inside:
            waiting += reversed(inside)
        else:
            found.append(number)
    return found


def _merged(
    trees: _Trees,
    ones: Sequence[ProgramNode],
    others: Sequence[ProgramNode],
    partner: dict[int, int],
) -> tuple[ProgramPair, ...]:
    """Return siblings in order of the baseline, those of the candidate alone in between."""
    of_other = {goal: place for place, goal in partner.items()}
    after: dict[int, list[ProgramPair]] = {}
    anchor = -1
    for place, node in enumerate(others):
        if place in of_other:
            anchor = of_other[place]
        else:
            after.setdefault(anchor, []).append(_pair(trees, None, node))
    found = list(after.get(-1, ()))
    for place, node in enumerate(ones):
        goal = partner.get(place)
        other = None if goal is None else others[goal]
        found.append(_pair(trees, node, other))
        found += after.get(place, ())
    return tuple(found)


def _pair(trees: _Trees, one: ProgramNode | None, other: ProgramNode | None) -> ProgramPair:
    """Return a program on the sides that have it, with how it differs and its cycles."""
    cycles = (
        None if one is None else trees.cycles[0].get(one.program_id),
        None if other is None else trees.cycles[1].get(other.program_id),
    )
    return ProgramPair(one, other, _mark(trees, one, other), cycles)


def _mark(trees: _Trees, one: ProgramNode | None, other: ProgramNode | None) -> Mark:
    """Return how a program differs between the sides, at least one of which has it."""
    if one is None:
        return "added"
    if other is None:
        return "removed"
    is_changed = (
        one.program_id in trees.changed[0]
        or other.program_id in trees.changed[1]
        or one.repeat_count != other.repeat_count
    )
    return "changed" if is_changed else "same"
