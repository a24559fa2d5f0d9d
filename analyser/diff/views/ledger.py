"""Ledgers of two reports side by side, in cycles of a run."""

from __future__ import annotations

from dataclasses import dataclass

from tilescope.analyser.advice.ledger import LEDGER_KINDS, Ledger, LedgerEntry, LedgerKind
from tilescope.analyser.diff.alignment.pairs import Pair, pairs

__all__ = ["LedgerChange", "ledger_changes"]


@dataclass(frozen=True)
class LedgerChange:
    """Tile-cycles of one kind on both sides.

    Attributes
    ----------
    baseline, candidate
        None on a side without any.
    baseline_cycles, candidate_cycles
        Tile-cycles over tiles and runs: reports with other machines or numbers of runs compare.
    """

    kind: LedgerKind
    baseline: LedgerEntry | None
    candidate: LedgerEntry | None
    baseline_cycles: float
    candidate_cycles: float

    @property
    def delta_cycles(self) -> float:
        """Candidate minus baseline; over all kinds, it adds up to the change of a run's time."""
        return self.candidate_cycles - self.baseline_cycles

    @property
    def label(self) -> str:
        """Name for people."""
        return LEDGER_KINDS[self.kind].label


def ledger_changes(baseline: Ledger, candidate: Ledger) -> tuple[LedgerChange, ...]:
    """Return every kind of two ledgers, the largest change first."""
    by_kind: list[dict[str, LedgerEntry]] = [
        {entry.kind: entry for entry in side.entries} for side in (baseline, candidate)
    ]
    before, after = baseline.cycles_per_run, candidate.cycles_per_run

    def change(pair: Pair[LedgerEntry]) -> LedgerChange:
        kind = pair.known.kind
        return LedgerChange(
            kind, pair.baseline, pair.candidate, before.get(kind, 0.0), after.get(kind, 0.0)
        )

    changes = [change(pair) for pair in pairs(*by_kind)]
    return tuple(sorted(changes, key=lambda change: -abs(change.delta_cycles)))
