"""Why two reports differ, as far as they say: typed causes, those with the most impact first."""

from tilescope.analyser.diff.causes.cause import Cause, CauseKind
from tilescope.analyser.diff.causes.find import find_causes

__all__ = ["Cause", "CauseKind", "find_causes"]
