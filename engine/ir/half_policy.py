"""Policies of half: in which type the operators of a model of floats compute, as data."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from types import MappingProxyType

from tilescope.engine.errors import BadOption

__all__ = ["HALF_POLICIES", "MIXED", "THROUGHOUT", "HalfPolicy", "Precision", "PrecisionRule"]


class Precision(StrEnum):
    """In which type an operator computes what the model computes in float."""

    HALF = "half"
    FLOAT = "float"
    #: In float where an operand is computed in float, otherwise in half.
    OPERANDS = "operands"


@dataclass(frozen=True)
class PrecisionRule:
    """Operators that compute in one type, and why.

    Parameters
    ----------
    precision
        The type.
    kinds
        Operators by the names of the model's format; those outside ONNX with their domain.
    reason
        Why, as the documentation has it.
    """

    precision: Precision
    kinds: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class HalfPolicy:
    """Which operators of a model compute in half, and which stay in float.

    An entry is a kind of operator, such as ``Softmax``, the name of a node, or a pattern of names,
    such as ``/encoder/*``. A node that is named in full goes before kinds and patterns, and
    `keep_float` before `in_half`; what neither has is left to the rules.

    Parameters
    ----------
    name
        What the command line calls it.
    rules
        By kind of operator.
    otherwise
        What operators compute in that no rule has.
    has_float_outputs
        Whether the model's outputs are float; otherwise they are of the type that they are
        computed in.
    keep_float, in_half
        Entries that compute in float, and in half, whatever the rules say.
    half_partials
        Entries whose partial sums are half, where the operator has any; the engine options decide
        on those of the others.

    Raises
    ------
    BadOption
        When an entry is to be kept in float and to be computed in half.
    """

    name: str
    rules: tuple[PrecisionRule, ...] = ()
    otherwise: Precision = Precision.HALF
    has_float_outputs: bool = False
    keep_float: tuple[str, ...] = ()
    in_half: tuple[str, ...] = ()
    half_partials: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        both = [entry for entry in self.keep_float if entry in self.in_half]
        if both:
            raise BadOption(f"{both[0]!r} is kept in float and computed in half: choose one")

    @property
    def changes(self) -> dict[str, tuple[str, ...]]:
        """The entries by option."""
        return {
            "keep_float": self.keep_float,
            "in_half": self.in_half,
            "half_partials": self.half_partials,
        }

    @property
    def is_changed(self) -> bool:
        """Whether entries change what the rules say."""
        return any(self.changes.values())

    def of(self, kinds: Collection[str], name: str) -> Precision:
        """Return the type of a node.

        Parameters
        ----------
        kinds
            What the node's operator is called.
        name
            The node's own name.
        """
        for entries, precision in (
            (self.keep_float, Precision.FLOAT),
            (self.in_half, Precision.HALF),
        ):
            if any(_bare(entry) == name for entry in entries):
                return precision
        if any(matches(entry, kinds, name) for entry in self.keep_float):
            return Precision.FLOAT
        if any(matches(entry, kinds, name) for entry in self.in_half):
            return Precision.HALF
        by_kind = (rule.precision for rule in self.rules if not set(kinds).isdisjoint(rule.kinds))
        return next(by_kind, self.otherwise)

    def has_half_partials(self, kinds: Collection[str], name: str) -> bool:
        """Return whether the partial sums of a node are half; see `of`."""
        return any(matches(entry, kinds, name) for entry in self.half_partials)

    @classmethod
    def named(
        cls,
        name: str,
        *,
        keep_float: Collection[str] = (),
        in_half: Collection[str] = (),
        half_partials: Collection[str] = (),
    ) -> HalfPolicy:
        """Return one of `HALF_POLICIES`, with entries of a user.

        Parameters
        ----------
        name
            One of `HALF_POLICIES`.
        keep_float, in_half, half_partials
            As of the policy.

        Raises
        ------
        BadOption
            When the policy does not exist, or entries contradict each other.
        """
        if name not in HALF_POLICIES:
            raise BadOption(f"Unknown policy {name!r}: expected {' or '.join(HALF_POLICIES)}")
        return replace(
            HALF_POLICIES[name],
            keep_float=tuple(keep_float),
            in_half=tuple(in_half),
            half_partials=tuple(half_partials),
        )


def matches(entry: str, kinds: Collection[str], name: str) -> bool:
    """Return whether an entry of a policy is a node: its kind, its name, or a pattern of that."""
    return entry in kinds or fnmatchcase(name, _bare(entry))


def _bare(entry: str) -> str:
    """Return a name as a front end has it, without the slash that exporters begin it with."""
    return entry.removeprefix("/")


#: Everything in half, as PopART's ``convertFloatsToHalfs``.
THROUGHOUT = HalfPolicy("throughout")

#: Products in half; in float what leaves half's range, or loses in it what results depend on.
# Assumption: chosen by what the library sums in float; PyTorch's lists of autocast agree, except on
# Softmax and normalisations, which are float there.
MIXED = HalfPolicy(
    "mixed",
    (
        PrecisionRule(
            Precision.HALF,
            (
                "Attention",
                "Conv",
                "ConvTranspose",
                "DeformConv",
                "Einsum",
                "Gemm",
                "MatMul",
                "com.microsoft.Attention",
                "com.microsoft.FusedConv",
                "com.microsoft.FusedGemm",
                "com.microsoft.FusedMatMul",
                "com.microsoft.GroupQueryAttention",
                "com.microsoft.MultiHeadAttention",
                "com.microsoft.TransposeMatMul",
            ),
            "Products take a quarter to a half of the cycles in half, and half of the memory. Their"
            " partial sums are float.",
        ),
        PrecisionRule(
            Precision.HALF,
            ("GRU", "LSTM", "RNN"),
            "Recurrent layers are products, whose states stay between -1 and 1.",
        ),
        PrecisionRule(
            Precision.FLOAT,
            ("Cosh", "CumProd", "Exp", "Pow", "Reciprocal", "ReduceProd", "Sinh", "Tan"),
            "They leave the range of half, 65,504, for ordinary operands: the square of 256 does.",
        ),
        PrecisionRule(
            Precision.FLOAT,
            (
                "CumSum",
                "DFT",
                "Det",
                "GlobalLpPool",
                "LRN",
                "LpNormalization",
                "LpPool",
                "ReduceL1",
                "ReduceL2",
                "ReduceLogSum",
                "ReduceLogSumExp",
                "ReduceSum",
                "ReduceSumSquare",
                "STFT",
                "com.microsoft.CDist",
            ),
            "Sums of many numbers leave the range of half, though they are summed in float.",
        ),
        PrecisionRule(
            Precision.FLOAT,
            ("Acos", "Acosh", "Asin", "Atanh", "Log", "LogSoftmax", "Softplus"),
            "They are steep where operands differ by less than half resolves, 1 in 2,048.",
        ),
        PrecisionRule(
            Precision.FLOAT,
            ("AffineGrid", "GridSample", "RoiAlign"),
            "Half resolves positions in an image of 2,048 pixels to a pixel only.",
        ),
        PrecisionRule(
            Precision.FLOAT,
            ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"),
            "Losses are sums of logarithms, and all gradients start from them.",
        ),
    ),
    Precision.OPERANDS,
    has_float_outputs=True,
)

#: The policies by name.
HALF_POLICIES: Mapping[str, HalfPolicy] = MappingProxyType(
    {policy.name: policy for policy in (THROUGHOUT, MIXED)}
)

#: Operators that have partial sums.
WITH_PARTIALS = tuple(
    kind for rule in MIXED.rules if rule.precision == Precision.HALF for kind in rule.kinds
)
