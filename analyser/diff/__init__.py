"""What changed between two reports, a baseline and a candidate."""

from tilescope.analyser.diff.alignment.pairs import Pair, SizeChange
from tilescope.analyser.diff.alignment.programs import (
    ProgramPair,
    pair_path,
    paired_children,
    paired_roots,
    search_pairs,
)
from tilescope.analyser.diff.alignment.steps import StepChange, StepChanges, step_changes
from tilescope.analyser.diff.alignment.trace_pair import (
    ALIGNMENTS,
    ContributorChange,
    TraceAxis,
    TracePair,
    trace_axis,
)
from tilescope.analyser.diff.alignment.variables import (
    VariableChange,
    VariableChanges,
    variable_changes,
    variable_pairs,
    variable_partners,
)
from tilescope.analyser.diff.causes import Cause, CauseKind
from tilescope.analyser.diff.compare import Difference, Side, compare
from tilescope.analyser.diff.context import ContextChange, context_changes
from tilescope.analyser.diff.explain import explain
from tilescope.analyser.diff.identity import unequal_data
from tilescope.analyser.diff.measures import MetricChange, TileChange, metric_changes, tile_changes
from tilescope.analyser.diff.views.flame import FlameDifference, PathChange, difference_flame
from tilescope.analyser.diff.views.ledger import LedgerChange, ledger_changes
from tilescope.analyser.diff.views.liveness import (
    LivenessPairs,
    align_liveness,
    always_live_pairs,
    live_column_pairs,
)
from tilescope.analyser.diff.views.mapped_memory import mapped_change
from tilescope.analyser.diff.views.operations import (
    MEASURES,
    Measure,
    OperationChange,
    kind_changes,
    operation_changes,
    operation_pairs,
)
from tilescope.analyser.diff.views.passes import PassChange, pass_changes
from tilescope.analyser.diff.views.placement import (
    codelet_pairs,
    compute_set_pairs,
    exchange_pairs,
    step_partners,
)
from tilescope.analyser.diff.views.tables import memory_row_pairs, option_pairs, row_pairs

__all__ = [
    "ALIGNMENTS",
    "MEASURES",
    "Cause",
    "CauseKind",
    "ContextChange",
    "ContributorChange",
    "Difference",
    "FlameDifference",
    "LedgerChange",
    "LivenessPairs",
    "Measure",
    "MetricChange",
    "OperationChange",
    "Pair",
    "PassChange",
    "PathChange",
    "ProgramPair",
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
    "always_live_pairs",
    "codelet_pairs",
    "compare",
    "compute_set_pairs",
    "context_changes",
    "difference_flame",
    "exchange_pairs",
    "explain",
    "kind_changes",
    "ledger_changes",
    "live_column_pairs",
    "mapped_change",
    "memory_row_pairs",
    "metric_changes",
    "operation_changes",
    "operation_pairs",
    "option_pairs",
    "pair_path",
    "paired_children",
    "paired_roots",
    "pass_changes",
    "row_pairs",
    "search_pairs",
    "step_changes",
    "step_partners",
    "tile_changes",
    "trace_axis",
    "unequal_data",
    "variable_changes",
    "variable_pairs",
    "variable_partners",
]
