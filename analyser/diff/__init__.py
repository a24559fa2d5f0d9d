"""What changed between two reports, a baseline and a candidate."""

from tilescope.analyser.diff.causes import Cause, CauseKind
from tilescope.analyser.diff.compare import Difference, Side, compare
from tilescope.analyser.diff.context import ContextChange, context_changes
from tilescope.analyser.diff.explain import explain
from tilescope.analyser.diff.flame import FlameDifference, PathChange, difference_flame
from tilescope.analyser.diff.identity import unequal_data
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
from tilescope.analyser.diff.trace_pair import (
    ALIGNMENTS,
    ContributorChange,
    TraceAxis,
    TracePair,
    trace_axis,
)
from tilescope.analyser.diff.variables import VariableChange, VariableChanges, variable_changes

__all__ = [
    "ALIGNMENTS",
    "MEASURES",
    "Cause",
    "CauseKind",
    "ContextChange",
    "ContributorChange",
    "Difference",
    "FlameDifference",
    "LivenessPairs",
    "Measure",
    "MetricChange",
    "OperationChange",
    "Pair",
    "PathChange",
    "Side",
    "SizeChange",
    "StepChange",
    "StepChanges",
    "TileChange",
    "TraceAxis",
    "TracePair",
    "VariableChange",
    "VariableChanges",
    "align_liveness",
    "compare",
    "context_changes",
    "difference_flame",
    "explain",
    "kind_changes",
    "live_variable_changes",
    "memory_row_pairs",
    "metric_changes",
    "operation_changes",
    "operation_pairs",
    "option_pairs",
    "row_pairs",
    "step_changes",
    "tile_changes",
    "trace_axis",
    "unequal_data",
    "variable_changes",
]
