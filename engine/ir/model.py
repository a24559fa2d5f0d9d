"""The model: operations in an order in which they can run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from numpy.typing import NDArray

from tilescope.engine.ir.location import Locations
from tilescope.engine.ir.operation import Operation
from tilescope.engine.ir.parts import WHOLE_BATCH, BatchParts
from tilescope.engine.ir.training import Recomputation, Training
from tilescope.engine.ir.value import Parameter, State, Update, Value
from tilescope.engine.notice import Notice

__all__ = ["PRECISIONS", "Count", "Model", "read_from_outside", "walk"]

#: What a model of floats may be computed in.
PRECISIONS = ("float", "half")


@dataclass(frozen=True)
class Count:
    """How many entries of an output count, which data decide.

    Parameters
    ----------
    axis
        Axis of the output along which only the first entries count.
    output
        Name of the output that holds their number.
    """

    axis: int
    output: str


@dataclass(frozen=True)
class Model:
    """An operator graph.

    Parameters
    ----------
    inputs
        What a run takes.
    outputs
        What a run returns, by name.
    operations
        In an order in which they can run.
    assumed_ones
        Names of inputs whose first dimension has no size in the model and was taken as 1.
    data
        Contents of all inputs by name, on the device before a run; then nothing is copied from and
        to the host. None if the host provides inputs and takes outputs.
    counts
        Of the outputs whose number of entries data decide, by name. The outputs that hold the
        numbers are the engine's, not the model's.
    notices
        What is odd about the model, though it runs.
    opset
        Version of ONNX's operators in the file; 0 for a model that is from none.
    front_end
        Who built it: the layer of its operations in a report.
    updates
        Of held values, after the operations.
    n_rounds
        Times that a run does operations and updates, each with inputs and outputs of their own:
        the micro-batches whose gradients are summed.
    training
        How it is trained, until the backward pass is part of the operations; None for inference.
    closing, closing_updates
        Operations that follow the rounds, and updates after them. They read held values only.
    recomputation
        What of the forward pass is to be computed again, from the backward pass being part of the
        operations until that is, too.
    counts_overflows
        Whether values beyond half are to be counted, likewise.
    is_pipelined
        Whether the rounds are the micro-batches of a pipeline: operations have stages, and stages
        of several rounds run at a time.
    batch_parts
        In how many parts of the batch the operations are to run, until they are on parts.
    locations
        Where values are kept: what is not on the tiles is loaded and stored by operations once the
        passes have placed them.
    """

    name: str
    inputs: tuple[Value, ...]
    outputs: tuple[tuple[str, Value], ...]
    operations: tuple[Operation, ...]
    assumed_ones: tuple[str, ...] = ()
    data: Mapping[str, NDArray[Any]] | None = None
    counts: Mapping[str, Count] = field(default_factory=dict)
    notices: tuple[Notice, ...] = ()
    opset: int = 0
    front_end: str = "model"
    updates: tuple[Update, ...] = ()
    n_rounds: int = 1
    training: Training | None = None
    closing: tuple[Operation, ...] = ()
    closing_updates: tuple[Update, ...] = ()
    recomputation: Recomputation | None = None
    counts_overflows: bool = False
    is_pipelined: bool = False
    batch_parts: BatchParts = WHOLE_BATCH
    locations: Locations = field(default_factory=Locations)

    @property
    def interface(self) -> Model:
        """What a run takes and returns, without operations, so that no weights stay in memory."""
        return replace(self, operations=(), updates=(), closing=(), closing_updates=())

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters that operations or outputs use, in the order of their first use."""
        return tuple(value for value in self._used if isinstance(value, Parameter))

    @property
    def held(self) -> tuple[Parameter | State, ...]:
        """The values that the device holds, in the order of their first use."""
        return tuple(
            value for value in self._used if isinstance(value, Parameter | State) and value.is_held
        )

    @property
    def _used(self) -> Iterable[Value]:
        """What operations, outputs and updates use, in the order of their first use."""
        used: list[Value] = []
        for operation in walk((*self.operations, *self.closing)):
            used += operation.operands
            used += [value for region in operation.regions.values() for value in region.outputs]
        used += [value for _, value in self.outputs]
        for update in (*self.updates, *self.closing_updates):
            used += [update.value, update.held]
        return dict.fromkeys(used)


def walk(operations: tuple[Operation, ...]) -> Iterator[Operation]:
    """Return operations and, after each, those in its regions."""
    for operation in operations:
        yield operation
        for region in operation.regions.values():
            yield from walk(region.operations)


def read_from_outside(operation: Operation) -> list[Value]:
    """Return what an operation reads, each value once: operands, and what its regions read.

    Of what regions read, those values are left out that they compute themselves. A held value that
    they read is among the rest, though a region does not capture it.
    """
    read = [*operation.operands]
    for region in operation.regions.values():
        inside = [value for inner in walk(region.operations) for value in inner.operands]
        read += region.captured
        read += [value for value in (*inside, *region.outputs) if value.is_held]
    return list(dict.fromkeys(read))
