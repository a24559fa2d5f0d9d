"""The cost of a compute phase: vertex cycles from the cycle laws, and the scheduling rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.channels import POPLAR
from tilescope.engine.compiler.executable.executable import Step, VertexUse
from tilescope.engine.compiler.executable.step_cost import StepCost
from tilescope.engine.compiler.kernels.schedule import list_schedule
from tilescope.engine.errors import BadGraph, EngineError
from tilescope.engine.graph import ComputeSet, VertexBatch
from tilescope.engine.graph.vertex.codelet import Codelet
from tilescope.engine.graph.vertex.law import Batch, SharedWork, shared_work_cycles, start_cycles
from tilescope.engine.machine import Machine
from tilescope.tracepoints import traced

__all__ = ["CountedCycles", "compute_cost", "take_slow_paths"]


class _BatchCost(NamedTuple):
    """A batch with the cycles and floating-point operations of its vertices."""

    batch: VertexBatch
    cycles: NDArray[np.int64]
    flops: NDArray[np.int64]


def _shapes(
    batch: VertexBatch,
    machine: Machine,
    counts: NDArray[np.int64] | None,
    slow: NDArray[np.int64] | None,
) -> Batch:
    """Return the view of a batch that a cycle law receives, with the slow tiles if it has any."""
    if counts is None:
        shape = batch.codelet.count_shape(batch.n_vertices, machine.n_worker_contexts)
        counts = np.zeros(shape, np.int64)
    return Batch(
        n_vertices=batch.n_vertices,
        size={name: regions.size for name, regions in batch.fields.items()},
        stride={name: regions.stride for name, regions in batch.fields.items()},
        item_bytes={name: regions.variable.dtype.n_bytes for name, regions in batch.fields.items()},
        dtype={name: regions.variable.dtype.kind for name, regions in batch.fields.items()},
        scalars=batch.scalars,
        counts=counts,
        first={n: r.first for n, r in batch.fields.items() if r.first is not None},
        is_slow=None if slow is None else np.isin(batch.tile, slow),
    )


#: Upper bound on the cycles of a vertex, a month of machine time: a law above it is wrong.
_MOST_CYCLES = 1 << 52


def _answer(codelet: Codelet, figure: str, function: Any, *arguments: Any) -> Any:
    """Call a function of the codelet's author; a failure is reported with the codelet's name.

    Raises
    ------
    BadGraph
        When the function fails.
    """
    try:
        with np.errstate(divide="raise"):
            return function(*arguments)
    except EngineError:
        raise
    except Exception as error:
        raise BadGraph(
            f"The {figure} of {codelet.name} failed: {type(error).__name__}: {error}"
        ) from error


def _flops(batch: VertexBatch, shapes: Batch, cycles: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the useful operations of each vertex, checked; 0 if the codelet counts none."""
    codelet = batch.codelet
    if codelet.flops is None:
        return np.zeros_like(cycles)
    flops = np.asarray(_answer(codelet, "count of operations", codelet.flops, shapes))
    if flops.shape != cycles.shape or flops.dtype.kind not in "iu" or (flops < 0).any():
        raise BadGraph(
            f"The count of operations of {codelet.name} must return {cycles.size} non-negative"
            f" integers, got {flops.dtype} of shape {flops.shape}"
        )
    return flops.astype(np.int64)


def _vertex_cycles(batch: VertexBatch, shapes: Batch, machine: Machine) -> NDArray[np.int64]:
    """Return the cycles of each vertex by the cycle law, checked."""
    codelet = batch.codelet
    cycles = np.asarray(_answer(codelet, "cycle law", codelet.law, shapes, machine))
    expected = codelet.count_shape(batch.n_vertices, machine.n_worker_contexts)
    if cycles.shape != expected or not np.issubdtype(cycles.dtype, np.integer):
        integers = " x ".join(map(str, expected))
        raise BadGraph(
            f"The cycle law of {codelet.name} must return {integers} integers, got {cycles.dtype}"
            f" of shape {cycles.shape}"
        )
    if cycles.size and (cycles.min() < 0 or cycles.max() > _MOST_CYCLES):
        offending = int(cycles.min() if cycles.min() < 0 else cycles.max())
        raise BadGraph(f"The cycle law of {codelet.name} returns {offending} cycles: out of range")
    cycles = cycles.astype(np.int64)
    if not codelet.is_multi_vertex:
        return cycles
    workers = machine.n_worker_contexts * cycles.max(axis=1)  # a context issues every sixth cycle
    return np.asarray(start_cycles(0, machine) + workers)


