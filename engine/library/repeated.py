"""Library calls whose steps are added again, on variables of their own, for equal calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph import DType, Stage, Tensor, Variable, VertexBatch
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.vertex_memo import on_variables

__all__ = ["repeated"]

#: Starts and tiles of a variable's intervals.
Mapping = tuple[NDArray[np.int64], NDArray[np.int32]]


@dataclass(frozen=True)
class _AddedVariable:
    """A variable as the first call left it, with its name within the call."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    mapping: Mapping


@dataclass(frozen=True)
class _AddedComputeSet:
    """A compute set of the first call, with its name within the call and its stage of the plan."""

    name: str
    stage: Stage
    stage_index: int
    batches: tuple[VertexBatch, ...]


@dataclass(frozen=True)
class _Call:
    """What a call added to the graph.

    Parameters
    ----------
    variables
        Of its operands, then those it added.
    mappings
        Of the operands' variables that it mapped, by their index.
    result
        A view on the last variable that it added.
    """

    variables: tuple[Variable, ...]
    mappings: dict[int, Mapping]
    added: tuple[_AddedVariable, ...]
    compute_sets: tuple[_AddedComputeSet, ...]
    result: Tensor

    @classmethod
    def recorded(
        cls, builder: Builder, operands: Sequence[Variable], add: Callable[[], Tensor]
    ) -> _Call:
        """Add the steps of a call, and return what it added."""
        graph, sequence = builder.graph, builder.sequence
        n_variables, n_sets = len(graph.variables), len(graph.compute_sets)
        n_programs = len(sequence.children)
        unmapped = [i for i, v in enumerate(operands) if not v.is_mapped]
        result = add()
        variables, sets = graph.variables[n_variables:], graph.compute_sets[n_sets:]
        assert len(sequence.children) - n_programs == len(sets), "the call only runs compute sets"
        assert result.variable is variables[-1], "the call returns what it added last"
        return cls(
            (*operands, *variables),
            {i: _mapping(operands[i]) for i in unmapped},
            tuple(
                _AddedVariable(_local(builder, v.name), v.dtype, v.shape, _mapping(v))
                for v in variables
            ),
            tuple(
                _AddedComputeSet(
                    _local(builder, one.name),
                    one.plan_stage.stage if one.plan_stage else Stage.REARRANGE,
                    one.plan_stage.index if one.plan_stage else 0,
                    tuple(one.batches),
                )
                for one in sets
            ),
            result,
        )

    def add_again(self, builder: Builder, operands: Sequence[Variable]) -> Tensor:
        """Add the steps on other operands and on new variables; return the result."""
        graph = builder.graph
        now = [*operands]
        for i, mapping in self.mappings.items():
            now[i].map_start, now[i].map_tile = mapping
        for one in self.added:
            new = graph.add_variable(one.dtype, one.shape, one.name, builder.debug).variable
            new.map_start, new.map_tile = one.mapping
            now.append(new)
        variables = dict(zip(self.variables, now, strict=True))
        for step in self.compute_sets:
            compute_set = builder.compute_set(step.name, step.stage, step.stage_index)
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
    found: _Call | None = calls.get(whole_key)
    if found is not None:
        return found.add_again(builder, variables)
    made = _Call.recorded(builder, variables, add)
    if all(v.is_mapped for v in made.variables):
        calls[whole_key] = made
    return made.result


def _mapping(variable: Variable) -> Mapping:
    return variable.map_start, variable.map_tile


def _local(builder: Builder, name: str) -> str:
    """Return a name without that of the builder's context."""
    return name.removeprefix(builder.debug.join("x")[:-1])
