"""Steps of training on the machine: micro-batches in, outputs of every micro-batch out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tests.torch.compared import compiled

from tilescope.engine.ir import Model
from tilescope.engine.options import resolve
from tilescope.engine.session.compiled_model import CompiledModel
from tilescope.engine.session.engine import Engine

__all__ = ["Steps", "graph_file", "trained"]

Array = np.ndarray[Any, np.dtype[Any]]
#: As `tests.torch.compared.case`: operator type, inputs, outputs, attributes.
Nodes = Sequence[tuple[Any, ...]]


class Steps:
    """Runs steps of a model."""

    def __init__(self, program: CompiledModel, engine: Engine) -> None:
        self.program, self.engine = program, engine

    def step(self, batches: Sequence[Mapping[str, Array]]) -> dict[str, list[Array]]:
        """Run a step and return the outputs of its micro-batches by name."""
        outputs: defaultdict[str, list[Array]] = defaultdict(list)
        for value in self.program.model.inputs:
            rows = iter([batch[value.name] for batch in batches])
            self.engine.connect_stream(value.name, rows.__next__)
        for name, _ in self.program.model.outputs:
            self.engine.connect_stream(
                name, lambda array, name=name: outputs[name].append(np.array(array))
            )
        self.engine.run(0)
        for name, value in self.program.model.outputs:
            if value.known is not None:  # folded: the device computes nothing
                outputs[name] += [np.asarray(value.known)] * len(batches)
        return outputs

    def held(self) -> dict[str, Array]:
        """Return what the device holds, by name."""
        return self.program.read_held(self.engine)


@contextmanager
def trained(model: Model) -> Iterator[Steps]:
    """Compile a model and give what runs its steps."""
    program = compiled(model)
    with Engine(program.executable, resolve(environ={})) as engine:
        engine.load()
        yield Steps(program, engine)


def graph_file(  # parts of a graph
    path: Any,
    nodes: Nodes,
    inputs: Mapping[str, Sequence[int]],
    outputs: Mapping[str, Sequence[int]],
    initializers: Mapping[str, Array],
    opset: int = 17,
) -> Any:
    """Write a graph of float inputs and outputs, and return its path."""
    built = [
        helper.make_node(kind, taken.split(","), given.split(","), name=f"n{i}", **dict(*rest))
        for i, (kind, taken, given, *rest) in enumerate(nodes)
    ]
    graph = helper.make_graph(
        built,
        "graph",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in initializers.items()],
    )
    opsets = [helper.make_opsetid("", opset)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    return path
