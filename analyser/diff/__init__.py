"""What changed between two reports, a baseline and a candidate."""

from tilescope.analyser.diff.causes import Cause, CauseKind
from tilescope.analyser.diff.compare import Difference, Side, compare
from tilescope.analyser.diff.context import ContextChange, context_changes
from tilescope.analyser.diff.explain import explain
from tilescope.analyser.diff.identity import unequal_data
from tilescope.analyser.diff.ledger import LedgerChange, ledger_changes
from tilescope.analyser.diff.liveness import LivenessPairs, align_liveness, live_variable_changes
from tilescope.analyser.diff.measures import MetricChange, TileChange, metric_changes, tile_changes
from tilescope.analyser.diff.operations import (
    MEASURES,
    Measure,
    OperationChange,
    kind_changes,
    operation_changes,
    operation_pairs,
)
from tilescope.analyser.diff.pairs import Pair, SizeChange
from tilescope.analyser.diff.steps import StepChange, StepChanges, step_changes
from tilescope.analyser.diff.tables import memory_row_pairs, option_pairs, row_pairs
from tilescope.analyser.diff.variables import VariableChange, VariableChanges, variable_changes

__all__ = [
    "MEASURES",
    "Cause",
    "CauseKind",
    "ContextChange",
    "Difference",
    "LedgerChange",
    "LivenessPairs",
    "Measure",
    "MetricChange",
    "OperationChange",
    "Pair",
    "Side",
    "SizeChange",
    "StepChange",
    "StepChanges",
    "TileChange",
    "VariableChange",
    "VariableChanges",
    "align_liveness",
    "compare",
    "context_changes",
    "explain",
    "kind_changes",
    "ledger_changes",
    "live_variable_changes",
    "memory_row_pairs",
    "metric_changes",
    "operation_changes",
    "operation_pairs",
    "option_pairs",
    "row_pairs",
    "step_changes",
    "tile_changes",
    "unequal_data",
    "variable_changes",
]
