"""What changed between two reports, a baseline and a candidate.

What compares is imported; the views are, name by name, on first access.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tilescope.analyser.diff.compare import Difference, Side, compare
from tilescope.analyser.diff.explain import explain

if TYPE_CHECKING:
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
    from tilescope.analyser.diff.context import ContextChange, context_changes
    from tilescope.analyser.diff.identity import unequal_data
    from tilescope.analyser.diff.measures import (
        MetricChange,
        TileChange,
        metric_changes,
        tile_changes,
    )
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
    from tilescope.analyser.diff.views.regions import RegionChange, compare_regions
    from tilescope.analyser.diff.views.stages import (
        MovedNode,
        StageChange,
        moved_nodes,
        stage_changes,
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
    "MovedNode",
    "OperationChange",
    "Pair",
    "PassChange",
    "PathChange",
    "ProgramPair",
    "RegionChange",
    "Side",
    "SizeChange",
    "StageChange",
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
    "compare_regions",
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
    "moved_nodes",
    "operation_changes",
    "operation_pairs",
    "option_pairs",
    "pair_path",
    "paired_children",
    "paired_roots",
    "pass_changes",
    "row_pairs",
    "search_pairs",
    "stage_changes",
    "step_changes",
    "step_partners",
    "tile_changes",
    "trace_axis",
    "unequal_data",
    "variable_changes",
    "variable_pairs",
    "variable_partners",
]

_MODULES = {
    "ALIGNMENTS": "alignment.trace_pair",
    "Cause": "causes",
    "CauseKind": "causes",
    "ContextChange": "context",
    "ContributorChange": "alignment.trace_pair",
    "FlameDifference": "views.flame",
    "LedgerChange": "views.ledger",
    "LivenessPairs": "views.liveness",
    "MEASURES": "views.operations",
    "Measure": "views.operations",
    "MetricChange": "measures",
    "MovedNode": "views.stages",
    "OperationChange": "views.operations",
    "Pair": "alignment.pairs",
    "PassChange": "views.passes",
    "PathChange": "views.flame",
    "ProgramPair": "alignment.programs",
    "RegionChange": "views.regions",
    "SizeChange": "alignment.pairs",
    "StageChange": "views.stages",
    "StepChange": "alignment.steps",
    "StepChanges": "alignment.steps",
    "TileChange": "measures",
    "TraceAxis": "alignment.trace_pair",
    "TracePair": "alignment.trace_pair",
    "VariableChange": "alignment.variables",
    "VariableChanges": "alignment.variables",
    "align_liveness": "views.liveness",
    "always_live_pairs": "views.liveness",
    "codelet_pairs": "views.placement",
    "compare_regions": "views.regions",
    "compute_set_pairs": "views.placement",
    "context_changes": "context",
    "difference_flame": "views.flame",
    "exchange_pairs": "views.placement",
    "kind_changes": "views.operations",
    "ledger_changes": "views.ledger",
    "live_column_pairs": "views.liveness",
    "mapped_change": "views.mapped_memory",
    "memory_row_pairs": "views.tables",
    "metric_changes": "measures",
    "moved_nodes": "views.stages",
    "operation_changes": "views.operations",
    "operation_pairs": "views.operations",
    "option_pairs": "views.tables",
    "pair_path": "alignment.programs",
    "paired_children": "alignment.programs",
    "paired_roots": "alignment.programs",
    "pass_changes": "views.passes",
    "row_pairs": "views.tables",
    "search_pairs": "alignment.programs",
    "stage_changes": "views.stages",
    "step_changes": "alignment.steps",
    "step_partners": "views.placement",
    "tile_changes": "measures",
    "trace_axis": "alignment.trace_pair",
    "unequal_data": "identity",
    "variable_changes": "alignment.variables",
    "variable_pairs": "alignment.variables",
    "variable_partners": "alignment.variables",
}


def __getattr__(name: str) -> Any:
    """Return a name of a module that is imported on first access.

    Raises
    ------
    AttributeError
        When the name is unknown.
    """
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
