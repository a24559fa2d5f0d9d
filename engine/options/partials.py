"""Number types of the partial sums of convolutions and products."""

from __future__ import annotations

from dataclasses import dataclass

from tilescope.engine.errors import BadOption
from tilescope.engine.options.catalogue import CONVOLUTION_PARTIALS, MATMUL_PARTIALS, PARTIALS_TYPES
from tilescope.engine.options.precedence import EngineOptions

__all__ = ["PartialsTypes"]


@dataclass(frozen=True)
class PartialsTypes:
    """``float`` or ``half`` by kind of operation, for operands in half.

    Floats are always summed in float, and float8 in half. An operation's own type takes precedence.

    Raises
    ------
    BadOption
        If a type is neither.
    """

    convolution: str = PARTIALS_TYPES[0]
    matmul: str = PARTIALS_TYPES[0]

    def __post_init__(self) -> None:
        for kind, name in (("convolution", self.convolution), ("matmul", self.matmul)):
            if name not in PARTIALS_TYPES:
                raise BadOption(
                    f"The partials type of {kind} must be {' or '.join(PARTIALS_TYPES)},"
                    f" got {name!r}"
                )

    def with_own(self, name: str | None) -> PartialsTypes:
        """Return the types for an operation with its own type, or None.

        Raises
        ------
        BadOption
            If the type is neither ``float`` nor ``half``.
        """
        return self if name is None else PartialsTypes(name, name)

    @classmethod
    def of(cls, options: EngineOptions) -> PartialsTypes:
        """Return the types in the engine options."""
        return cls(options.text(CONVOLUTION_PARTIALS), options.text(MATMUL_PARTIALS))
