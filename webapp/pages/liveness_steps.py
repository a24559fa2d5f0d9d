"""The steps that Liveness shows: those selected in the address, by identity in two reports."""

from __future__ import annotations

from dataclasses import dataclass

from tilescope.analyser.diff import LivenessPairs, align_liveness
from tilescope.analyser.machine.target import Source, parse_source, target
from tilescope.analyser.memory.liveness import curve, liveness_step_ids, peak_step
from tilescope.analyser.program.training import pass_label, passes_of_steps
from tilescope.analyser.quantities import format_bytes
from tilescope.reports import Report
from tilescope.webapp.library import Library
from tilescope.webapp.view import BadView, parse_number, parse_numbers

__all__ = ["ChosenSteps", "chosen_steps", "last_pair", "last_step", "tiles_of"]

#: Steps that become columns; more would not fit a screen.
MAX_STEPS = 6


@dataclass(frozen=True)
class ChosenSteps:
    """Liveness steps to show, in the order in which they were selected.

    Attributes
    ----------
    pairs
        Every step on the sides of baseline and candidate; None where a report lacks it.
    titles
        Their names as headings of columns.
    notes
        Their descriptions; without a step, the reason.
    """

    pairs: tuple[tuple[int | None, int | None], ...]
    titles: tuple[str, ...]
    notes: tuple[str, ...]


def tiles_of(library: Library, view: dict[str, str]) -> tuple[Source, str]:
    """Return the tiles of the view, and what is wrong with its tile number.

    A tile that both reports have takes precedence over the menu.
    """
    if not view["tile"].strip():
        return parse_source(view["source"]), ""
    baseline, candidate = library.ask(view, lambda report: target(report).n_tiles)
    limit = baseline if candidate is None else min(baseline, candidate)
    try:
        tiles = parse_numbers(view["tile"], limit=limit, noun="tile")
    except BadView as error:
        return parse_source(view["source"]), str(error)
    if len(tiles) != 1:
        problem = (
            f"{view['tile'].strip()[:40]!r} is not one tile; the chart shows one, or a source."
        )
        return parse_source(view["source"]), problem
    return ("tile", tiles[0]), ""


def chosen_steps(library: Library, view: dict[str, str]) -> ChosenSteps:
    """Return the selected steps, else the peak of the report, or of the baseline.

    Raises
    ------
    BadView
        When the address does not hold steps such as ``12,40``; of the candidate ``c12``.
    """
    source, _ = tiles_of(library, view)
    with library.opened(view["report"]) as report:
        if not view["with"]:
            return _of_one(report, view, source)
        with library.opened(view["with"]) as candidate:
            return _of_two(report, candidate, view, source)


def last_step(view: dict[str, str]) -> int | None:
    """Return the step of the report that was selected last, None if there is none."""
    chosen = [step for side, step in _numbers(view) if not side]
    return chosen[-1] if chosen else None


def last_pair(pairs: LivenessPairs, view: dict[str, str]) -> tuple[int | None, int | None]:
    """Return the step that was selected last on both sides; None where there is none."""
    chosen = _numbers(view)
    return _with_partner(pairs, *chosen[-1]) if chosen else (None, None)


def _numbers(view: dict[str, str]) -> list[tuple[int, int]]:
    """Return the steps in the address with their side, each once; the last ones if many."""
    numbers: dict[tuple[int, int], None] = {}
    for word in str(view["step"] or "").split(","):
        text = word.strip()
        side = int(text.startswith("c"))
        number = parse_number({"step": text[side:]}, "step", noun="step", hint="click a step")
        if number is not None:
            numbers[side, number] = None
    return list(numbers)[-MAX_STEPS:]


def _of_one(report: Report, view: dict[str, str], source: Source) -> ChosenSteps:
    """Return the steps of one report."""
    chosen = [step for side, step in _numbers(view) if not side]
    is_peak = not chosen
    peak = peak_step(report, source)
    if peak is None:
        return ChosenSteps((), (), ("This report has no liveness data: the run ended before"
                                    " compilation.",))  # fmt: skip
    steps = chosen or [peak]
    hint = " · click another step in the chart; Shift-click adds one" if is_peak else ""
    return ChosenSteps(
        tuple((step, None) for step in steps),
        tuple(f"Step {step:,}" for step in steps),
        tuple(_describe(report, step, source, is_peak) + hint for step in steps),
    )


def _of_two(
    baseline: Report, candidate: Report, view: dict[str, str], source: Source
) -> ChosenSteps:
    """Return the same steps of two reports."""
    pairs = align_liveness(baseline, candidate)
    pairs_ = [_with_partner(pairs, side, step) for side, step in _numbers(view)]
    is_peak = not pairs_
    if is_peak:
        peak = peak_step(baseline, source)
        if peak is None:
            return ChosenSteps((), (), ("The baseline has no liveness data: the run ended before"
                                        " compilation.",))  # fmt: skip
        pairs_ = [_with_partner(pairs, 0, peak)]
    unique = list(dict.fromkeys(pairs_))
    notes = [
        " · ".join(
            f"{side}: {_describe(report, step, source, is_peak and side == 'Baseline')}"
            if step is not None
            else f"{side}: does not have this step"
            for side, report, step in zip(
                ("Baseline", "Candidate"), (baseline, candidate), pair, strict=True
            )
        )
        for pair in unique
    ]
    return ChosenSteps(tuple(unique), tuple(_title(*pair) for pair in unique), tuple(notes))


def _title(first: int | None, second: int | None) -> str:
    """Return the heading of a step of two reports."""
    if first is None or second is None:
        return f"Step {first if second is None else second:,}"
    return f"Step {first:,}" if first == second else f"Step {first:,} | {second:,}"


def _with_partner(pairs: LivenessPairs, side: int, step: int) -> tuple[int | None, int | None]:
    """Return a step of one side on both; a side that lacks it has None."""
    partners = pairs.partners[side]
    partner = int(partners[step]) if step < len(partners) else -1
    peer = partner if partner >= 0 else None
    return (peer, step) if side else (step, peer)


def _describe(report: Report, step: int, source: Source, is_peak: bool) -> str:
    """Return kind, name and size of a step; an unknown one is refused where it is used."""
    live = curve(report, source)
    if step >= len(liveness_step_ids(report)):
        return f"Step {step:,}"
    size = format_bytes(int(live.not_always_live_bytes[step]))
    words = "Peak, step" if is_peak else "Step"
    label = pass_label(passes_of_steps(report)[int(live.step_id[step])]).lower()
    name = " · ".join(filter(None, (f"{live.kind[step]} {live.name[step]}", label, size)))
    return f"{words} {step:,}: {name}"
