"""Host memory: values of a model that live at different steps share it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tilescope.engine import Engine, compile_model, load_machine, resolve_options
from tilescope.engine.errors import BadGraph
from tilescope.engine.execute.host_arenas import HostLayout
from tilescope.engine.execute.storage import coalesce
from tilescope.engine.execute.trace import trace_of
from tilescope.engine.graph import Tensor, Variable
from tilescope.engine.ir import IrBuilder
from tilescope.engine.operators import OPERATORS
from tilescope.engine.session.compiled_model import CompiledModel

NO_OPTIONS = resolve_options(environ={})
N_LAYERS = 8


def layers() -> tuple[list[np.ndarray], CompiledModel]:
    """Return the weights of a chain of products with relu, and the model."""
    random = np.random.default_rng(1)
    weights = [random.standard_normal((64, 64)).astype(np.float32) / 8 for _ in range(N_LAYERS)]
    builder = IrBuilder("layers")
    value = builder.input("x", (128, 64), "float32")
    for i, weight in enumerate(weights):
        constant = builder.constant(weight, f"w{i}")
        value = builder.emit(OPERATORS["MatMul"], [value, constant], name=f"mm{i}", source="MatMul")
        value = builder.emit(OPERATORS["Relu"], [value], name=f"relu{i}", source="Relu")
    model = builder.finish([("y", value)])
    return weights, compile_model(model, load_machine("gc200", tiles_per_ipu=16))


def whole(variable: Variable) -> Tensor:
    return Tensor(variable, 0, (((variable.n_elements, 1),),))


def test_values_that_overlap_are_never_live_at_one_step() -> None:
    """Unless a copy connects them, which is not made."""
    _, compiled = layers()
    graph = compiled.executable.graph
    storage = coalesce(replace(trace_of(compiled.executable), copies=()))
    layout = HostLayout.of(graph, storage)
    positions = []
    for value in storage.values:
        begin = layout.base_at(value.variable, value.lives[0][0])
        steps = {step for start, end in value.lives for step in range(start, min(end, 1000))}
        positions.append((begin, begin + graph.variables[value.variable].n_elements, steps))
    n_overlapping = 0
    for i, (begin, end, steps) in enumerate(positions):
        for other_begin, other_end, other_steps in positions[:i]:
            if begin < other_end and other_begin < end:
                n_overlapping += 1
                assert not steps & other_steps
    assert n_overlapping > N_LAYERS
    assert layout.sizes["float32"] < sum(end - begin for begin, end, _ in positions) * 0.7


def test_nothing_is_read_of_what_shared_memory_held_before() -> None:
    weights, compiled = layers()
    values = np.random.default_rng(2).standard_normal((128, 64)).astype(np.float32)
    expected = values.astype(np.float64)
    for weight in weights:
        expected = np.maximum(expected @ weight, 0)
    with Engine(compiled.executable, NO_OPTIONS) as device:
        device.load()
        memory = device._replicas[0].memory
        for arena in memory.arenas.values():
            arena[:] = np.nan
        for variable in compiled.executable.graph.variables:
            if variable.values is not None:
                memory.flat(variable)[:] = variable.values
        for _ in range(2):
            actual = compiled.run(device, {"x": values})["y"]
            np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)


def test_values_that_are_not_kept_are_neither_read_nor_written() -> None:
    weights, compiled = layers()
    by_name = {variable.name: variable for variable in compiled.executable.graph.variables}
    gone = whole(by_name["mm1/matmul/out"])
    with Engine(compiled.executable, NO_OPTIONS) as device:
        with pytest.raises(BadGraph, match="'mm1/matmul/out' are not kept"):
            device.read_tensor(gone)
        with pytest.raises(BadGraph, match="are not kept"):
            device.write_tensor(gone, np.zeros(gone.n_elements))
        selected = device.read_tensor(whole(by_name["mm0/matmul/weights"]))
    assert np.array_equal(np.sort(selected), np.sort(weights[0].ravel()))


def n_copies(compiled: CompiledModel) -> tuple[int, int]:
    """Return the batches of copies in the program, and the launches of copies on the host."""
    steps = [step for step in compiled.executable.steps if step.compute_set is not None]
    in_program = sum(
        batch.codelet.is_copy
        for step in steps
        if step.compute_set is not None
        for batch in step.compute_set.batches
    )
    with Engine(compiled.executable, NO_OPTIONS) as device:
        device.load()
        names = [
            launch.codelet_name for x in steps for launch in device._replicas[0].plan.launches(x)
        ]
    return in_program, names.count("poplar::Memcpy") + names.count("poplar::StridedCopy")


def test_arguments_and_results_of_shared_functions_are_not_copied_on_the_host() -> None:
    _, compiled = layers()
    in_program, on_host = n_copies(compiled)
    assert in_program >= N_LAYERS, "layers share one function, and its arguments are copied"
    assert on_host == 0
