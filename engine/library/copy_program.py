"""The compute sets of an explicit copy."""

from __future__ import annotations

from tilescope.engine.graph import ComputeSet, Graph
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popops.elementwise.operations import copy_to
from tilescope.engine.program import Copy, Sequence

__all__ = ["copy_compute_sets"]


def copy_compute_sets(graph: Graph, program: Copy) -> list[ComputeSet]:
    """Return the compute sets that carry out a copy, in order."""
    first = len(graph.compute_sets)
    builder = Builder(graph, Sequence(), program.debug)
    copy_to(builder, program.source, program.target, program.name)
    return graph.compute_sets[first:]
