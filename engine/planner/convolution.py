"""The planner for convolutions and products: the cheapest split over batch, field and channels.

Every combination of useful part counts is costed at once with the same cycle laws that the
compiled vertices have, plus the exchange of inputs, weights and partials and the reduction.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from engine.codelets.amp import amp_1x1_cycles, amp_nx1_cycles, vertical_mac_cycles
from engine.codelets.reduce import reduce_partials_cycles
from engine.machine import Machine
from engine.options.catalogue import AVAILABLE_MEMORY_PROPORTION
from engine.planner.memo import planned_once
from engine.planner.plan import Plan

__all__ = ["ConvolutionShape", "plan_convolution"]

_log = logging.getLogger(__name__)

_PARTS = ("batch", "rows", "columns", "outputs", "inputs")


@dataclass(frozen=True)
class ConvolutionShape:
    """A convolution as the planner sees it; a product has a kernel of 1 and its rows as columns.

    ``batch`` counts images times convolution groups; channels are those of one group, in groups
    of ``inputs_per_group`` and ``outputs_per_group``.
    """

    batch: int
    height: int
    width: int
    input_groups: int
    inputs_per_group: int
    output_groups: int
    outputs_per_group: int
    kernel_height: int = 1
    kernel_width: int = 1
    stride_y: int = 1
    stride_x: int = 1
    item_bytes: int = 4
    is_depthwise: bool = False
    is_matmul: bool = False


def _useful_parts(size: int, limit: int) -> list[int]:
    """Return the part counts that change the largest part of `size`, up to `limit`."""
    parts: list[int] = []
    part = 1
    while part <= min(size, limit):
        parts.append(part)
        largest = -(-size // part)
        if largest == 1:
            break
        part = -(-size // (largest - 1))
    return parts


def _candidates(shape: ConvolutionShape, n_tiles: int) -> NDArray[np.int64]:
    """Return all splits that fit the tiles: ndarray of int64, shape (n, 5)."""
    sizes = (
        shape.batch,
        shape.height,
        shape.width,
        shape.output_groups,
        1 if shape.is_depthwise else shape.input_groups,
    )
    options = [_useful_parts(size, n_tiles) for size in sizes]
    grid = np.array(list(product(*options[:2])), dtype=np.int64)
    for values in options[2:]:
        column = np.asarray(values, dtype=np.int64)
        grid = np.hstack(
            [np.repeat(grid, column.size, axis=0), np.tile(column, len(grid))[:, None]]
        )
        grid = grid[grid.prod(axis=1) <= n_tiles]
    return grid


@dataclass(frozen=True)
class _Costs:
    compute: NDArray[np.int64]
    exchange: NDArray[np.int64]
    reduce_exchange: NDArray[np.int64]
    reduce: NDArray[np.int64]
    temporary_bytes: NDArray[np.int64]

    @property
    def total(self) -> NDArray[np.int64]:
        return self.compute + self.exchange + self.reduce_exchange + self.reduce


def _exchange_cycles(
    n_bytes: NDArray[np.int64], machine: Machine, paired_bytes: NDArray[np.int64] | int = 0
) -> NDArray[np.int64]:
    """Return the cycles in which a tile receives bytes, some of them with its partner."""
    fixed = machine.sync_cycles + machine.latest_start_cycles
    words = n_bytes / machine.exchange_bytes_per_cycle
    words = np.ceil(words + paired_bytes / machine.paired_exchange_bytes_per_cycle)
    return np.where(n_bytes + paired_bytes > 0, words.astype(np.int64) + fixed, 0)


def _cost(shape: ConvolutionShape, parts: NDArray[np.int64], machine: Machine) -> _Costs:
    """Cost every split: the largest part of each dimension decides."""
    batch, rows, columns, outputs, inputs = (
        -(-size // part)
        for size, part in zip(
            (
                shape.batch,
                shape.height,
                shape.width,
                shape.output_groups,
                1 if shape.is_depthwise else shape.input_groups,
            ),
            parts.T,
            strict=True,
        )
    )
    item = shape.item_bytes
    kernel = np.full(len(parts), shape.kernel_height * shape.kernel_width, dtype=np.int64)
    n_in = inputs * shape.inputs_per_group
    n_out = np.full(len(parts), shape.outputs_per_group, dtype=np.int64)
    if shape.is_depthwise:
        vertex = vertical_mac_cycles(rows * columns, kernel, n_out, machine, item)
        channels_in = outputs * shape.outputs_per_group
    else:
        channels_in = n_in
        if shape.kernel_height * shape.kernel_width == 1:
            vertex = amp_1x1_cycles(rows * columns, n_in, n_out, machine, item, item)
        else:
            sides = (
                np.full_like(kernel, shape.kernel_height),
                np.full_like(kernel, shape.kernel_width),
            )
            vertex = amp_nx1_cycles(rows, columns, sides, n_in, n_out, machine, item, item)
    in_rows = (rows - 1) * shape.stride_y + shape.kernel_height
    in_columns = (columns - 1) * shape.stride_x + shape.kernel_width
    input_bytes = batch * in_rows * in_columns * channels_in * item
    per_output = 1 if shape.is_depthwise else n_in
    weight_bytes = kernel * per_output * outputs * shape.outputs_per_group * item
    # Weights lie spread over the tiles that share them; inputs come from anywhere.
    sharers = parts[:, 0] * parts[:, 1] * parts[:, 2]
    weight_bytes = weight_bytes - weight_bytes // sharers
    # Parts of the outputs read the same inputs and lie on tiles next to each other.
    is_paired = (parts[:, 3] % 2 == 0) & (not shape.is_depthwise)
    exchange = np.where(
        is_paired,
        _exchange_cycles(weight_bytes, machine, input_bytes),
        _exchange_cycles(weight_bytes + input_bytes, machine),
    )
    n_partials = parts[:, 4]
    out_elements = batch * rows * columns * outputs * shape.outputs_per_group
    own = -(-out_elements // n_partials)
    partial_bytes = np.where(n_partials > 1, own * (n_partials - 1) * item, 0)
    reduce = reduce_partials_cycles(n_partials, own, item, item, machine)
    return _Costs(
        batch * outputs * vertex,
        exchange,
        _exchange_cycles(partial_bytes, machine),
        np.where(n_partials > 1, reduce, 0),
        input_bytes + weight_bytes + np.where(n_partials > 1, 2 * out_elements * item, 0),
    )


@planned_once
def plan_convolution(
    name: str,
    shape: ConvolutionShape,
    machine: Machine,
    available_memory_proportion: float = AVAILABLE_MEMORY_PROPORTION,
) -> Plan:
    """Return the split with the fewest predicted cycles within the memory bound.

    Parameters
    ----------
    name
        Debug name of the operation.
    shape
        What is to be split.
    machine
        The target; all its tiles may be used.
    available_memory_proportion
        Largest share of a tile that temporary memory may take. When no split keeps to it, those
        that need the least are left, so that a smaller share never takes more memory.
    """
    parts = _candidates(shape, machine.n_tiles)
    costs = _cost(shape, parts, machine)
    limit = available_memory_proportion * machine.allocatable_bytes
    is_allowed = costs.temporary_bytes <= limit
    bound = "cycles"
    if not is_allowed.any():
        is_allowed = costs.temporary_bytes == costs.temporary_bytes.min()
        bound = "memory: no split keeps to what is available, this one needs the least"
    tiles_used = parts.prod(axis=1)
    order = np.lexsort((tiles_used, costs.temporary_bytes, costs.total))
    allowed = order[is_allowed[order]]
    best = int(allowed[0])
    if bound == "cycles" and order[0] != best:
        bound = "memory: a faster split needs more temporary memory than is available"
    runner_up = {}
    if len(allowed) > 1:
        second = int(allowed[1])
        runner_up = {
            **dict(zip(_PARTS, parts[second].tolist(), strict=True)),
            "cycles": int(costs.total[second]),
        }
    plan = Plan(
        name=name,
        operation="matmul" if shape.is_matmul else "convolution",
        split=dict(zip(_PARTS, parts[best].tolist(), strict=True)),
        n_tiles=int(tiles_used[best]),
        predicted={
            "exchange": int(costs.exchange[best]),
            "compute": int(costs.compute[best]),
            "reduce_exchange": int(costs.reduce_exchange[best]),
            "reduce": int(costs.reduce[best]),
        },
        temporary_bytes=int(costs.temporary_bytes[best]),
        tile_balance=_balance(shape, parts[best], machine),
        bound=bound,
        runner_up=runner_up,
        available_memory_proportion=available_memory_proportion,
    )
    _log.debug(
        "planned %s %s: split %s over %d tiles, %d cycles, bound by %s, of %d candidates",
        plan.operation,
        name,
        plan.split,
        plan.n_tiles,
        costs.total[best],
        bound,
        len(parts),
    )
    return plan


def _balance(shape: ConvolutionShape, parts: NDArray[np.int64], machine: Machine) -> float:
    """Mean over maximum of the work of all tiles, idle ones included."""
    sizes = (
        shape.batch,
        shape.height,
        shape.width,
        shape.output_groups,
        1 if shape.is_depthwise else shape.input_groups,
    )
    largest = np.prod([-(-size // int(part)) for size, part in zip(sizes, parts, strict=True)])
    total = np.prod(np.asarray(sizes, dtype=np.float64))
    return float(total / (largest * machine.n_tiles))