def _use(compute_set: ComputeSet, parts: Sequence[_BatchCost]) -> VertexUse:
    """Return how a compute set uses one codelet, summed over its batches."""
    batches = [part.batch for part in parts]
    return VertexUse(
        compute_set_id=compute_set.compute_set_id,
        codelet_name=batches[0].codelet.name,
        n_vertices=sum(batch.n_vertices for batch in batches),
        n_edges=sum(batch.n_edges for batch in batches),
        n_tiles=int((np.bincount(np.concatenate([batch.tile for batch in batches])) > 0).sum()),
        max_cycles=max(int(part.cycles.max(initial=0)) for part in parts),
        total_cycles=sum(int(part.cycles.sum()) for part in parts),
        flops=sum(int(part.flops.sum()) for part in parts),
        state_bytes=sum(batch.state_bytes for batch in batches),
    )


def compute_cost(
    compute_set: ComputeSet,
    machine: Machine,
    slow_tiles: Sequence[NDArray[np.int64]] = (),
) -> tuple[StepCost, list[VertexUse]]:
    """Return the static cost of a compute set, and how it uses its codelets.

    Parameters
    ----------
    compute_set
        The compute set to cost.
    machine
        The machine it runs on.
    slow_tiles
        Per batch, the tiles on which vertices take their slow path: ndarray of int64; empty where
        no batch has any.

    Notes
    -----
    Supervisor vertices and multi-vertices of a tile run one after the other; worker vertices share
    its contexts; so do the pieces of a copy, which are divided among them.

    Raises
    ------
    BadGraph
        When a cycle law does not return valid cycle counts.
    """
    n_tiles = machine.n_tiles
    tile_cycles = np.zeros(n_tiles, np.int64)
    regions: list[tuple[NDArray[np.int32], SharedWork, Batch]] = []
    worker_tiles: list[NDArray[np.int32]] = []
    worker_cycles: list[NDArray[np.int64]] = []
    by_codelet: dict[str, list[_BatchCost]] = {}
    flops_by_tile = np.zeros(n_tiles, np.int64)
    for i, batch in enumerate(compute_set.batches):
        shapes = _shapes(batch, machine, None, slow_tiles[i] if slow_tiles else None)
        cycles = _vertex_cycles(batch, shapes, machine)
        if batch.codelet.pieces is not None:
            regions.append((batch.tile, batch.codelet.pieces, shapes))
        elif batch.codelet.fills_tile:
            tile_cycles += np.bincount(batch.tile, cycles, n_tiles).astype(np.int64)
        else:
            worker_tiles.append(batch.tile)
            worker_cycles.append(cycles)
        flops = _flops(batch, shapes, cycles)
        flops_by_tile += np.bincount(batch.tile, flops, n_tiles).astype(np.int64)
        part = _BatchCost(batch, cycles, np.asarray(flops))
        by_codelet.setdefault(batch.codelet.name, []).append(part)
    if regions:
        tile_cycles += shared_work_cycles(regions, machine)
    if worker_tiles:
        tile_cycles += list_schedule(
            np.concatenate(worker_tiles),
            np.concatenate(worker_cycles),
            n_tiles,
            machine.n_worker_contexts,
        )
    cost = StepCost.of(
        machine,
        cycles=tile_cycles.reshape(machine.n_ipus, -1).max(axis=1),
        tile_cycles=tile_cycles,
        flops=flops_by_tile.reshape(machine.n_ipus, -1).sum(axis=1),
    )
    return cost, [_use(compute_set, parts) for parts in by_codelet.values()]


