"""A request to the planner: the operation, the machine, and constraints on the plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilescope.engine.errors import BadGraph
from tilescope.engine.machine import Machine
from tilescope.engine.planner.families import FAMILIES, Family
from tilescope.engine.planner.serial import SERIAL, Serial
from tilescope.engine.tiling import DIMENSIONS, KERNEL, ConvolutionShape

__all__ = ["PlanRequest"]


@dataclass(frozen=True)
class PlanRequest:
    """An operation to plan on a machine, with constraints on the plan.

    Parameters
    ----------
    shape, machine
        The operation, and the machine that it is split over.
    families
        The vertices to choose from.
    counts
        Fixed part counts, each after its dimension.
    serial
        Fixed serial parts; None if the planner chooses.
    """

    shape: ConvolutionShape
    machine: Machine
    families: tuple[Family, ...]
    counts: tuple[tuple[str, int], ...]
    serial: Serial | None

    @classmethod
    def of(
        cls,
        shape: ConvolutionShape,
        machine: Machine,
        family: str,
        split: tuple[tuple[str, int], ...],
    ) -> PlanRequest:
        """Return the request for a family, any if the name is empty, and part counts by dimension.

        Raises
        ------
        BadGraph
            If the family or a dimension is unknown, or both serial splits are given.
        """
        families = tuple(known for known in FAMILIES if family in ("", known.name))
        if not families:
            names = ", ".join(known.name for known in FAMILIES)
            raise BadGraph(f"Unknown vertex family {family!r}: use one of {names}")
        names_known, stated = (*DIMENSIONS, *SERIAL), dict(split)
        unknown = [name for name in stated if name not in names_known]
        if unknown:
            raise BadGraph(
                f"Unknown dimension {unknown[0]!r} to split; choose one of {', '.join(names_known)}"
            )
        in_turn = [stated.get(name, 1) for name in SERIAL]
        if min(in_turn) < 1 or min(in_turn) > 1:
            raise BadGraph(
                f"Expected serial parts of the outputs or of the inputs, got {in_turn[0]} and"
                f" {in_turn[1]}: set one of them to 1"
            )
        serial = Serial(*in_turn) if any(name in stated for name in SERIAL) else None
        return cls(shape, machine, families, split, serial)

    @property
    def split(self) -> Mapping[str, int]:
        """Fixed part counts, by dimension."""
        return dict(self.counts)

    @property
    def has_kernel_parts(self) -> bool:
        """Whether the split of the kernel is given, or the kernel is one element."""
        return self.shape.is_pointwise or any(d.label in self.split for d in KERNEL)

    def most_channels(self, kind: str) -> int:
        """Return the most channels of a group, swapped or not.

        Parameters
        ----------
        kind
            ``outputs`` or ``inputs``.
        """
        shapes = (self.shape, self.shape.swapped) if self.shape.swapped else (self.shape,)
        return max(s.out_channels if kind == "outputs" else s.in_channels for s in shapes)

    def refusal(self) -> str:
        """Return the error message for a request without a plan."""
        subject = f"this {self.shape.operation} of {self.shape.dtype}"
        if self.split:
            text = ", ".join(f"{name} {count}" for name, count in self.split.items())
            return f"No plan of {subject} has the split {text}: request fewer parts, or none"
        return (
            f"The vertex family {self.families[0].name!r} does not support {subject}: let the"
            " planner choose one"
        )
