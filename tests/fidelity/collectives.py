"""Sums over replicas on hardware: by size, and by the way in which they travel."""

from __future__ import annotations

from collections.abc import Mapping

from tilescope.engine.graph import Graph
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.gcl.cross_replica import all_reduce_in_place_cross_replica
from tilescope.engine.machine import load_machine
from tilescope.engine.program import Sequence
from tilescope.engine.session.compile import compile_programs
from tilescope.engine.session.engine import Engine

__all__ = ["by_method", "by_size"]

_KIB = 1 << 10


def _cycles(n_replicas: int, n_elements: int, dtype: str, method: str = "auto") -> int:
    """Return the cycles of a sum over replicas of one IPU each, spread over its tiles."""
    graph = Graph(load_machine("gc2", n_replicas=n_replicas))
    x = graph.add_variable(dtype, (n_elements,), "data")
    graph.map_linearly(x)
    builder = Builder(graph, Sequence("main"))
    all_reduce_in_place_cross_replica(builder, x, method=method)
    executable = compile_programs(graph, [builder.sequence])
    with Engine(executable, n_computed_replicas=1) as device:
        return int(device.n_cycles().max())


def by_size() -> Mapping[str, float]:
    """Return the cycles of sums over 16 IPUs."""
    sizes = {"1 K": _KIB, "4 K": 4 * _KIB, "16 K": 16 * _KIB, "128 K": 128 * _KIB}
    return {name: _cycles(16, size, "float16") for name, size in sizes.items()}


def by_method() -> Mapping[str, float]:
    """Return what meeting in the middle takes of the cycles of a pair of rings, 40 MB on 64."""
    meeting, rings = (
        _cycles(64, 10 << 20, "float32", method)
        for method in ("meet_in_middle_ring", "bidirectional_ring_pair")
    )
    return {"ratio": meeting / rings}
