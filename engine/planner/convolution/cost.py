"""Predicted cost of splits by phase, from the largest part along every dimension."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.poplin.work import work_of
from tilescope.engine.codelets.popops.elementwise.add_in_place import add_in_place_cycles
from tilescope.engine.codelets.popops.elementwise.copy import (
    cast_cycles,
    cast_rows_cycles,
    copy_cycles,
)
from tilescope.engine.graph import Stage
from tilescope.engine.graph.vertex.codelet import Codelet
from tilescope.engine.graph.vertex.law import Batch
from tilescope.engine.machine import Machine
from tilescope.engine.planner.convolution.arrange import arrangement_cycles
from tilescope.engine.planner.convolution.reduction import reduction_cycles, result_shares
from tilescope.engine.planner.convolution.split import Splits
from tilescope.engine.planner.convolution.traffic import Traffic, sum_bytes
from tilescope.engine.planner.exchange import exchange_cycles
from tilescope.engine.planner.families import Family
from tilescope.engine.planner.phase import Phase
from tilescope.engine.tiling import Dimension

__all__ = ["COMPUTE", "Costs", "cost_of", "exact_compute_cycles", "is_placed"]

#: The vertices of the family.
COMPUTE = Phase(Stage.COMPUTE)
_CAST = Phase(Stage.CAST)


@dataclass(frozen=True)
class Costs:
    """Cycles by phase and temporary memory of every split.

    Parameters
    ----------
    by_phase : mapping from `Phase` to ndarray of int64, shape (n,)
        Cycles.
    temporary_bytes : ndarray of int64, shape (n,)
        Largest on a tile; partial sums count, even if they are the result.
    interleaved_bytes : ndarray of int64, shape (n,)
        Bytes of a tile's operands, partial sums and results that must be in interleaved memory.

    Notes
    -----
    Source: graphcore/poplibs sdk-release-3.4, lib/poplin/ConvModel.cpp, partialsConvTempMemory,
    which counts the partial sums of every plan.
    """

    by_phase: dict[Phase, NDArray[np.int64]]
    temporary_bytes: NDArray[np.int64]
    interleaved_bytes: NDArray[np.int64]

    @property
    def total(self) -> NDArray[np.int64]:
        """Sum of the parts, cycles: ndarray of int64, shape (n,)."""
        return np.asarray(sum(self.by_phase.values()))

    def keep(self, chosen: NDArray[np.bool_] | NDArray[np.int64]) -> Costs:
        """Return the costs of the chosen splits, by a mask or by indices."""
        by_phase = {phase: cycles[chosen] for phase, cycles in self.by_phase.items()}
        return Costs(by_phase, self.temporary_bytes[chosen], self.interleaved_bytes[chosen])

    @property
    def before_sums(self) -> NDArray[np.float64]:
        """Lower bound of the cycles before partial sums are added: ndarray of float64.

        Exchanges count at the rate of a pair of tiles. Splitting a summed dimension divides these
        cycles at best.
        """
        total_bytes = np.zeros(self.temporary_bytes.size)
        for phase, cycles in self.by_phase.items():
            if phase.stage not in (Stage.REDUCE_STAGE, Stage.REDUCE):
                total_bytes += cycles / 2 if phase.is_exchange else cycles
        return total_bytes


def is_placed(costs: Costs, machine: Machine) -> NDArray[np.bool_]:
    """Return which splits fit in interleaved memory: ndarray of bool.

    Parameters
    ----------
    costs
        Costs of the splits.
    machine
        The machine.
    """
    return np.asarray(costs.interleaved_bytes <= machine.interleaved_bytes)


def cost_of(family: Family, splits: Splits, machine: Machine, most_cycles: float = np.inf) -> Costs:
    """Return the cost of every split with the vertices of a family.

    Parameters
    ----------
    family
        The vertices that compute.
    splits
        The splits.
    machine
        The target.
    most_cycles
        Splits that compute for longer get no other phases and no memory.
    """
    compute = _codelet(family, splits, machine).law(splits.batch(), machine)
    n_parts = splits.serial.n_parts
    near = np.flatnonzero(n_parts * compute <= most_cycles)
    if near.size == compute.size:
        return _with_compute(family, splits, machine, compute)
    if near.size == 0:
        nothing = np.zeros_like(compute)
        return Costs({COMPUTE: n_parts * compute}, nothing, nothing)
    costs = _with_compute(family, splits.keep(near), machine, compute[near])
    by_phase = {
        phase: _placed(cycles, near, compute.size) for phase, cycles in costs.by_phase.items()
    }
    by_phase[COMPUTE] = n_parts * compute
    memory = (costs.temporary_bytes, costs.interleaved_bytes)
    return Costs(by_phase, *(_placed(n_bytes, near, compute.size) for n_bytes in memory))


def exact_compute_cycles(family: Family, splits: Splits, machine: Machine) -> NDArray[np.int64]:
    """Return the cycles of the slowest tile's vertices of every split: ndarray of int64.

    A smaller part of the field may be divided less evenly among the workers and take longer than
    the largest part.

    Parameters
    ----------
    family, splits, machine
        As for `cost_of`.
    """
    batches = [splits.batch(), *(splits.batch(smaller) for smaller in _SMALLER)]
    cycles = _codelet(family, splits, machine).law(_joined(batches), machine)
    return np.asarray(splits.serial.n_parts * cycles.reshape(len(batches), -1).max(axis=0))


#: The dimensions along which a tile may have smaller parts, alone or combined.
_SMALLER = (
    (Dimension.ROWS,),
    (Dimension.COLUMNS,),
    (Dimension.ROWS, Dimension.COLUMNS),
    (Dimension.BATCH,),
)


def _codelet(family: Family, splits: Splits, machine: Machine) -> Codelet:
    return family.codelet(splits.shape, splits.grouping, machine)


def _placed(placed: NDArray[np.int64], positions: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Return an array of n values: those found at their indices, 0 elsewhere."""
    everywhere = np.zeros(n, np.int64)
    everywhere[positions] = placed
    return everywhere


