"""What library functions write into: the graph, the sequence, and where the next tile is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from tilescope.engine.arguments import a_kind
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import ROOT, ComputeSet, DebugContext, Graph, Regions, View
from tilescope.engine.graph.codelet import Codelet
from tilescope.engine.options.available_memory import AvailableMemory
from tilescope.engine.options.partials import PartialsTypes
from tilescope.engine.planner.plan import Plan
from tilescope.engine.program import Execute, Sequence

__all__ = ["Builder", "refuse_float8"]


@dataclass
class Builder:
    """The state of building a program.

    Parameters
    ----------
    graph
        Where variables and compute sets go.
    sequence
        Where programs go.
    debug
        Context of what is built now.
    plans
        The plans chosen so far.
    available_memory
        What an operation may take while it runs, unless it is told otherwise.
    partials
        In which type products of halves add up, unless they are told otherwise.
    """

    graph: Graph
    sequence: Sequence
    debug: DebugContext = ROOT
    plans: list[Plan] = field(default_factory=list)
    available_memory: AvailableMemory = field(default_factory=AvailableMemory)
    partials: PartialsTypes = field(default_factory=PartialsTypes)

    def __post_init__(self) -> None:
        """Check that each part is of its kind.

        Raises
        ------
        BadGraph
            When one is not.
        """
        kinds = (Graph, Sequence, DebugContext, list, AvailableMemory, PartialsTypes)
        for each, kind in zip(fields(self), kinds, strict=True):
            what = f"The {each.name} of a Builder"
            a_kind(what, getattr(self, each.name), kind, f"a {kind.__name__}")

    def inside(
        self,
        name: str,
        operation: str,
        detail: Mapping[str, Any] | None = None,
        *,
        part: int | None = None,
    ) -> Builder:
        """Return a builder for a library call inside this one, with a sequence of its own."""
        debug = self.debug.child(name, "library", operation, detail, part=part)
        sequence = Sequence(debug.name, debug=debug)
        self.sequence.add(sequence)
        return replace(self, sequence=sequence, debug=debug)

    def compute_set(self, name: str, stage: str = "") -> ComputeSet:
        """Add a compute set and a program that runs it; its stage is its name if not given."""
        compute_set = self.graph.add_compute_set(name, self.debug, stage=stage)
        self.sequence.add(Execute(compute_set, debug=self.debug))
        return compute_set

    def vertices(
        self,
        compute_set: ComputeSet,
        codelet: Codelet,
        tile: Any,
        fields: Mapping[str, Regions],
        scalars: Mapping[str, Any] | None = None,
    ) -> None:
        """Add vertices to a compute set."""
        self.graph.add_vertices(compute_set, codelet, tile, fields, scalars)


def refuse_float8(operation: str, x: View) -> None:
    """Say that an operation has no vertices for float8.

    Raises
    ------
    BadGraph
        When the tensor is one.
    """
    if x.dtype.kind == "float8":
        raise BadGraph(
            f"{x.name!r} is {x.dtype}: {operation} has no vertices for that; cast it to"
            " float16 first"
        )
