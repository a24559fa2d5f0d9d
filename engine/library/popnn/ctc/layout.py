"""Where the variables of a loss of alignments lie by its plan, and what vertices see of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph import DType, Regions, Tensor
from tilescope.engine.graph import unchecked_blocks as blocks
from tilescope.engine.library.builder import Builder
from tilescope.engine.planner.ctc import CtcLossPlan

__all__ = ["Layout", "map_starts", "spread_steps"]

Counts = NDArray[np.int64]


def map_starts(builder: Builder, tensor: Tensor, start: Counts, tile: NDArray[np.int32]) -> None:
    """Map a variable from the first elements of its parts, in ascending order, and their tiles."""
    starts, tiles = start.reshape(-1), tile.reshape(-1)
    is_new = np.append(True, tiles[1:] != tiles[:-1])
    builder.graph.set_tile_mapping(tensor, starts[is_new], tiles[is_new])


def spread_steps(
    builder: Builder,
    tile: NDArray[np.int32],
    dtype: DType,
    sizes: tuple[int, int, int],
    name: str,
) -> Tensor:
    """Add a variable for scores whose steps are spread over the tiles of their sequence.

    Rows of classes stay together, and parts are of whole words.

    Parameters
    ----------
    builder
        Its graph.
    tile : ndarray of int32, shape (batch, tiles of a sequence)
        Tiles.
    dtype
        Type.
    sizes
        Sequences, steps and classes: the shape.
    name
        Name of the variable.
    """
    n_batch, n_steps, n_classes = sizes
    tensor = builder.graph.add_variable(dtype, sizes, name, builder.debug)
    width = -(-n_steps // min(tile.shape[1], n_steps))
    while width * n_classes * dtype.n_bytes % 4:
        width += 1
    begin = np.arange(0, n_steps, width)
    start = (np.arange(n_batch)[:, None] * n_steps + begin) * n_classes
    map_starts(builder, tensor, start, tile[:, : begin.size])
    return tensor


@dataclass(frozen=True)
class Layout:
    """The variables of a loss by sequence, part of the steps and part of the label.

    A *part* of a variable below is what one vertex sees; parts are in the order (sequence, part of
    the steps, part of the label).

    Parameters
    ----------
    builder
        Takes the variables.
    plan
        The split.
    """

    builder: Builder
    plan: CtcLossPlan

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Sequences, parts of the steps, parts of the label."""
        return self.plan.shape.n_batch, self.plan.steps, self.plan.label_tiles

    @cached_property
    def tile(self) -> NDArray[np.int32]:
        """Tile of every part: ndarray of int32, shape `sizes`."""
        plan, (_, n_steps, n_labels) = self.plan, self.sizes
        ids = self.builder.tiles.ids[: plan.n_tiles].reshape(plan.batch, n_steps, n_labels)
        return ids[plan.batch_part]

    @cached_property
    def _part(self) -> tuple[Counts, Counts, Counts]:
        """Numbers of sequence, part of the steps and part of the label of every part."""
        sequence, steps, label = np.indices(self.sizes, np.int64)
        return sequence.reshape(-1), steps.reshape(-1), label.reshape(-1)

    def data(self, dtype: DType, name: str) -> Tensor:
        """Add probabilities, shape (1, batch, steps, classes), over the tiles by step.

        All tiles of a sequence share its steps, so that rows of classes stay together.
        """
        shape = self.plan.shape
        sizes = (shape.n_batch, shape.n_steps, shape.n_classes)
        tile = self.tile.reshape(shape.n_batch, -1)
        return spread_steps(self.builder, tile, dtype, sizes, name).reshape(1, *sizes)

    def labels(self, name: str) -> Tensor:
        """Add labels, int32, shape (batch, longest), on tiles of the first part of steps."""
        shape, edges = self.plan.shape, self.plan.label_edges[: self.plan.label]
        tensor = self._variable("int32", (shape.n_batch, shape.longest), name)
        start = np.arange(shape.n_batch)[:, None] * shape.longest + edges
        self._map(tensor, start, self.tile[:, 0, : edges.size])
        return tensor

    def by_part(self, dtype: Any, name: str, *inner: int) -> Tensor:
        """Add a variable with some elements of every part: shape (*`sizes`, *inner)."""
        tensor = self._variable(dtype, (*self.sizes, *inner), name)
        n_inner = int(np.prod(inner))
        self._map(tensor, np.arange(self.tile.size) * n_inner, self.tile)
        return tensor

    def by_step(self, dtype: DType, name: str) -> Tensor:
        """Add a variable, shape (label parts, batch, steps, classes): a copy by label part."""
        shape, (n_batch, n_steps, n_labels) = self.plan.shape, self.sizes
        sizes = (n_labels, n_batch, shape.n_steps, shape.n_classes)
        tensor = self._variable(dtype, sizes, name)
        row = np.arange(n_labels * n_batch)[:, None] * shape.n_steps
        start = (row + self.plan.step_edges[:n_steps]) * shape.n_classes
        self._map(tensor, start, self.tile.transpose(2, 0, 1))
        return tensor

    def by_state(self, dtype: DType, name: str, rows: Counts) -> Tensor:
        """Add columns of states: shape (batch, n, states), with so many rows of every step part."""
        n_batch, _, n_labels = self.sizes
        n_rows, n_states = int(rows.sum()), int(self.plan.state_edges[-1])
        tensor = self._variable(dtype, (n_batch, n_rows, n_states), name)
        start = np.arange(n_batch * n_rows)[:, None] * n_states + self.plan.state_edges[:n_labels]
        self._map(tensor, start, self.tile.repeat(rows, axis=1))
        return tensor

    def _variable(self, dtype: Any, shape: tuple[int, ...], name: str) -> Tensor:
        return self.builder.graph.add_variable(dtype, shape, name, self.builder.debug)

    def _map(self, tensor: Tensor, start: Counts, tile: NDArray[np.int32]) -> None:
        map_starts(self.builder, tensor, start, tile)

    # What vertices see.

    def part_of(self, tensor: Tensor, first: int = 0, n: Counts | int = 1) -> Regions:
        """Return elements of a variable `by_part`: `n` of every part, from one on."""
        n_parts = self.tile.size
        start = np.arange(n_parts) * (tensor.n_elements // n_parts) + tensor.offset + first
        return blocks(tensor.variable, start, [n], [1], n_parts)

    def rows_of(self, tensor: Tensor) -> Regions:
        """Return the steps of every part, of a variable of the shape of `by_step`."""
        shape, (sequence, steps, label) = self.plan.shape, self._part
        row = (label * shape.n_batch + sequence) * shape.n_steps + self.plan.step_edges[steps]
        size = self.n_steps * shape.n_classes
        start = tensor.offset + row * shape.n_classes
        return blocks(tensor.variable, start, [size], [1], size.size)

    def columns_of(self, tensor: Tensor, rows: Counts) -> Regions:
        """Return the rows and states of every part, of a variable `by_state`."""
        (sequence, steps, label), n_states = self._part, tensor.shape[2]
        begin = np.append(0, rows.cumsum())[steps]
        row = sequence * tensor.shape[1] + begin
        start = tensor.offset + row * n_states + self.plan.state_edges[label]
        size = np.diff(self.plan.state_edges)[label]
        return blocks(tensor.variable, start, [rows[steps], size], [n_states, 1], size.size)

    def column_of(self, tensor: Tensor) -> Regions:
        """Return the states of every part, of a variable `by_state` with one row of each."""
        regions = self.columns_of(tensor, np.ones(self.plan.steps, np.int64))
        size = regions.size[:, 1]
        return blocks(tensor.variable, regions.start, [size], [1], size.size)

    @property
    def n_steps(self) -> Counts:
        """Steps of every part: ndarray of int64."""
        return np.diff(self.plan.step_edges)[self._part[1]]

    @property
    def n_labels(self) -> Counts:
        """Classes of the label in every part: ndarray of int64."""
        return np.diff(self.plan.label_edges)[self._part[2]]

    @property
    def scalars(self) -> dict[str, Counts]:
        """The offsets of every part, and whether it is the last one of the label."""
        _, steps, label = self._part
        return {
            "label_offset": self.plan.label_edges[label],
            "time_offset": self.plan.step_edges[steps],
            "is_last": (label == self.plan.label_tiles - 1).astype(np.int64),
        }

    @property
    def is_early(self) -> NDArray[np.bool_]:
        """Whether the steps of a part are computed from the first one on: ndarray of bool."""
        return self._part[1] < self.plan.alpha_parts