def _with_compute(
    family: Family, splits: Splits, machine: Machine, compute: NDArray[np.int64]
) -> Costs:
    """Return the cost of splits, given the cycles of their vertices."""
    shape, batch = splits.shape, splits.batch()
    n_partials = splits.n_partials
    tiles_used = splits.tiles_used
    traffic = Traffic.of(splits, machine)
    out_elements = batch.n_elements("out")
    by_phase = {
        **arrangement_cycles(splits, machine),
        Phase(Stage.COMPUTE, is_exchange=True): exchange_cycles(
            traffic.own_bytes,
            traffic.paired_bytes,
            tiles_used,
            machine,
            traffic.fragments(splits, machine),
        ),
        COMPUTE: compute,
        **reduction_cycles(splits, tiles_used, machine),
    }
    is_reduced = n_partials > 1
    workspace = family.workspace_bytes(work_of(batch), machine)
    if shape.partial_dtype != shape.result_dtype:
        types = shape.partial_dtype, shape.result_dtype
        by_phase[_CAST] = np.where(is_reduced, 0, cast_cycles(out_elements, types, machine))
    temporary = traffic.held_bytes + workspace + sum_bytes(splits)
    costs = Costs(by_phase, temporary, _interleaved_bytes(_codelet(family, splits, machine), batch))
    return costs if splits.serial.n_parts == 1 else _in_series(costs, splits, machine)


#: The stage that runs once for all serial parts of the outputs.
_ONCE = Stage.PRE_ARRANGE


def _in_series(part: Costs, splits: Splits, machine: Machine) -> Costs:
    """Return the cost of all serial parts, given that of one.

    Parts of the outputs are copied to their place on the tile that computes them; the whole result
    is live from the first part on. Parts of the inputs are added to the sums of the first part,
    which stay live, and cast at the end.
    """
    shape, serial = splits.shape, splits.serial
    shares = result_shares(splits, machine)
    by_phase = {
        phase: cycles if serial.outputs > 1 and phase.stage is _ONCE else serial.n_parts * cycles
        for phase, cycles in part.by_phase.items()
    }
    key = shape.result_dtype, shape.result_bytes
    n_bytes = shares.rows * shares.columns * shape.result_bytes
    # Sums that are neither reduced nor cast are the results of a part: they count once.
    is_counted = (splits.n_partials == 1) & (shape.partial_dtype == shape.result_dtype)
    of_part = np.where(is_counted, 0, n_bytes)

    def in_all(law: Callable[..., NDArray[np.int64]], types: Any) -> NDArray[np.int64]:
        """Return the cycles of all vertices of a tile."""
        torn = law(np.ones_like(shares.rows), np.zeros_like(shares.rows), types, machine)
        return np.asarray(law(shares.rows, shares.columns, types, machine) + shares.torn * torn)

    if serial.outputs > 1:
        by_phase[Phase(Stage.UPDATE)] = serial.n_parts * copy_cycles(
            shares.rows, shares.columns, key, machine
        )
        temporary = part.temporary_bytes + serial.n_parts * n_bytes + of_part
        return Costs(by_phase, temporary, part.interleaved_bytes)
    by_phase[Phase(Stage.ADD)] = (serial.n_parts - 1) * in_all(add_in_place_cycles, key)
    undivided = replace(shape, input_parts=1)
    if undivided.result_dtype != shape.result_dtype:
        types = {"x": key, "out": (undivided.result_dtype, undivided.result_bytes)}
        by_phase[_CAST] = in_all(cast_rows_cycles, types)
    return Costs(by_phase, part.temporary_bytes + n_bytes + of_part, part.interleaved_bytes)


def _interleaved_bytes(codelet: Codelet, batch: Batch) -> NDArray[np.int64]:
    """Return the bytes of fields that must be interleaved, by vertex: ndarray of int64."""
    wide = [field.name for field in codelet.fields if field.interleaved]
    n_bytes = [batch.n_elements(name) * batch.item_bytes[name] for name in wide]
    return np.asarray(sum(n_bytes, np.zeros(batch.n_vertices, np.int64)))


def _joined(batches: Sequence[Batch]) -> Batch:
    """Return several batches of one codelet as one batch."""
    first = batches[0]
    size = {name: np.concatenate([batch.size[name] for batch in batches]) for name in first.size}
    scalars = {
        name: np.concatenate([batch.scalars[name] for batch in batches]) for name in first.scalars
    }
    counts = np.concatenate([batch.counts for batch in batches])
    n_vertices = sum(batch.n_vertices for batch in batches)
    return replace(first, n_vertices=n_vertices, size=size, scalars=scalars, counts=counts)
