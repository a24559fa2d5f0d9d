"""Options of tracing; nothing is left to choose."""

from __future__ import annotations

from typing import Self

from poptorch._logging import logger
from poptorch.options.dictionary import OptionsDict

__all__ = ["JitOptions"]


class JitOptions(OptionsDict):
    """Options of tracing: ``Options.Jit``."""

    def traceModel(self, trace_model: bool) -> Self:
        """Do nothing: models are always exported, never traced by the old way.

        Raises
        ------
        ValueError
            When the old way is asked for.
        """
        logger.warning("[Deprecated] options.Jit.traceModel() is not needed: False is the only way")
        if trace_model:
            raise ValueError("options.Jit.traceModel(True) is no longer supported")
        return self
