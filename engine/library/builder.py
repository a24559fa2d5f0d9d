"""The builder: the graph, sequence and tiles that library functions write to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from tilescope.engine.arguments import a_kind
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import (
    ROOT,
    ComputeSet,
    DebugContext,
    Graph,
    PlanStage,
    Regions,
    Stage,
    Tensor,
    TileSet,
    UncheckedGraph,
    View,
)
from tilescope.engine.graph.identity.digest import KnownDigests
from tilescope.engine.graph.vertex.codelet import Codelet
from tilescope.engine.options.available_memory import AvailableMemory
from tilescope.engine.options.partials import PartialsTypes
from tilescope.engine.planner.convolution.memo import PlanMemo
from tilescope.engine.planner.plan import Plan
from tilescope.engine.program import Execute, Sequence

__all__ = ["Builder", "refuse_float8"]


#: Types of a `Builder`'s arguments.
_KINDS = {
    "graph": Graph,
    "sequence": Sequence,
    "debug": DebugContext,
    "plans": list,
    "available_memory": AvailableMemory,
    "partials": PartialsTypes,
    "plan_memo": PlanMemo,
    "digests": KnownDigests,
}


@dataclass
class Builder:
    """The state of building a program.

    Parameters
    ----------
    graph
        Takes variables and compute sets. One that is not checked is for calls of the engine
        itself: they check no arguments either.
    sequence
        Takes programs.
    debug
        Debug context of the current call.
    plans
        The plans chosen so far.
    available_memory
        Default share of a tile for temporary memory.
    partials
        Default type of the partial sums of products of halves.
    plan_id
        The plan under construction; None outside a planned operation.
    serial_part
        The serial part under construction; None for steps that all parts share.
    tiles
        The tiles that results, and the vertices that compute them, are placed on: all compute tiles
        of the graph by default. In-place operations compute where their target lies.
    plan_memo
        Plans operations, equal ones once.
    digests
        Digests of the weights of a model.
    """

    graph: Graph
    sequence: Sequence
    debug: DebugContext = ROOT
    plans: list[Plan] = field(default_factory=list)
    available_memory: AvailableMemory = field(default_factory=AvailableMemory)
    partials: PartialsTypes = field(default_factory=PartialsTypes)
    plan_id: int | None = None
    serial_part: int | None = None
    tiles: TileSet = None  # type: ignore[assignment] # the graph's compute tiles
    plan_memo: PlanMemo = field(default_factory=PlanMemo)
    digests: KnownDigests = field(default_factory=KnownDigests)

    def __post_init__(self) -> None:
        """Check a user's arguments; take the graph's compute tiles if no others are given.

        Raises
        ------
        BadGraph
            If an argument has the wrong type.
        """
        if self.is_checked:
            for name, kind in _KINDS.items():
                a_kind(f"The {name} of a Builder", getattr(self, name), kind, f"a {kind.__name__}")
        if cast(TileSet | None, self.tiles) is None:
            self.tiles = TileSet(self.graph.machine, self.graph.compute_tiles)
        if self.is_checked:
            a_kind("The tiles of a Builder", self.tiles, TileSet, "a TileSet")

    @property
    def is_checked(self) -> bool:
        """Whether a user's calls get it, whose arguments are checked."""
        return type(self.graph) is not UncheckedGraph

    def inside(
        self,
        name: str,
        operation: str,
        detail: Mapping[str, Any] | None = None,
        *,
        weights: object = None,
        flops: int | None = None,
    ) -> Builder:
        """Return a builder for a library call inside this one, with its own sequence.

        It checks nothing: the library's own calls get it.

        Parameters
        ----------
        name, operation, detail, flops
            As for `DebugContext`.
        weights
            An operand, which is digested if it is an ndarray of constants.
        """
        digest = self.digests.of(weights) if isinstance(weights, np.ndarray) else None
        debug = self.debug.child(
            name, "library", operation, detail, weights_digest=digest, flops=flops
        )
        self.digests.note(debug, weights)
        sequence = Sequence(debug.name, debug=debug)
        self.sequence.add(sequence)
        graph = self.graph.unchecked if self.is_checked else self.graph
        return replace(self, graph=graph, sequence=sequence, debug=debug)

    def on_tiles(self, tiles: Iterable[int]) -> Builder:
        """Return this builder for other tiles, such as those of a pipeline stage.

        Raises
        ------
        BadGraph
            As `TileSet.of`.
        """
        return replace(self, tiles=TileSet.of(self.graph.machine, [*tiles]))

    def spread(self, tensor: Tensor, *, grain: int = 1, minimum: int = 1, first: int = 0) -> None:
        """Spread a variable evenly over the tiles: see `Graph.map_linearly`."""
        self.graph.map_linearly(
            tensor, grain=grain, min_elements=minimum, tiles=self.tiles.ids, first=first
        )

    def constant(
        self, values: ArrayLike, name: str, dtype: Any = None, *, grain: int = 1
    ) -> Tensor:
        """Add a constant, spread evenly over the tiles: see `Graph.add_constant`.

        Raises
        ------
        BadGraph
            As there.
        """
        tensor = self.graph.add_constant(values, name, dtype=dtype, debug=self.debug)
        self.spread(tensor, grain=grain)
        return tensor

    def planned(self) -> Builder:
        """Return this builder with the id of a new plan, which its compute sets will carry."""
        return replace(self, plan_id=self.graph.new_plan_id())

    def serial(self, i: int, n_parts: int, operation: str) -> Builder:
        """Return a builder for one of the serial parts of a planned operation."""
        inside = self.inside(f"serial{i}", operation, {"part": i, "parts": n_parts})
        return replace(inside, serial_part=i)

    def compute_set(
        self, name: str, stage: Stage = Stage.REARRANGE, stage_index: int = 0
    ) -> ComputeSet:
        """Add a compute set and a program that runs it.

        Parameters
        ----------
        name
            Name within this call.
        stage, stage_index
            Stage of the plan; ignored outside a planned operation.
        """
        plan_stage = None
        if self.plan_id is not None:
            plan_stage = PlanStage(self.plan_id, stage, stage_index, self.serial_part)
        compute_set = self.graph.add_compute_set(name, self.debug, plan_stage)
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
    """Raise BadGraph if an operand is float8.

    Raises
    ------
    BadGraph
        If the operand is float8.
    """
    if x.dtype.kind == "float8":
        raise BadGraph(
            f"{x.name!r} is {x.dtype}: {operation} does not support float8; cast it to"
            " float16 first"
        )
