"""Tables of what changed between two reports: by operation, variable, tile, IPU and so on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from tilescope.analyser.diff import MEASURES, compare_regions, difference_flame, operation_changes
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.gates.limit import Limit, parse_limit
from tilescope.analyser.program.operations import Layer, operations
from tilescope.analyser.quantities import per_run, percent_of
from tilescope.analyser.summary.metrics import METRICS, MetricValue, ipu_values_of_run
from tilescope.reports.schema.vocabulary import MEMORY_CATEGORY

if TYPE_CHECKING:
    from tilescope.analyser.diff import Difference, RegionChange, StepChange, VariableChange
    from tilescope.reports import Report

__all__ = [
    "BREAKDOWNS",
    "Breakdown",
    "ChangeRow",
    "ChangeTable",
    "MinChange",
    "change_tables",
    "metric_table",
    "parse_min_change",
    "without_small",
]

Breakdown: TypeAlias = Literal[
    "operation",
    "layer",
    "phase",
    "micro-batch",
    "batch",
    "run",
    "variable",
    "tile",
    "category",
    "ipu",
    "step",
    "path",
]
#: What a difference may be listed by.
BREAKDOWNS: tuple[Breakdown, ...] = get_args(Breakdown)


#: Regions of the trace that are listed; layers have a table of operations, with their memory.
_REGIONS = {"phase": "Phase", "micro-batch": "Micro-batch", "batch": "Batch", "run": "Run"}
#: Row of the time that no operation accounts for.
_REST = "(outside operations)"


@dataclass(frozen=True)
class ChangeRow:
    """A thing that changed; ``delta`` is candidate minus baseline, a missing side counts 0.

    ``verdict`` is added, removed or changed; of a metric it says what the change means.
    """

    name: str
    detail: str
    unit: str
    baseline: MetricValue
    candidate: MetricValue
    delta: int | float
    verdict: str

    @property
    def percent_of_baseline(self) -> float | None:
        """Change in percent of the baseline; None if that is missing or 0."""
        return percent_of(self.baseline, self.delta)


@dataclass(frozen=True)
class ChangeTable:
    """What changed, the largest change first; ``title`` and ``detail`` are headings."""

    by: str
    title: str
    detail: str
    rows: tuple[ChangeRow, ...]


def metric_table(difference: Difference) -> ChangeTable:
    """Return the metrics that changed, in the order of the catalogue."""
    rows = [
        ChangeRow(
            change.name,
            "",
            change.unit,
            change.baseline,
            change.candidate,
            (change.candidate or 0) - (change.baseline or 0),
            change.verdict,
        )
        for change in difference.metrics
        if change.verdict not in {"same", "absent"}
    ]
    return ChangeTable("metric", "Metric", "", tuple(rows))


def change_tables(
    by: Breakdown, difference: Difference, baseline: Report, candidate: Report
) -> tuple[ChangeTable, ...]:
    """Return what changed, by operation, variable or another of ``BREAKDOWNS``.

    Parameters
    ----------
    by
        What to list; operations have a table of cycles and one of memory.
    difference
        Of the two reports.
    baseline, candidate
        The two reports, open.

    Raises
    ------
    BadQuestion
        By regions of the trace, when a report has none of them.
    """
    if by in {"operation", "layer"}:
        return _operations(by, baseline, candidate)
    if by in _REGIONS:
        return (_regions(by, baseline, candidate),)
    if by == "ipu":
        return (_ipus(baseline, candidate),)
    if by == "path":
        return (_paths(baseline, candidate),)
    return (_FROM_DIFFERENCE[by](difference),)


def _rows(rows: Iterable[ChangeRow]) -> tuple[ChangeRow, ...]:
    """Return rows, the largest change first; equal ones in their order."""
    return tuple(sorted(rows, key=lambda row: -abs(row.delta)))


def _verdict(baseline: object, candidate: object) -> str:
    """Return whether a thing was added, removed or changed."""
    return "added" if baseline is None else "removed" if candidate is None else "changed"


def _operations(by: str, baseline: Report, candidate: Report) -> tuple[ChangeTable, ...]:
    """Return a table of cycles and one of memory, of library calls or nodes of the model."""
    layer: Layer = "library" if by == "operation" else "model"
    sides = operations(baseline, layer), operations(candidate, layer)
    rows: dict[str, list[ChangeRow]] = {"cycles": [], "bytes": []}
    for measure, figure in MEASURES.items():
        if figure.unit in rows:
            rows[figure.unit] += [
                ChangeRow(
                    change.key,
                    change.operation if figure.unit == "cycles" else figure.label,
                    figure.unit,
                    change.baseline,
                    change.candidate,
                    change.delta,
                    _verdict(change.baseline, change.candidate),
                )
                for change in operation_changes(*sides, measure)
                if change.delta or None in {change.baseline, change.candidate}
            ]
    rest = [per_run(side.total_cycles - side.cycles, side.n_runs) for side in sides]
    if rest[0] != rest[1]:
        rows["cycles"].append(
            ChangeRow(_REST, "", "cycles", rest[0], rest[1], rest[1] - rest[0], "changed")
        )
    both = all(side.n_runs for side in sides)
    title = "Operation" if by == "operation" else "Layer"
    basis = "cycles per run" if both else "cycles"
    return (
        ChangeTable(by, f"{title} ({basis})", "Kind", _rows(rows["cycles"])),
        ChangeTable(by, f"{title} (memory)", "Memory", _rows(filter(_has_size, rows["bytes"]))),
    )


def _paths(baseline: Report, candidate: Report) -> ChangeTable:
    """Return the paths of step names whose cycles changed, every level of them."""
    flame = difference_flame(baseline, candidate)
    rows = [
        ChangeRow(
            row.name or "(all)",
            "",
            "cycles",
            None if row.verdict == "added" else row.baseline_cycles,
            None if row.verdict == "removed" else row.candidate_cycles,
            row.delta_cycles,
            row.verdict,
        )
        for row in flame.rows()
        if row.verdict != "same"
    ]
    basis = "cycles per run" if flame.basis == "runs" else "cycles, one execution"
    return ChangeTable("path", f"Path ({basis})", "", _rows(rows))


def _regions(by: str, baseline: Report, candidate: Report) -> ChangeTable:
    """Return the regions of the trace whose cycles or number changed."""
    rows = [
        ChangeRow(
            change.name,
            _counts(change),
            "cycles",
            change.baseline_cycles,
            change.candidate_cycles,
            change.delta_cycles,
            _verdict(change.baseline, change.candidate),
        )
        for change in compare_regions(baseline, candidate, by)
        if change.delta_cycles or change.baseline is None or change.candidate is None
    ]
    basis = "cycles" if by == "run" else "cycles per run"
    return ChangeTable(by, f"{_REGIONS[by]} ({basis}, over IPUs)", "Regions", _rows(rows))


def _counts(change: RegionChange) -> str:
    """Return how many regions both sides have."""
    counts = [f"{side.count:,}" if side else "–" for side in (change.baseline, change.candidate)]
    return counts[0] if counts[0] == counts[1] else " → ".join(counts)


def _has_size(row: ChangeRow) -> bool:
    """Return whether a row says more than that an operation is on one side only."""
    return bool(row.delta)


def _ipus(baseline: Report, candidate: Report) -> ChangeTable:
    """Return the metrics of every IPU that changed, the largest change in percent first."""
    sides = ipu_values_of_run(baseline), ipu_values_of_run(candidate)
    rows = []
    for name, metric in METRICS.items():
        before, after = (side.get(name, ()) for side in sides)
        for ipu_id in range(max(len(before), len(after))):
            baseline_ipu = before[ipu_id] if ipu_id < len(before) else None
            candidate_ipu = after[ipu_id] if ipu_id < len(after) else None
            if baseline_ipu != candidate_ipu:
                delta = (candidate_ipu or 0) - (baseline_ipu or 0)
                verdict = _verdict(baseline_ipu, candidate_ipu)
                rows.append(
                    ChangeRow(
                        f"IPU {ipu_id}",
                        name,
                        metric.unit,
                        baseline_ipu,
                        candidate_ipu,
                        delta,
                        verdict,
                    )
                )
    rows.sort(key=_relative_size)
    return ChangeTable("ipu", "IPU", "Metric", tuple(rows))


def _relative_size(row: ChangeRow) -> float:
    """Return minus the size of a change in percent, by which figures of any unit compare."""
    percent = row.percent_of_baseline
    return -abs(percent) if percent is not None else float("-inf")


def _variables(difference: Difference) -> ChangeTable:
    """Return the variables that changed."""
    changes = difference.variables
    groups: tuple[tuple[str, Sequence[VariableChange]], ...] = (
        ("added", changes.added),
        ("removed", changes.removed),
        ("changed", changes.changed),
    )
    rows = [
        ChangeRow(
            change.name,
            (change.candidate or change.baseline).category,  # type: ignore[union-attr]
            "bytes",
            change.baseline.bytes if change.baseline else None,
            change.candidate.bytes if change.candidate else None,
            change.delta_bytes,
            verdict,
        )
        for verdict, group in groups
        for change in group
    ]
    return ChangeTable("variable", "Variable", "Category", _rows(rows))


def _steps(difference: Difference) -> ChangeTable:
    """Return the steps that changed."""
    changes = difference.steps
    groups: tuple[tuple[str, Sequence[StepChange]], ...] = (
        ("added", changes.added),
        ("removed", changes.removed),
        ("changed", changes.changed),
    )
    rows = [
        ChangeRow(
            change.name,
            change.kind,
            "cycles",
            change.baseline_cycles,
            change.candidate_cycles,
            change.delta_cycles,
            verdict,
        )
        for verdict, group in groups
        for change in group
    ]
    basis = "cycles per run" if changes.basis == "runs" else "cycles, one execution"
    return ChangeTable("step", f"Step ({basis})", "Kind", _rows(rows))


def _tiles(difference: Difference) -> ChangeTable:
    """Return the tiles whose memory changed; both sides of a tile hold a number."""
    tiles = difference.tiles
    rows = [
        ChangeRow(
            f"Tile {int(tiles.tile_id[position])}",
            "",
            "bytes",
            int(tiles.baseline_bytes[position]),
            int(tiles.candidate_bytes[position]),
            int(tiles.delta_bytes[position]),
            "changed",
        )
        for position in tiles.largest(tiles.n_changed)
    ]
    return ChangeTable("tile", "Tile", "", tuple(rows))


def _categories(difference: Difference) -> ChangeTable:
    """Return the categories of memory that changed."""
    prefix = "memory.category."
    rows = [
        ChangeRow(
            MEMORY_CATEGORY[change.name.removeprefix(prefix)].label,
            "",
            "bytes",
            change.baseline,
            change.candidate,
            (change.candidate or 0) - (change.baseline or 0),
            _verdict(change.baseline, change.candidate),
        )
        for change in difference.metrics
        if change.name.startswith(prefix) and change.baseline != change.candidate
    ]
    return ChangeTable("category", "Category", "", _rows(rows))


_FROM_DIFFERENCE: dict[str, Callable[[Difference], ChangeTable]] = {
    "variable": _variables,
    "tile": _tiles,
    "category": _categories,
    "step": _steps,
}


@dataclass(frozen=True)
class MinChange:
    """The smallest change to list, in percent of the baseline, or in a unit.

    ``unit`` is empty for a plain number, which is in the unit of every row.
    """

    amount: float
    unit: str


def parse_min_change(text: str) -> MinChange:
    """Return the smallest change to list, written as ``1%``, ``100c``, ``1KiB`` or ``100``.

    Raises
    ------
    BadQuestion
        When it is not a positive number, or has another unit.
    """
    if text.strip().endswith("%") or text.strip()[-1:].isdigit():
        limit, unit = parse_limit(text, ""), ""
        if limit.kind == "percent":
            unit = "%"
    else:
        try:
            limit, unit = parse_limit(text, "bytes", allows_percent=False), "bytes"
        except BadQuestion:
            limit, unit = _cycles_limit(text), "cycles"
    if limit.amount < 0 or text.strip().startswith("+"):
        raise BadQuestion(f"expected a change without a sign for --min-change, got {text!r}")
    return MinChange(float(limit.amount), unit)


def _cycles_limit(text: str) -> Limit:
    """Return a limit in cycles."""
    with_cycles = parse_limit(text, "cycles", allows_percent=False)
    if with_cycles.kind == "own":
        return with_cycles
    raise BadQuestion(f"expected %, c or a unit of memory for --min-change, got {text!r}")


def without_small(table: ChangeTable, smallest: MinChange | None) -> ChangeTable:
    """Return a table without the changes below a smallest one; rows of other units stay."""
    if smallest is None:
        return table
    return replace(table, rows=tuple(row for row in table.rows if _is_listed(row, smallest)))


def _is_listed(row: ChangeRow, smallest: MinChange) -> bool:
    """Return whether a change is large enough; what is new is infinitely many percent."""
    if smallest.unit == "%":
        percent = row.percent_of_baseline
        return abs(percent) >= smallest.amount if percent is not None else bool(row.delta)
    if smallest.unit and smallest.unit != row.unit:
        return True
    return abs(row.delta) >= smallest.amount
