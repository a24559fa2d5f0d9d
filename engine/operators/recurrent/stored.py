"""Layers of a model with another storage: what they keep, and when their weights are updated."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from tilescope.engine.ir import Operation, Value
from tilescope.engine.library.recurrent_options import RecurrentOptions
from tilescope.engine.operators.recurrent.training import (
    LAYER,
    LAYER_GRADIENT,
    N_GRADIENT_OPERANDS,
    N_OPERANDS,
    WEIGHT_GRADIENT,
    stored_types,
)

__all__ = ["gradients_by_layer", "with_storage"]


def gradients_by_layer(operations: Sequence[Operation]) -> dict[Operation, list[Operation]]:
    """Return the gradients of every layer that has any: of data first, of weights second."""
    layers = {op.outputs[0]: op for op in operations if op.operator is LAYER}
    found: dict[Operation, list[Operation]] = {}
    for operation in operations:
        if operation.operator in (LAYER_GRADIENT, WEIGHT_GRADIENT):
            is_of_weights = operation.operator is WEIGHT_GRADIENT
            outputs = operation.inputs[N_OPERANDS if is_of_weights else N_GRADIENT_OPERANDS - 2]
            found.setdefault(layers[outputs], []).append(operation)
    return {layer: found[layer] for layer in layers.values() if layer in found}


def with_storage(
    operations: Sequence[Operation],
    options: Mapping[Operation, RecurrentOptions],
    readers: Mapping[Value, Collection[Operation | None]],
) -> list[Operation]:
    """Return operations with layers, and their gradients, that store what options say.

    Gradients of weights become part of those of data where that is computed again, or where they
    are added up within its loop.

    Parameters
    ----------
    operations
        Of a model.
    options
        By layer, with the steps of an update and of a stretch.
    readers
        By value, the operations that read it, and None where the model returns it. Results that
        nothing reads are left out.
    """
    changed: dict[Operation, Operation | None] = {}
    for layer, gradients in gradients_by_layer(operations).items():
        changed |= _layer_with_storage(layer, gradients, options[layer], readers)
    every = (changed.get(operation, operation) for operation in operations)
    return [operation for operation in every if operation is not None]


def _layer_with_storage(
    layer: Operation,
    gradients: Sequence[Operation],
    options: RecurrentOptions,
    readers: Mapping[Value, Collection[Operation | None]],
) -> dict[Operation, Operation | None]:
    """Return what replaces a layer and its gradients; None for what becomes part of another."""
    n_before = len(layer.outputs) - len(stored_types(layer))
    outputs, *states = layer.outputs[:n_before]
    assert outputs is not None
    stored: Sequence[Value | None] = layer.outputs[n_before:]
    of_data, *of_weights = gradients
    given = [*of_data.inputs[:N_GRADIENT_OPERANDS]]
    own = options
    if options.recomputation_mode == "full":
        # Outputs are computed again, too.
        given[N_GRADIENT_OPERANDS - 2] = None
        if set(readers[outputs]) <= {*gradients}:
            own = replace(options, full_sequence=False)
        types = stored_types(replace(layer, attributes={**layer.attributes, "options": options}))
        stored = [Value(f"{outputs.name}/{part}", *kind) for part, kind in types.items()]
    changed: dict[Operation, Operation | None] = {
        layer: replace(
            layer,
            attributes={**layer.attributes, "options": own},
            outputs=(outputs if own.full_sequence else None, *states, *stored),
        )
    }
    for operation in of_weights:
        changed[operation] = replace(
            operation, attributes={**operation.attributes, "options": options}
        )
    results = [value if value in readers else None for value in of_data.outputs]
    is_joined = options.recomputation_mode == "full" or bool(options.interleaves_update)
    if of_weights and is_joined:
        (update,) = of_weights
        changed[update] = None
        # Nothing else reads the gradients of sums.
        sums = set(update.inputs)
        results = [None if value in sums else value for value in results]
        results += [value if value in readers else None for value in update.outputs]
    changed[of_data] = replace(
        of_data,
        attributes={
            **of_data.attributes,
            "options": options,
            "with_weights": bool(of_weights) and is_joined,
        },
        inputs=(*given, *stored),
        outputs=tuple(results),
    )
    return changed
