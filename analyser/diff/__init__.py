"""What changed between two reports; the first is the base (source), the second the new one."""

from tilescope.analyser.diff.compare import Difference, Side, compare
from tilescope.analyser.diff.context import ContextChange, context_changes
from tilescope.analyser.diff.explain import explain
from tilescope.analyser.diff.identity import unequal_data
from tilescope.analyser.diff.measures import MetricChange, TileChange, metric_changes, tile_changes
from tilescope.analyser.diff.steps import StepChange, StepChanges, step_changes
from tilescope.analyser.diff.variables import VariableChange, VariableChanges, variable_changes

__all__ = [
    "ContextChange",
    "Difference",
    "MetricChange",
    "Side",
    "StepChange",
    "StepChanges",
    "TileChange",
    "VariableChange",
    "VariableChanges",
    "compare",
    "context_changes",
    "explain",
    "metric_changes",
    "step_changes",
    "tile_changes",
    "unequal_data",
    "variable_changes",
]
