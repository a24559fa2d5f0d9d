"""Gates: limits on the change of a figure, baseline to candidate, and acknowledged regressions."""

from tilescope.analyser.gates.acknowledge import Acknowledgement, parse_acknowledgement
from tilescope.analyser.gates.evaluate import GateResult, Status, evaluate
from tilescope.analyser.gates.gate import Gate, Level, figures_named, parse_gate
from tilescope.analyser.gates.limit import Limit, parse_limit

__all__ = [
    "Acknowledgement",
    "Gate",
    "GateResult",
    "Level",
    "Limit",
    "Status",
    "evaluate",
    "figures_named",
    "parse_acknowledgement",
    "parse_gate",
    "parse_limit",
]
