"""A difference as JSON: raw numbers, units in keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilescope.analyser.breakdown import ChangeRow, ChangeTable
    from tilescope.analyser.diff import Difference, PassChange
    from tilescope.analyser.diff.compare import Side
    from tilescope.analyser.gates import GateResult

__all__ = ["json_document"]


def json_document(
    difference: Difference,
    sentences: Sequence[str],
    tables: Mapping[str, Sequence[ChangeTable]],
    results: Sequence[GateResult],
    notes: Sequence[str],
) -> dict[str, object]:
    """Return the whole difference with raw numbers.

    Parameters
    ----------
    difference
        The difference.
    sentences
        Its explanation, most important first.
    tables
        Tables of what changed, by what they list.
    results
        Outcomes of gates.
    notes
        Remarks on the gates.
    """
    steps, variables, tiles = difference.steps, difference.variables, difference.tiles
    passes = [_pass(change) for change in difference.passes]
    stages = [
        asdict(change) | {"delta_cycles": change.delta_cycles} for change in difference.stages
    ]
    return {
        "baseline": _side(difference.baseline),
        "candidate": _side(difference.candidate),
        "is_identical": difference.is_identical,
        "is_data_dependent": difference.is_data_dependent,
        "unequal": list(difference.unequal),
        "sentences": list(sentences),
        "causes": [asdict(cause) for cause in difference.causes],
        "context": [asdict(fact) for fact in difference.context],
        "metrics": {
            metric.name: {key: value for key, value in asdict(metric).items() if key != "name"}
            for metric in difference.metrics
        },
        "tiles": {
            "n_changed": tiles.n_changed,
            "baseline_bytes": tiles.baseline_bytes.tolist(),
            "candidate_bytes": tiles.candidate_bytes.tolist(),
            "delta_bytes": tiles.delta_bytes.tolist(),
        },
        "variables": {
            "added": [asdict(variable) for variable in variables.added],
            "removed": [asdict(variable) for variable in variables.removed],
            "changed": [asdict(variable) for variable in variables.changed],
            "n_same": variables.n_same,
        },
        **({"passes": passes} if passes else {}),
        **({"stages": stages} if stages else {}),
        **({"moved": [asdict(node) for node in difference.moved]} if stages else {}),
        "steps": {
            "basis": steps.basis,
            "added": [asdict(step) for step in steps.added],
            "removed": [asdict(step) for step in steps.removed],
            "changed": [asdict(step) for step in steps.changed],
            "n_same": steps.n_same,
            "delta_cycles": steps.delta_cycles,
        },
        "tables": {
            by: [_row(row) for table in listed for row in table.rows]
            for by, listed in tables.items()
        },
        "gates": [_gate(result) for result in results],
        "notes": list(notes),
    }


def _side(side: Side) -> dict[str, object]:
    """Return one of the reports, with its state."""
    newer = side.newer_run
    return {
        "path": side.path,
        "is_complete": side.is_complete,
        "state": side.state.as_json(),
        "newer_run": None if newer is None else newer.as_json(),
        "n_runs": side.n_runs,
        "is_data_dependent": side.is_data_dependent,
    }


def _pass(change: PassChange) -> dict[str, object]:
    """Return a pass of a training step."""
    return asdict(change) | {
        "delta_cycles": change.delta_cycles,
        "percent_of_baseline": change.percent_of_baseline,
    }


def _row(row: ChangeRow) -> dict[str, object]:
    """Return a row of a table of changes."""
    return asdict(row) | {"percent_of_baseline": row.percent_of_baseline}


def _gate(result: GateResult) -> dict[str, object]:
    """Return the outcome of a gate for one figure."""
    accepted = result.acknowledged_by
    return {
        "gate": result.gate.text,
        "level": result.gate.level,
        "metric": result.metric,
        "selector": result.selector,
        "unit": result.unit,
        "status": result.status,
        "baseline": result.baseline,
        "candidate": result.candidate,
        "delta": result.delta,
        "is_data_dependent": result.is_data_dependent,
        "acknowledged_until": None if accepted is None else accepted.until.isoformat(),
        "text": result.text,
    }
