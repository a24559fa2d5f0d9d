"""Where the variables of a search for labels lie by its plan, and what vertices see of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph import DType, Regions, Tensor
from tilescope.engine.graph import unchecked_blocks as blocks
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popnn.ctc.layout import map_starts, spread_steps
from tilescope.engine.planner.ctc_beams import CtcBeamPlan

__all__ = ["BeamLayout", "Candidates"]

Counts = NDArray[np.int64]


class Candidates(NamedTuple):
    """Candidates of every sequence.

    Attributes
    ----------
    numbers
        int32: parent and class, shape (…, 2).
    logs
        Logarithms of probabilities that end in the class, and in a blank, shape (…, 2).
    totals
        Logarithms of both together, shape (…).
    """

    numbers: Tensor
    logs: Tensor
    totals: Tensor


@dataclass(frozen=True)
class BeamLayout:
    """The variables of a search: by sequence, then by items that lie on a part's tile.

    Parameters
    ----------
    builder
        Takes the variables.
    plan
        The split.
    """

    builder: Builder
    plan: CtcBeamPlan

    @cached_property
    def tile(self) -> NDArray[np.int32]:
        """Tiles: ndarray of int32, shape (sequences, parts)."""
        ids = self.builder.tiles.ids[: self.plan.n_tiles]
        return ids.reshape(self.plan.batch, self.plan.parts)[self.plan.batch_part]

    @property
    def all_parts(self) -> Counts:
        """Numbers of the parts: ndarray of int64."""
        return np.arange(self.plan.parts)

    def tiles(self, part: Counts) -> NDArray[np.int32]:
        """Return the tiles of vertices with the same parts in every sequence: ndarray of int32."""
        return self.tile[:, part].reshape(-1)

    def scores(self, dtype: DType, name: str) -> Tensor:
        """Add scores, shape (sequences, steps, classes), whose steps are spread over the parts."""
        shape = self.plan.shape
        sizes = (shape.n_batch, shape.n_steps, shape.n_classes)
        return spread_steps(self.builder, self.tile, dtype, sizes, name)

    def variable(self, dtype: Any, name: str, part: Counts, *inner: int) -> Tensor:
        """Add a variable, shape (sequences, items, *inner), whose items lie on these parts."""
        sizes = (self.plan.shape.n_batch, part.size, *inner)
        tensor = self.builder.graph.add_variable(dtype, sizes, name, self.builder.debug)
        start = np.arange(sizes[0] * part.size) * int(np.prod(inner))
        map_starts(self.builder, tensor, start, self.tile[:, part])
        return tensor

    def candidates(self, dtype: DType, name: str, part: Counts, *inner: int) -> Candidates:
        """Add candidates, shape (sequences, items, *inner)."""
        return Candidates(
            self.variable("int32", f"{name}Numbers", part, *inner, 2),
            self.variable(dtype, f"{name}Logs", part, *inner, 2),
            self.variable(dtype, f"{name}Totals", part, *inner),
        )

    def seen(self, tensor: Tensor, first: Counts, n: Counts | int) -> Regions:
        """Return `n` elements of a sequence, from these on: by sequence, then by vertex."""
        start = self._starts(tensor, first)
        return blocks(tensor.variable, start, [self._columns(n)], [1], start.size)

    def rows(self, tensor: Tensor, first: Counts, n_rows: int, stride: int, n: int) -> Regions:
        """Return rows of `n` elements at a stride, from these on: by sequence, then by vertex."""
        start = self._starts(tensor, first)
        return blocks(tensor.variable, start, [n_rows, n], [stride, 1], start.size)

    def _starts(self, tensor: Tensor, first: Counts) -> Counts:
        n_batch = self.plan.shape.n_batch
        step = tensor.n_elements // n_batch
        return (np.arange(n_batch)[:, None] * step + first + tensor.offset).reshape(-1)

    def _columns(self, n: Counts | int) -> Counts | int:
        return np.tile(n, self.plan.shape.n_batch) if isinstance(n, np.ndarray) else n
