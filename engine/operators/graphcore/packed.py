"""PopART's block of packed sequences: a subgraph over sequences that lie behind one another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import Expansion, Node, Value
from tilescope.engine.operators.graphcore.domain import as_type, decomposed
from tilescope.engine.operators.graphcore.slices import SEQUENCE_SLICE
from tilescope.engine.operators.movement.layout import reshape
from tilescope.engine.operators.movement.slicing import along

__all__ = ["RECORDS"]

#: Operands of a packed tensor, its offsets and lengths; the last two are those of the result.
_PER_TENSOR, _OF_RESULT = 3, 2


def _packed_data_block(node: Node, expansion: Expansion) -> Value:
    """Emit the subgraph over batches of padded sequences; what it returns is packed again.

    Raises
    ------
    BadModel
        When the numbers of operands, sequences and subgraph's inputs do not fit.
    """
    body, n_batch = node.regions["callback"], node.attributes["callbackBatchSize"]
    largest = tuple(node.attributes["maxSequenceLengths"])
    operands = [node.operand(i) for i in range(len(node.inputs))]
    runs = [
        value
        if i % _PER_TENSOR == 0 and i < len(operands) - _OF_RESULT
        else as_type(expansion, value, "int32")
        for i, value in enumerate(operands)
    ]
    n_tensors = len(body.inputs)
    counts = {value.shape for i, value in enumerate(operands) if i >= n_tensors * _PER_TENSOR}
    n_sequences = operands[-1].shape[0] if operands and operands[-1].shape else 0
    if (
        len(operands) != n_tensors * _PER_TENSOR + _OF_RESULT
        or len(largest) != n_tensors
        or counts != {(n_sequences,)}
        or n_batch < 1
        or n_sequences % n_batch
    ):
        raise BadModel(
            f"{node}: {len(operands)} operands, {len(largest)} sequence lengths and {n_sequences}"
            f" sequences in batches of {n_batch} do not fit a subgraph of {n_tensors} inputs:"
            " expected a tensor, offsets and lengths for every input, offsets and lengths of the"
            " result, and whole batches"
        )
    (returned,) = body.outputs
    shape = (node.attributes["resultSize"], *returned.shape[2:])
    packed: Value = expansion.constant(np.zeros(shape, returned.dtype), "result")
    padded_places = _starts(expansion, n_batch, returned.shape[1])
    for first in range(0, n_sequences, n_batch):
        batch = [_batch(expansion, run, first, n_batch) for run in runs[-_OF_RESULT:]]
        padded = [
            _unpacked(expansion, operands, runs, i, first, (n_batch, length))
            for i, length in enumerate(largest)
        ]
        (result,) = expansion.inline(body, *padded)
        rows = reshape(expansion, result, (n_batch * result.shape[1], *result.shape[2:]))
        packed = expansion.emit(
            SEQUENCE_SLICE, rows, packed, batch[1], padded_places, batch[0], is_cleared=False
        )
    return packed


def _unpacked(
    expansion: Expansion,
    operands: Sequence[Value],
    runs: Sequence[Value],
    tensor: int,
    first: int,
    sizes: tuple[int, int],
) -> Value:
    """Emit a batch of sequences, each followed by zeros: shape (batch, longest, …)."""
    place, (n_batch, length) = tensor * _PER_TENSOR, sizes
    data = operands[place]
    zeros = expansion.constant(np.zeros((n_batch * length, *data.shape[1:]), data.dtype), "padding")
    offsets, lengths = (_batch(expansion, runs[place + k], first, n_batch) for k in (1, 2))
    starts = _starts(expansion, n_batch, length)
    rows = expansion.emit(SEQUENCE_SLICE, data, zeros, lengths, offsets, starts, is_cleared=True)
    return reshape(expansion, rows, (n_batch, length, *data.shape[1:]))


def _batch(expansion: Expansion, runs: Value, first: int, count: int) -> Value:
    return along(expansion, runs, 0, first, first + count)


def _starts(expansion: Expansion, count: int, length: int) -> Value:
    """Return the first rows of sequences of one length."""
    return expansion.constant(np.arange(count, dtype=np.int32) * length, "starts")


RECORDS = (decomposed("PackedDataBlock", _packed_data_block),)
