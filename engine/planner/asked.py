"""What a planner is asked: the operation, the machine, and what of the plan is fixed already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilescope.engine.errors import BadGraph
from tilescope.engine.machine import Machine
from tilescope.engine.planner.families import FAMILIES, Family
from tilescope.engine.planner.serial import SERIAL, Serial
from tilescope.engine.planner.shape import ConvolutionShape
from tilescope.engine.planner.split import KERNEL, PARTS

__all__ = ["Asked"]


@dataclass(frozen=True)
class Asked:
    """What is to be planned, and what of the plan is fixed already.

    Parameters
    ----------
    shape, machine
        What is split, over what.
    families
        The vertices to choose from.
    split
        Part counts that are wanted, by dimension.
    serial
        The split in time that is wanted; None where it is free.
    """

    shape: ConvolutionShape
    machine: Machine
    families: tuple[Family, ...]
    split: Mapping[str, int]
    serial: Serial | None

    @classmethod
    def of(
        cls,
        shape: ConvolutionShape,
        machine: Machine,
        family: str,
        split: tuple[tuple[str, int], ...],
    ) -> Asked:
        """Return it from a family's name, any when empty, and part counts by dimension.

        Raises
        ------
        BadGraph
            When the family or dimension is unknown.
        """
        families = tuple(each for each in FAMILIES if family in ("", each.name))
        if not families:
            names = ", ".join(each.name for each in FAMILIES)
            raise BadGraph(f"Unknown family of vertices {family!r}; choose one of {names}")
        known, wanted = (*PARTS, *SERIAL), dict(split)
        unknown = [name for name in wanted if name not in known]
        if unknown:
            raise BadGraph(
                f"Unknown dimension {unknown[0]!r} to split; choose one of {', '.join(known)}"
            )
        in_turn = [wanted.get(name, 1) for name in SERIAL]
        if min(in_turn) < 1 or min(in_turn) > 1:
            raise BadGraph(
                f"An operation is made in parts of its outputs or of its inputs, not in"
                f" {in_turn[0]} of its outputs and {in_turn[1]} of its inputs: leave one at 1"
            )
        serial = Serial(*in_turn) if any(name in wanted for name in SERIAL) else None
        return cls(shape, machine, families, wanted, serial)

    @property
    def has_kernel_parts(self) -> bool:
        """Whether it is fixed how the kernel is split, or it cannot be."""
        return self.shape.is_pointwise or any(name in self.split for name in KERNEL)

    def refusal(self) -> str:
        """Return the sentence that says why there is no plan."""
        what = f"this {self.shape.operation} of {self.shape.dtype}"
        if self.split:
            said = ", ".join(f"{name} {count}" for name, count in self.split.items())
            return f"No plan of {what} has the split {said}: ask for fewer parts, or for none"
        return (
            f"The vertices {self.families[0].name!r} cannot do {what}: leave the choice to the"
            " planner"
        )
