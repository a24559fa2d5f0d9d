"""Options of arithmetic: partial sums, rounding, exceptions."""

from __future__ import annotations

from typing import Any, Self

import torch

from poptorch._logging import logger
from poptorch.options.dictionary import OptionsDict
from poptorch.options.popart_options import PopartOptions

__all__ = ["PrecisionOptions"]

_PARTIALS = {torch.float32: "float", torch.float16: "half"}


class PrecisionOptions(OptionsDict):
    """Options of arithmetic: ``Options.Precision``."""

    def __init__(self, popart_options: PopartOptions) -> None:
        self._popart_options = popart_options
        super().__init__()

    def halfFloatCasting(self, half_float_casting: Any) -> Self:
        """Do nothing: half and float mix as in PyTorch."""
        del half_float_casting
        logger.warning(
            "[Deprecated] options.Precision.halfFloatCasting() is not needed: HalfUpcastToFloat"
            " is the only way"
        )
        return self

    def runningStatisticsAlwaysFloat(self, value: bool) -> Self:
        """Do nothing: running statistics have the type of their buffers.

        Raises
        ------
        ValueError
            When the value is not a bool.
        """
        if not isinstance(value, bool):
            raise ValueError("runningStatisticsAlwaysFloat needs to be set to a bool")
        logger.warning(
            "[Deprecated] options.Precision.runningStatisticsAlwaysFloat() is not needed: False is"
            " the only way"
        )
        return self

    def enableFloatingPointExceptions(self, enabled: bool) -> Self:
        """Ask for an error where a result overflows, divides by zero or is not a number.

        Raises
        ------
        AssertionError
            When the value is not a bool.
        """
        message = "enableFloatingPointExceptions needs to be set to a bool"
        assert isinstance(enabled, bool), message
        self._popart_options.set("enableFloatingPointChecks", enabled)
        return self

    def enableStochasticRounding(self, enabled: bool) -> Self:
        """Round weights and states in half to one of the two neighbours by chance."""
        self._popart_options.set("enableStochasticRounding", enabled)
        return self

    def setPartialsType(self, dtype: torch.dtype) -> Self:
        """Set the type of the partial sums of products and convolutions.

        Raises
        ------
        ValueError
            When it is neither ``torch.float`` nor ``torch.half``.
        """
        if dtype not in _PARTIALS:
            raise ValueError(
                "parameter to setPartialsType should be either torch.float or torch.half"
            )
        self._popart_options.set("partialsTypeMatMuls", _PARTIALS[dtype])
        self._popart_options.set("convolutionOptions", {"partialsType": _PARTIALS[dtype]})
        return self
