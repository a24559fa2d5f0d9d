"""What every split costs, part by part: the largest part of each dimension decides."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.codelets.copy import cast_cycles
from engine.codelets.reduce import reduce_partials_cycles
from engine.codelets.work import work_of
from engine.machine import Machine
from engine.planner.exchange import exchange_cycles
from engine.planner.families import Family
from engine.planner.split import Splits

__all__ = ["Costs", "cost_of"]


@dataclass(frozen=True)
class Costs:
    """Cycles by part and temporary memory of every split.

    Parameters
    ----------
    by_part : mapping from name to ndarray of int64, shape (n,)
        Cycles.
    temporary_bytes : ndarray of int64, shape (n,)
        Largest on a tile.
    """

    by_part: dict[str, NDArray[np.int64]]
    temporary_bytes: NDArray[np.int64]

    @property
    def total(self) -> NDArray[np.int64]:
        """Sum of the parts, cycles: ndarray of int64, shape (n,)."""
        return np.asarray(sum(self.by_part.values()))


def cost_of(family: Family, splits: Splits, machine: Machine) -> Costs:
    """Return what a family's vertices cost for every split.

    Parameters
    ----------
    family
        Whose vertices compute.
    splits
        What to cost.
    machine
        The target.
    """
    shape, grouping = splits.shape, splits.grouping
    batch = splits.batch()
    codelet = family.codelet(shape, grouping, machine)
    _, batch_parts, rows, columns, out_parts, n_partials = splits.parts.T
    tiles_used = splits.parts.prod(axis=1)
    input_bytes = batch.n_elements("x") * shape.item_bytes
    weight_bytes = batch.n_elements("w") * shape.item_bytes
    # Weights lie spread over the tiles that share them; inputs come from anywhere.
    weight_bytes = weight_bytes - weight_bytes // (batch_parts * rows * columns)
    # Parts of the outputs read the same inputs and lie on tiles next to each other.
    is_paired = out_parts % 2 == 0
    out_elements = batch.n_elements("out")
    own = -(-out_elements // n_partials)
    is_reduced = n_partials > 1
    partial_bytes = np.where(is_reduced, own * (n_partials - 1) * shape.partial_bytes, 0)
    reduction = reduce_partials_cycles(
        n_partials, own, shape.partial_bytes, shape.result_bytes, machine
    )
    workspace = family.workspace_bytes(work_of(batch), machine)
    kept = np.where(is_reduced, 2 * out_elements * shape.partial_bytes, 0)
    by_part = {
        "exchange": exchange_cycles(
            weight_bytes + np.where(is_paired, 0, input_bytes),
            np.where(is_paired, input_bytes, 0),
            tiles_used,
            machine,
        ),
        "compute": codelet.law(batch, machine),
        "reduce_exchange": exchange_cycles(
            partial_bytes, np.zeros_like(partial_bytes), tiles_used, machine
        ),
        "reduce": np.where(is_reduced, reduction, 0),
    }
    if shape.partial_dtype != shape.result_dtype:
        types = shape.partial_dtype, shape.result_dtype
        by_part["cast"] = np.where(is_reduced, 0, cast_cycles(out_elements, types, machine))
        kept = np.where(is_reduced, kept, out_elements * shape.partial_bytes)
    return Costs(by_part, input_bytes + weight_bytes + workspace + kept)
