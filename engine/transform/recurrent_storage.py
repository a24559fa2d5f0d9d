"""What recurrent layers keep for their gradients: values of every step, or checkpoints, by memory.

A layer keeps what gradients need of every step while all layers together keep to a share of tile
memory, and states every few steps otherwise. Its steps are then computed again, with the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tilescope.engine.ir import Model, Operation, Value
from tilescope.engine.library.popnn.recurrent.storage import (
    LayerSizes,
    Storage,
    storage_of,
    stored_tile_bytes,
)
from tilescope.engine.library.recurrent_options import RecurrentOptions
from tilescope.engine.machine import Machine
from tilescope.engine.notice import Notice
from tilescope.engine.operators.recurrent.stored import gradients_by_layer, with_storage
from tilescope.engine.operators.recurrent.training import RECOMPUTES, layer_sizes

__all__ = ["LayerStorage", "layer_storages", "store_layers"]


@dataclass(frozen=True)
class LayerStorage:
    """What a layer keeps, and why.

    Parameters
    ----------
    storage
        Its stretches and updates.
    tile_bytes
        What it keeps on a tile.
    every_step_bytes
        The same if it kept the values of every step.
    reason
        Why it does not, as the end of a sentence; empty if it does.
    """

    storage: Storage
    tile_bytes: int
    every_step_bytes: int
    reason: str = ""

    def options(self, given: RecurrentOptions) -> RecurrentOptions:
        """Return the options of a layer that has this storage."""
        return replace(
            given,
            recomputation_mode="full" if self.storage.recomputes else "none",
            steps_per_checkpoint=self.storage.steps_per_checkpoint,
            steps_per_update=self.storage.steps_per_update,
            interleaves_update=self.storage.is_interleaved,
        )


def layer_storages(model: Model, machine: Machine, share: float) -> dict[Operation, LayerStorage]:
    """Return what every layer with gradients keeps.

    Parameters
    ----------
    model
        With its backward pass.
    machine
        Whose memory decides.
    share
        Of a tile's memory for what all layers keep, 0 to 1.
    """
    layers = gradients_by_layer(model.operations)
    kept = {layer: _every_step(layer, machine, len(found) > 1) for layer, found in layers.items()}
    again = {layer: _again(layer, machine, kept[layer]) for layer in layers}
    for layer, storage in again.items():
        if storage is not None and layer.attributes.get(RECOMPUTES):
            kept[layer] = replace(storage, reason="recomputation was asked for")
    available = int(share * machine.allocatable_bytes)
    for layer, storage in again.items():
        own = layer.attributes["options"].available_memory_proportion
        limit = None if own is None else int(own * machine.allocatable_bytes)
        is_over = limit is not None and kept[layer].tile_bytes > limit
        if storage is not None and is_over and _decides(layer):
            kept[layer] = replace(storage, reason=f"the layer may take {limit:,}")
    while sum(storage.tile_bytes for storage in kept.values()) > available:
        saved = {
            layer: kept[layer].tile_bytes - storage.tile_bytes
            for layer, storage in again.items()
            if storage is not None and _decides(layer) and not kept[layer].storage.recomputes
        }
        most = max(saved, key=saved.__getitem__, default=None)
        if most is None:
            break
        storage = again[most]
        assert storage is not None
        reason = f"all layers may take {available:,}"
        kept[most] = replace(storage, reason=reason)
    return kept


def _decides(layer: Operation) -> bool:
    """Return whether memory decides what a layer keeps."""
    return layer.attributes.get(RECOMPUTES) is None


def _every_step(layer: Operation, machine: Machine, has_update: bool) -> LayerStorage:
    """Return the storage of the values of every step."""
    sizes = layer_sizes(layer)
    options = replace(layer.attributes["options"], recomputation_mode="none")
    storage = storage_of(machine, sizes, options)
    if not has_update:
        storage = Storage(sizes.n_steps, None, sizes.n_steps, is_interleaved=False)
    n_bytes = stored_tile_bytes(machine, sizes, storage)
    return LayerStorage(storage, n_bytes, n_bytes)


def _again(layer: Operation, machine: Machine, kept: LayerStorage) -> LayerStorage | None:
    """Return the storage of checkpoints; None where that takes no less memory."""
    sizes: LayerSizes = layer_sizes(layer)
    if layer.attributes["kind"] == "RNN":
        return None
    update = kept.storage
    options = replace(
        layer.attributes["options"],
        recomputation_mode="full",
        steps_per_update=update.steps_per_update,
        interleaves_update=update.is_interleaved,
    )
    storage = storage_of(machine, sizes, options)
    n_bytes = stored_tile_bytes(machine, sizes, storage)
    stretch_bytes = storage.stretch * sizes.tile_bytes(machine, sizes.n_kept)
    if n_bytes + stretch_bytes >= kept.tile_bytes:
        return None
    return LayerStorage(storage, n_bytes, kept.tile_bytes)


def store_layers(model: Model, machine: Machine, share: float) -> Model:
    """Return the model with recurrent layers that keep what memory allows.

    Parameters
    ----------
    model, machine, share
        As for `layer_storages`.
    """
    storages = layer_storages(model, machine, share)
    if not storages:
        return model
    options = {
        layer: storage.options(layer.attributes["options"]) for layer, storage in storages.items()
    }
    operations = with_storage(model.operations, options, _readers(model))
    notices = (*model.notices, *_sentences([*storages.items()]))
    return replace(model, operations=tuple(operations), notices=notices)


def _readers(model: Model) -> dict[Value, list[Operation | None]]:
    """Return the operations that read a value, by value, and None where the model returns it."""
    readers: dict[Value, list[Operation | None]] = {}
    for operation in model.operations:
        captured = [v for region in operation.regions.values() for v in region.captured]
        for value in (*operation.operands, *captured):
            readers.setdefault(value, []).append(operation)
    for value in (*(v for _, v in model.outputs), *(update.value for update in model.updates)):
        readers.setdefault(value, []).append(None)
    return readers


def _sentences(storages: Sequence[tuple[Operation, LayerStorage]]) -> list[Notice]:
    """Return a sentence for every layer whose steps are computed again."""
    return [
        Notice(
            "info",
            "recurrent_storage",
            f"The layer {layer.name[:80]!r} keeps its states every"
            f" {storage.storage.stretch:,} of {storage.storage.n_steps:,} steps"
            f" ({storage.tile_bytes:,} bytes on a tile) and computes the steps again for its"
            f" gradients. The values of all steps would take {storage.every_step_bytes:,} bytes on"
            f" a tile: {storage.reason}.",
        )
        for layer, storage in storages
        if storage.storage.recomputes
    ]
