"""The plan of a reduction, and the tensor of its results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from tilescope.engine.graph import FLOAT16, FLOAT32, Tensor
from tilescope.engine.graph.mapping.elements import share_elements
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popops.elementwise.operations import copy_to, in_one
from tilescope.engine.library.popops.reduction.reduce_call import ReduceCall
from tilescope.engine.library.popops.reduction.reduce_vertices import PlannedReduction
from tilescope.engine.planner.reduction.choice import planned_pieces
from tilescope.engine.planner.reduction.plan_reduction import plan_reduce
from tilescope.engine.planner.reduction.source import ReduceShape

__all__ = ["ReduceTarget"]

#: Operations whose partial results of halves are floats.
#: Source: graphcore/poplibs sdk-release-3.4, lib/popops/reduction/Reduction.cpp,
#: opBenefitsFromHigherIntermediatePrecision.
_IN_FLOATS = {"sum", "square_sum", "product", "log_add"}


def _atoms(x: Tensor, dims: Sequence[int]) -> list[tuple[int, int]]:
    """Return the atoms of dimensions larger than 1, by descending stride; joined where possible."""
    atoms = [atom for d in dims for atom in x.dims[d] if atom[0] > 1]
    merged: list[tuple[int, int]] = []
    for size, stride in sorted(atoms, key=lambda atom: -abs(atom[1])):
        if merged and merged[-1][1] == size * stride:
            merged[-1] = (merged[-1][0] * size, stride)
        else:
            merged.append((size, stride))
    return merged


def _padded(atoms: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    return tuple([(1, 0)] * (2 - len(atoms)) + atoms)


class ReduceTarget:
    """The plan of a reduction, and the tensor of its results.

    Results are laid out in the order in which the kept dimensions lie in memory.
    """

    def __init__(self, build: Builder, call: ReduceCall, label: str) -> None:
        self._build, self._call, self._label = build, call, label
        x = in_one(build, call.x, f"{label}join")
        x.variable.check_mapped()
        self._x = x
        self._kept = sorted(
            (
                (d, i, *atom)
                for d in range(len(x.dims))
                if d not in call.dims
                for i, atom in enumerate(x.dims[d])
                if atom[0] > 1
            ),
            key=lambda entry: -abs(entry[3]),
        )
        out = call.out
        self._is_direct = (
            isinstance(out, Tensor) and not share_elements(call.x, out) and self._is_in_order(out)
        )
        self._held = out if self._is_direct and isinstance(out, Tensor) else self._new()
        if call.update and out is not None and not self._is_direct:
            flat = Tensor(self._held.variable, 0, (((self._held.n_elements, 1),),))
            build.spread(flat)
            copy_to(build, out, self._held, "held")

    def _strides(self) -> dict[tuple[int, int], int]:
        """Return the stride in the result of every kept atom, by dimension and place."""
        sizes = [size for _, _, size, _ in self._kept]
        return {(d, i): prod(sizes[k + 1 :]) for k, (d, i, *_) in enumerate(self._kept)}

    def _dims(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """Return the dimensions of the result on its variable."""
        stride = self._strides()
        return tuple(
            tuple((size, stride[d, i]) for i, (size, _) in enumerate(dim) if (d, i) in stride)
            or ((1, 0),)
            for d, dim in enumerate(self._x.dims)
        )

    def _is_in_order(self, out: Tensor) -> bool:
        """Whether a tensor lies like the results."""
        dims = self._dims()
        refined = out.refine([[size for size, _ in dim] for dim in dims])
        if refined is None:
            return False
        return all(
            size == 1 or stride == stride_of_dim
            for dim, atoms in zip(dims, refined, strict=True)
            for (size, stride_of_dim), (_, stride) in zip(dim, atoms, strict=True)
        )

    def _new(self) -> Tensor:
        sizes = [size for _, _, size, _ in self._kept] or [1]
        tensor = self._build.graph.add_variable(
            self._call.dtype, sizes, f"{self._label}out", self._build.debug
        )
        return Tensor(tensor.variable, 0, self._dims())

    def stages(self) -> PlannedReduction:
        """Plan the reduction, and record the plan."""
        build, call, x = self._build, self._call, self._x
        in_floats = x.dtype == FLOAT16 and call.operation in _IN_FLOATS
        partial = FLOAT32 if in_floats else x.dtype
        shape = ReduceShape(
            operation=call.operation,
            dtype=x.dtype.name,
            partial=partial.name,
            result=call.dtype.name,
            item_bytes=x.dtype.n_bytes,
            partial_bytes=partial.n_bytes,
            kept=_padded(_atoms(x, [d for d in range(len(x.dims)) if d not in call.dims])),
            reduced=_padded(_atoms(x, call.dims)),
            offset=x.offset,
            n_elements=x.variable.n_elements,
            map_start=tuple(x.variable.map_start.tolist()),
            map_tile=tuple(x.variable.map_tile.tolist()),
            is_update=call.update,
        )
        machine = build.tiles.whole
        tiles = tuple(build.tiles.ids.tolist())
        plan = build.plan_memo.plan(plan_reduce, build.debug.name, shape, tiles, machine)
        plan_id = build.graph.new_plan_id() if build.plan_id is None else build.plan_id
        build.plans.append(replace(plan, plan_id=plan_id, call=build.debug))
        stages = planned_pieces(shape, plan.split, tiles, machine)
        return PlannedReduction(stages, x, partial, self._held, call.scale, self._label)

    def finish(self) -> Tensor:
        """Return the result; copy it to its output if that lies otherwise.

        An output without tiles gets those of the result.
        """
        out = self._call.out
        if out is not None and not self._is_direct:
            if isinstance(out, Tensor) and not out.variable.is_mapped:
                mapping = self._build.graph.tile_mapping(self._held)
                order = np.argsort(mapping.start)
                self._build.graph.set_tile_mapping(out, mapping.start[order], mapping.tile[order])
            copy_to(self._build, self._held, out, "result")
        return self._held