class CountedCycles:
    """Computes the cycles of a compute set on each tile once its kernels have counted.

    The data-independent part is computed once.

    Parameters
    ----------
    compute_set
        The compute set that runs.
    machine
        The machine it runs on.
    counts
        Per batch, the array its kernels count into, empty for codelets that do not count. It
        is read whenever cycles are requested.
    slow_tiles
        Per batch, the tiles on which vertices take their slow path: ndarray of int64; empty where
        no batch has any.
    """

    def __init__(
        self,
        compute_set: ComputeSet,
        machine: Machine,
        counts: Sequence[NDArray[np.int64]],
        slow_tiles: Sequence[NDArray[np.int64]] = (),
    ) -> None:
        self._machine = machine
        batches = compute_set.batches
        first = np.cumsum([0, *(batch.n_vertices for batch in batches)])
        self._tile = np.concatenate([batch.tile for batch in batches])
        self._cycles = np.zeros(int(first[-1]), np.int64)
        fills_tile = np.repeat([batch.codelet.fills_tile for batch in batches], np.diff(first))
        is_piece = np.repeat([b.codelet.pieces is not None for b in batches], np.diff(first))
        is_shared = fills_tile | is_piece
        self._workers = slice(None) if not is_shared.any() else np.flatnonzero(~is_shared)
        self._alone = np.flatnonzero(fills_tile)
        self._counted = []
        parts = []
        for i, batch in enumerate(batches):
            rows = slice(int(first[i]), int(first[i + 1]))
            slow = slow_tiles[i] if slow_tiles else None
            if batch.codelet.is_data_dependent:
                self._counted.append((batch, _shapes(batch, machine, counts[i], slow), rows))
            else:
                shapes = _shapes(batch, machine, None, slow)
                self._cycles[rows] = _vertex_cycles(batch, shapes, machine)
                if batch.codelet.pieces is not None:
                    parts.append((batch.tile, batch.codelet.pieces, shapes))
        self._of_pieces = shared_work_cycles(parts, machine)

    def tile_cycles(self) -> NDArray[np.int64]:
        """Return the busy cycles of every tile in the last execution: ndarray of int64, (n_tiles,).

        Raises
        ------
        BadGraph
            When a cycle law does not return valid cycle counts.
        """
        machine, cycles = self._machine, self._cycles
        for batch, shapes, rows in self._counted:
            cycles[rows] = _vertex_cycles(batch, shapes, machine)
        workers = self._workers
        busy = list_schedule(
            self._tile[workers], cycles[workers], machine.n_tiles, machine.n_worker_contexts
        )
        busy += self._of_pieces
        if self._alone.size:
            mine = self._alone
            busy += np.bincount(self._tile[mine], cycles[mine], machine.n_tiles).astype(np.int64)
        return busy


@traced(POPLAR, "compile.slow paths")
def take_slow_paths(
    steps: Sequence[Step],
    slow_tiles: Mapping[tuple[int, int], NDArray[np.int64]],
    uses: dict[int, list[VertexUse]],
    cost_of: Callable[[ComputeSet, Sequence[NDArray[np.int64]]], tuple[StepCost, list[VertexUse]]],
) -> None:
    """Recompute the cost of steps with vertices that must take their slow path.

    A vertex takes its slow path where its operands do not get the memory that the fast path needs.

    Parameters
    ----------
    steps
        All steps; affected steps get new costs.
    slow_tiles
        By step and batch, the tiles on which the slow path is taken: ndarray of int64.
    uses
        By compute set; the last step that runs a compute set determines its entry.
    cost_of
        Returns the cost of a compute set with slow tiles by batch; see `compute_cost`.
    """
    for step_id in sorted({step_id for step_id, _ in slow_tiles}):
        step = steps[step_id]
        assert step.compute_set is not None
        none = np.zeros(0, np.int64)
        step.slow_tiles = tuple(
            slow_tiles.get((step_id, batch_index), none)
            for batch_index in range(len(step.compute_set.batches))
        )
        step.cost, vertex_cycles = cost_of(step.compute_set, step.slow_tiles)
        uses[step.compute_set.compute_set_id] = vertex_cycles
