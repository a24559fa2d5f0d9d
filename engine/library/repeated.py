"""Library calls whose steps are added again, on variables of their own, for equal calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph import ComputeSet, Tensor, Variable
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.vertex_memo import on_variables

__all__ = ["repeated"]

#: Starts and tiles of a variable's intervals.
Mapping = tuple[NDArray[np.int64], NDArray[np.int32]]


@dataclass(frozen=True)
class _Call:
    """What a call added to the graph.

    Parameters
    ----------
    context
        What the names of its variables and compute sets begin with.
    variables
        Of its operands, then those it added.
    mappings
        Of the variables that it mapped, by their index; the variables may be mapped anew later.
    compute_sets
        With their batches.
    result
        A view on the last variable.
    """

    context: str
    variables: tuple[Variable, ...]
    mappings: dict[int, Mapping]
    compute_sets: tuple[ComputeSet, ...]
    result: Tensor

    @classmethod
    def recorded(
        cls, builder: Builder, operands: Sequence[Variable], add: Callable[[], Tensor]
    ) -> _Call:
        """Add the steps of a call, and return what it added."""
        graph, sequence = builder.graph, builder.sequence
        n_variables, n_sets = len(graph.variables), len(graph.compute_sets)
        n_programs = len(sequence.children)
        unmapped = [not variable.is_mapped for variable in operands]
        result = add()
        added, sets = graph.variables[n_variables:], graph.compute_sets[n_sets:]
        assert len(sequence.children) - n_programs == len(sets), "the call only runs compute sets"
        assert result.variable is added[-1], "the call returns what it added last"
        variables = *operands, *added
        mapped = [i for i in range(len(variables)) if i >= len(operands) or unmapped[i]]
        mappings = {i: (variables[i].map_start, variables[i].map_tile) for i in mapped}
        return cls(builder.debug.join("x")[:-1], variables, mappings, tuple(sets), result)

    def add_again(self, builder: Builder, operands: Sequence[Variable]) -> Tensor:
        """Add the steps on other operands and on new variables; return the result."""
        now = [*operands]
        for before in self.variables[len(operands) :]:
            name = before.name.removeprefix(self.context)
            result = builder.graph.add_variable(before.dtype, before.shape, name, builder.debug)
            now.append(result.variable)
        for i, mapping in self.mappings.items():
            now[i].map_start, now[i].map_tile = mapping
        variables = dict(zip(self.variables, now, strict=True))
        for step in self.compute_sets:
            planned = (
                () if step.plan_stage is None else (step.plan_stage.stage, step.plan_stage.index)
            )
            compute_set = builder.compute_set(step.name.removeprefix(self.context), *planned)
            for batch in step.batches:
                compute_set.add(on_variables(batch, variables))
        return Tensor(now[-1], self.result.offset, self.result.dims)


def repeated(
    builder: Builder, key: tuple[Any, ...], operands: Sequence[Tensor], add: Callable[[], Tensor]
) -> Tensor:
    """Add the steps of a call: those of an equal one on this graph, if there was one.

    Parameters
    ----------
    builder
        Target of the steps.
    key
        What decides the steps beside the operands' types, views and whether they are mapped.
    operands
        Tensors that the steps use. Their tile mappings decide nothing unless they are in the key.
    add
        Adds mapped variables and compute sets to `builder`, maps operands that are not mapped, and
        does nothing else; returns a view on the last variable.
    """
    variables = [*dict.fromkeys(operand.variable for operand in operands)]
    if any(v.partial_mapping for v in variables):
        return add()  # what is mapped already decides the rest of the mapping
    views = [(variables.index(x.variable), x.offset, x.dims) for x in operands]
    kinds = [(v.dtype.name, v.n_elements, v.is_mapped) for v in variables]
    whole_key = (*key, builder.tiles, builder.plan_id is None, *views, *kinds)
    calls = builder.graph.steps_of_calls
    call: _Call | None = calls.get(whole_key)
    if call is not None:
        return call.add_again(builder, variables)
    call_ = _Call.recorded(builder, variables, add)
    if all(v.is_mapped for v in call_.variables):
        calls[whole_key] = call_
    return call_.result
