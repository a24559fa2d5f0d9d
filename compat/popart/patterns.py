"""Rewrites of a graph that PopART's programs switch by name.

Source: graphcore/popart, willow/src/patterns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from popart.arguments import BOOL, TEXTS, Parameter, Signature, instance, match_call
from popart.enums import PatternsLevel
from popart.errors import popart_exception

__all__ = ["PATTERNS", "Patterns"]

#: Whether a pattern is enabled by default, and whether it cannot be disabled, by name.
PATTERNS: dict[str, tuple[bool, bool]] = {
    "AbsGradOp": (True, True),
    "AllReduceToIdentity": (True, True),
    "Atan2Arg0GradOp": (True, True),
    "Atan2Arg1GradOp": (True, True),
    "ConvDataGrad": (True, True),
    "ConvFlipWeightsDoubleFlip": (True, False),
    "ConvFlipWeightsGradOp": (True, True),
    "ConvTranspose": (True, True),
    "CosGradOp": (True, True),
    "CoshOp": (True, True),
    "DecomposeBinaryConstScalar": (True, False),
    "DivArg0GradOp": (True, True),
    "DivArg1GradOp": (True, True),
    "ExpGradOp": (True, True),
    "ExpandCast": (True, False),
    "Expm1GradOp": (True, True),
    "FmodArg0GradOp": (True, True),
    "InitAccumulate": (True, False),
    "LSTMOp": (False, False),
    "LambSerialisedWeight": (True, False),
    "Log1pGradOp": (True, True),
    "LogGradOp": (True, True),
    "LoopScanOut": (True, True),
    "MatMulLhsGradOp": (True, True),
    "MatMulOp": (True, True),
    "MatMulRhsGradOp": (True, True),
    "MulArgGradOp": (True, True),
    "NegativeOneScale": (True, False),
    "NlllWithSoftmaxGradDirect": (True, False),
    "OpToIdentity": (True, False),
    "PackedDataBlock": (True, False),
    "PadSum": (True, False),
    "PostNRepl": (True, False),
    "PowArg0GradOp": (True, True),
    "PowArg1GradOp": (True, True),
    "PreUniRepl": (True, False),
    "RandomNormalLikeOpPattern": (True, True),
    "RandomUniformLikeOpPattern": (True, True),
    "ReciprocalGradOp": (True, True),
    "RemoveUnnecessaryLossGradCast": (True, False),
    "ScanToLoop": (True, True),
    "SinGradOp": (True, True),
    "Slice2SliceSubsample": (False, False),
    "SoftmaxGradDirect": (True, False),
    "SplitGather": (False, False),
    "SplitGradOpToConcat": (True, False),
    "SplitOp": (True, False),
    "SqrtGradOp": (True, True),
    "SubtractArg1GradOp": (True, True),
    "SumToAdd": (True, False),
    "TiedGather": (False, False),
    "TiedGatherAccumulate": (False, False),
    "TransposeToIdentityOrReshapePattern": (True, False),
    "UpsampleToResize": (True, False),
    "ZerosLikeOpPattern": (True, True),
}

#: Switches that stand beside the table: they rewrite nothing.
_OTHERS = ("InPlace", "UpdateInplacePrioritiesForIpu")

_FORMS = (
    Signature(()),
    Signature((Parameter("level", instance(PatternsLevel)),)),
    Signature((Parameter("patterns", TEXTS),)),
)


def _switch(name: str) -> property:
    def read(self: Patterns) -> bool:
        return self.isPatternEnabled(name)

    def write(self: Patterns, value: Any) -> None:
        self.enablePattern(name, value)

    return property(read, write, doc=f"Whether the pattern {name} is enabled.")


class Patterns:
    """Which patterns are enabled: those of a level, or those named.

    ``Patterns()`` is ``Patterns(PatternsLevel.Default)``; ``Patterns(["PadSum", "InPlace"])``
    enables these two only.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        form, bound = match_call("popart.Patterns", "__init__", _FORMS, arguments, named)
        self._runtime_asserts = True
        self._enabled: dict[str, bool] = {}
        if form == len(_FORMS) - 1:
            for name in bound["patterns"]:
                self._enabled[_known(name)] = True
            return
        level = bound.get("level", PatternsLevel.Default)
        if level is PatternsLevel.NoPatterns:
            return
        for name, (is_default, is_mandatory) in PATTERNS.items():
            self._enabled[name] = {
                PatternsLevel.All: True,
                PatternsLevel.Default: is_default,
                PatternsLevel.Minimal: is_mandatory,
            }[level]
        self._enabled["InPlace"] = level is not PatternsLevel.Minimal

    def isPatternEnabled(self, name: str) -> bool:
        """Whether a pattern is enabled."""
        return self._enabled.get(_known(name), False)

    def enablePattern(self, name: str, value: bool) -> Patterns:
        """Enable or disable a pattern; one that is mandatory cannot be disabled."""
        known = _known(name)
        is_enabled = BOOL.convert(value)
        if not is_enabled and PATTERNS.get(known, (False, False))[1]:
            raise popart_exception(f"Pattern '{name}' is mandatory and cannot be disabled")
        self._enabled[known] = is_enabled
        return self

    def enableRuntimeAsserts(self, value: bool) -> Patterns:
        """Choose whether a session refuses patterns that lack a mandatory one."""
        self._runtime_asserts = BOOL.convert(value)
        return self

    def check(self) -> None:
        """Refuse patterns that lack a mandatory one, unless run-time asserts are off."""
        if not self._runtime_asserts:
            return
        for name, (_, is_mandatory) in PATTERNS.items():
            if is_mandatory and not self._enabled.get(name, False):
                raise popart_exception(f"Pattern '{name}' must be enabled")

    @staticmethod
    def names() -> Sequence[str]:
        """Return the names of all patterns."""
        return [*PATTERNS, *_OTHERS]

    def __repr__(self) -> str:
        return "".join(f"{name} " for name in self._enabled)

    InPlace = _switch("InPlace")
    MatMulLhsGradOp = _switch("MatMulLhsGradOp")
    MatMulOp = _switch("MatMulOp")
    MatMulRhsGradOp = _switch("MatMulRhsGradOp")
    MulArgGradOp = _switch("MulArgGradOp")
    # The name of the pattern itself has a small m, as the next one's.
    NlllWithSoftMaxGradDirect = _switch("NlllWithSoftmaxGradDirect")
    SoftMaxGradDirect = _switch("SoftmaxGradDirect")
    OpToIdentity = _switch("OpToIdentity")
    PostNRepl = _switch("PostNRepl")
    PreUniRepl = _switch("PreUniRepl")
    SubtractArg1GradOp = _switch("SubtractArg1GradOp")


def _known(name: str) -> str:
    """Return a name of a pattern; refuse others."""
    if name in PATTERNS or name in _OTHERS:
        return name
    hint = ", did you mean InPlace?" if name == "Inplace" else ""
    raise popart_exception(f"Unknown pattern {name}{hint}")
