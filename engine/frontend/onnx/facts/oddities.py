"""What is odd about a model that runs all the same."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from tilescope.engine.frontend.onnx.nodes.counts import Counts
from tilescope.engine.frontend.onnx.source.tensor_types import check_output
from tilescope.engine.ir import Operation, Value
from tilescope.engine.ir.model import walk
from tilescope.engine.notice import Notice

__all__ = ["oddities"]


def oddities(
    graph: onnx.GraphProto,
    operations: Sequence[Operation],
    outputs: Sequence[Value],
    counts: Counts,
    assumed_ones: Sequence[str],
) -> tuple[Notice, ...]:
    """Return what is odd about a model, after its import.

    Parameters
    ----------
    graph
        Of the file.
    operations, outputs
        What it was imported as.
    counts
        Of the values whose number of entries data decide.
    assumed_ones
        Inputs whose first dimension was taken as 1.

    Raises
    ------
    BadModel
        When an output has another type than it declares.
    """
    pairs = zip(graph.output, outputs, strict=True)
    shapes = [check_output(info, v, assumed_ones, counts.axis(v)) for info, v in pairs]
    regions = (r for operation in walk(tuple(operations)) for r in operation.regions.values())
    branches = [
        f"{region.error}; a run that takes this branch ends with an error"
        for region in regions
        if region.error
    ]
    return (
        *(Notice("warning", "failing_branch", text) for text in branches),
        *(Notice("warning", "output_shape", text) for text in shapes if text),
    )
