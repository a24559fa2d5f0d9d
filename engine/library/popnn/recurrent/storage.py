"""What a recurrent layer keeps of its steps for its gradients, and when those of weights add up.

Either what gradients need is kept of all steps, or the states before every stretch of steps are,
whose other values are computed again. The gradients of weights are added up after the loop of the
backward pass, or within it every few steps, so that the gradients of all sums need not stay.
Source: graphcore/poplibs sdk-release-3.4, lib/popnn/Lstm.cpp, recomputationMode,
interleaveWUCadence and interleavedWUIsBeneficial.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import ceil

from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popnn.recurrent.kept import BEFORE, STATES
from tilescope.engine.library.popnn.recurrent.span import Span, each_span
from tilescope.engine.library.recurrent_options import RecurrentOptions
from tilescope.engine.machine import Machine

__all__ = [
    "CHECKPOINTS",
    "LayerSizes",
    "Storage",
    "each_chunk",
    "each_stretch",
    "explicit_storage",
    "separate_update_steps",
    "storage_of",
    "stored_tile_bytes",
]

#: Name of the states that are kept before every stretch.
CHECKPOINTS = "checkpoints"
#: Share of a tile's memory for the updates of weights, by default, and of that for gradients of
#: sums. Source: graphcore/poplibs sdk-release-3.4, lib/popnn/Lstm.cpp, interleaveWUCadence.
UPDATE_PROPORTION = 0.2
_SUMS_PROPORTION = 0.1
#: Stretches of equal length are taken at this many times the least memory: a shorter last one is
#: a program of its own.
_EQUAL_WORTH = 1.25


@dataclass(frozen=True)
class LayerSizes:
    """What decides the storage of a layer besides its options.

    Parameters
    ----------
    n_steps, n_batch, n_inputs, n_outputs
        Sizes.
    n_units
        Gates and candidates of a cell.
    n_kept
        Values that gradients need of a step, (batch, outputs) each.
    n_states
        Values that a step takes from the one before.
    element_bytes
        Bytes of an element.
    """

    n_steps: int
    n_batch: int
    n_inputs: int
    n_outputs: int
    n_units: int
    n_kept: int
    n_states: int
    element_bytes: int

    @classmethod
    def of(
        cls,
        n_steps: int,
        n_batch: int,
        n_inputs: int,
        n_outputs: int,
        kept: Mapping[str, int],
        n_states: int,
        element_bytes: int,
    ) -> LayerSizes:
        """Return those of a layer that keeps numbers of values of a step by name."""
        n_units = sum(n for name, n in kept.items() if name not in (STATES, BEFORE))
        n_kept, n_units = sum(kept.values()), max(1, n_units)
        return cls(n_steps, n_batch, n_inputs, n_outputs, n_units, n_kept, n_states, element_bytes)

    def tile_bytes(self, machine: Machine, n_values: int) -> int:
        """Return the bytes on a tile of so many values of a step, spread over all tiles."""
        grain = 8 // self.element_bytes
        n_grains = ceil(n_values * self.n_batch * self.n_outputs / grain)
        return ceil(n_grains / machine.n_tiles) * grain * self.element_bytes


@dataclass(frozen=True)
class Storage:
    """What a layer keeps, and when it adds up the gradients of its weights.

    Parameters
    ----------
    n_steps
        Steps of the layer.
    steps_per_checkpoint
        Steps of a stretch, which are computed again from the states before it; None if what
        gradients need is kept of all steps.
    steps_per_update
        Steps whose part of the gradients of weights is one product.
    is_interleaved
        Whether that is added within the loop of the backward pass instead of after it.
    """

    n_steps: int
    steps_per_checkpoint: int | None
    steps_per_update: int
    is_interleaved: bool

    @property
    def recomputes(self) -> bool:
        """Whether steps are computed again."""
        return self.steps_per_checkpoint is not None

    @property
    def chunk(self) -> int:
        """Steps whose gradients of sums are held at the same time."""
        return self.steps_per_update if self.is_interleaved else self.n_steps

    @property
    def stretch(self) -> int:
        """Steps of which what gradients need is held at the same time."""
        return self.steps_per_checkpoint or self.n_steps

    @property
    def n_stretches(self) -> int:
        """Stretches of all chunks."""
        n_chunks, rest = divmod(self.n_steps, self.chunk)
        return n_chunks * ceil(self.chunk / self.stretch) + ceil(rest / self.stretch)


def storage_of(machine: Machine, sizes: LayerSizes, options: RecurrentOptions) -> Storage:
    """Return the storage that the options of a layer ask for."""
    n_steps = sizes.n_steps
    per_update, is_interleaved = _update_steps(machine, sizes, options)
    if options.interleaves_update is not None:
        is_interleaved = options.interleaves_update
    return _with_stretches(Storage(n_steps, None, per_update, is_interleaved), options, sizes)


def _with_stretches(
    storage: Storage, options: RecurrentOptions, sizes: LayerSizes | None
) -> Storage:
    """Return a storage with the stretches that options ask for."""
    if options.recomputation_mode != "full":
        return storage
    stretch = options.steps_per_checkpoint
    if stretch is None:
        assert sizes is not None
        stretch = _stretch(sizes, storage.chunk)
    return replace(storage, steps_per_checkpoint=min(stretch, storage.chunk))


def explicit_storage(n_steps: int, options: RecurrentOptions) -> Storage:
    """Return the storage of options that state the steps of stretches and updates."""
    per_update = min(options.steps_per_update or n_steps, n_steps)
    is_interleaved = per_update < n_steps
    if options.interleaves_update is not None:
        is_interleaved = options.interleaves_update
    return _with_stretches(Storage(n_steps, None, per_update, is_interleaved), options, None)


def stored_tile_bytes(machine: Machine, sizes: LayerSizes, storage: Storage) -> int:
    """Return the bytes on a tile of what a layer keeps until its gradients are computed."""
    if storage.recomputes:
        return storage.n_stretches * sizes.tile_bytes(machine, sizes.n_states)
    return storage.n_steps * sizes.tile_bytes(machine, sizes.n_kept)


def _update_steps(
    machine: Machine, sizes: LayerSizes, options: RecurrentOptions
) -> tuple[int, bool]:
    """Return the steps of an update, and whether it is part of the backward pass's loop."""
    n_steps = sizes.n_steps
    if options.steps_per_update is not None:
        return min(options.steps_per_update, n_steps), options.steps_per_update < n_steps
    if not options.partial_updates:
        return 1, _is_interleaving_smaller(sizes)
    proportion = options.available_memory_proportion or UPDATE_PROPORTION
    available_bytes = int(machine.bytes_per_tile * proportion * _SUMS_PROPORTION)
    most_steps = available_bytes // sizes.tile_bytes(machine, sizes.n_units)
    if most_steps >= n_steps:
        return n_steps, False
    if most_steps == 0:
        return 1, _is_interleaving_smaller(sizes)
    least = ceil(n_steps / most_steps)
    equal = next((n for n in range(least, 2 * least) if n_steps % n == 0), None)
    return (ceil(n_steps / least) if equal is None else n_steps // equal), True


def separate_update_steps(n_steps: int, options: RecurrentOptions) -> int:
    """Return the steps of a product of an update after the loop, which holds all sums anyway."""
    if options.steps_per_update is not None:
        return min(options.steps_per_update, n_steps)
    return n_steps if options.partial_updates else 1


def _is_interleaving_smaller(sizes: LayerSizes) -> bool:
    """Return whether transposed weights take less memory than the gradients of all sums.

    With updates in the loop of the backward pass, it is those that are held beside the gradients of
    the weights.
    """
    n_weights = (sizes.n_inputs + sizes.n_outputs) * sizes.n_outputs * sizes.n_units
    n_sums = sizes.n_batch * sizes.n_outputs * sizes.n_units * sizes.n_steps
    return n_weights <= n_sums


def _stretch(sizes: LayerSizes, chunk: int) -> int:
    """Return the steps of a stretch for which checkpoints and one stretch take the least memory."""

    def held(n: int) -> int:
        n_stretches = ceil(sizes.n_steps / chunk) * ceil(chunk / n)
        return sizes.n_states * n_stretches + sizes.n_kept * n

    best = min(range(1, chunk + 1), key=held)
    equal = min((n for n in range(1, chunk + 1) if chunk % n == 0), key=held)
    return equal if held(equal) <= _EQUAL_WORTH * held(best) else best


def each_chunk(
    builder: Builder,
    storage: Storage,
    build: Callable[[Builder, Span], None],
    *,
    is_descending: bool,
) -> None:
    """Add the program of every chunk: of all steps at once, or of those of an update."""
    whole = Span(storage.n_steps)
    each_span(builder, whole, storage.chunk, build, is_descending=is_descending)


def each_stretch(
    builder: Builder,
    storage: Storage,
    chunk: Span,
    build: Callable[[Builder, Span], None],
    *,
    is_descending: bool,
) -> None:
    """Add the program of every stretch of a chunk."""
    each_span(builder, chunk, storage.stretch, build, is_descending=is_descending)
