"""Reduction of the partial sums of convolutions and products.

Law: graphcore/poplibs sdk-release-3.4, lib/poplin cycle estimators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph.vertex.codelet import Codelet, Field
from tilescope.engine.graph.vertex.law import Batch, start_cycles
from tilescope.engine.host.jit._jit import jit
from tilescope.engine.host.kernels._indices import unsigned
from tilescope.engine.host.kernels._reduce_lanes import COLUMNS, LANES, column_reduction
from tilescope.engine.host.kernels._work_arrays import stack_array_of

if TYPE_CHECKING:
    from tilescope.engine.machine import Machine

__all__ = ["REDUCE_PARTIALS", "reduce_partials_cycles"]

Counts = NDArray[np.int64]


@jit
def _add_columns(partials, source, steps, totals, n):  # type: ignore[no-untyped-def]
    """Sum `n` columns of all partials, in their order."""
    n_partials, pitch, _, _ = steps
    for p in range(n_partials):
        first = unsigned(source + p * pitch)
        for i in range(unsigned(n)):
            totals[i] = partials[first + i] if p == 0 else totals[i] + partials[first + i]


_sum_columns = column_reduction("sum", _add_columns)
_few_columns = stack_array_of(COLUMNS + LANES)


@jit
def _sum_partials(  # type: ignore[no-untyped-def]
    partials, start, size, stride, out, out_start, out_size, out_stride
):
    """Take partials [partial, plane, row, column], out [plane, row, column]; columns adjoin."""
    totals = _few_columns(out)
    step, n_columns = stride[3], out_size[2]
    block = COLUMNS if step == 1 else 1
    for plane in range(out_size[0]):
        for row in range(out_size[1]):
            to = out_start + plane * out_stride[0] + row * out_stride[1]
            source = start + plane * stride[1] + row * stride[2]
            for first in range(0, n_columns, block):
                n = min(block, n_columns - first)
                _sum_columns(partials, source + first * step, (size[0], stride[0], 1, 0), totals, n)
                target = unsigned(to + first)
                for i in range(unsigned(n)):
                    out[target + i] = totals[i]


def reduce_partials_cycles(
    n_partials: Counts, n_outputs: Counts, partial_bytes: int, out_bytes: int, machine: Machine
) -> Counts:
    """Return a tile's cycles to sum the partial results of a convolution or product.

    Parameters
    ----------
    n_partials, n_outputs : ndarray of int64
        Partials per output, and outputs per tile.
    partial_bytes, out_bytes
        Size of a partial and of an output, bytes: 2 for half, 4 for float.
    machine
        Source of the memory elements and the data path width.

    Notes
    -----
    Received partials form one region, summed onto the tile's own partial, if the outputs are whole
    groups of 16 bytes and the region is not too large; otherwise every partial is a separate
    region. Partials are not interleaved: a group takes two loads.
    Source: graphcore/poplibs sdk-release-3.4, lib/poplin: ConvReduce.cpp (which of the two, and
    the separate first partial), ConvReducePlan.hpp (size of the region), PerformanceEstimation.hpp
    (getReduceCycleEstimate).
    """
    workers = machine.n_worker_contexts
    is_float = partial_bytes == 4
    per_group = 2 * machine.data_path_bytes // partial_bytes
    groups, rest = np.divmod(n_outputs, per_group)

    region_bytes = (n_partials - 1) * n_outputs * partial_bytes
    element = machine.memory_element_bytes
    fits = -(-region_bytes // element) * element < machine.allocatable_bytes // 16
    share = -(-groups // workers)
    around = {(4, 4): 8, (4, 2): 7, (2, 4): 10, (2, 2): 9}[partial_bytes, out_bytes]
    one_region = start_cycles(33, machine) + workers * (
        20 + (2 * (n_partials - 1) + around) * share
    )

    # The remainder takes half a group, a quarter, and so on.
    n_odd_levels = sum((rest >> bit) & 1 for bit in range(per_group.bit_length() - 1))
    loops = groups + n_odd_levels
    full, short = np.divmod(loops, workers)
    full = full + ((short > 0) & (rest == 0))
    last = np.where((short > 0) & (rest > 0), 2 * n_partials + (13 if is_float else 11), 0)
    around = (7 if is_float else 9) - (out_bytes == 2)
    regions = start_cycles(0, machine) + workers * (32 + last + (3 * n_partials + around) * full)
    return np.asarray(np.where((rest == 0) & fits, one_region, regions))


def _partials_law(batch: Batch, machine: Machine) -> NDArray[np.int64]:
    n_partials = batch.size["partials"][:, 0]
    n_outputs = batch.n_elements("out")
    item, out = batch.item_bytes["partials"], batch.item_bytes["out"]
    return reduce_partials_cycles(n_partials, n_outputs, item, out, machine)


# No operations of its own: the additions of a product are counted with its multiplications,
# wherever the plan performs them.
REDUCE_PARTIALS = Codelet(
    "poplin::ReduceAdd",
    (Field("partials", "in", 4, kind="block"), Field("out", "out", 3, kind="block")),
    _sum_partials,
    _partials_law,
    code_bytes=200,
    source="graphcore/poplibs sdk-release-3.4, lib/poplin: getReduceCycleEstimate",
    independent=((1, 0), (2, 1), (3, 2)),
)
