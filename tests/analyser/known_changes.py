"""Known changes of a program, each as two reports that the engine wrote: a baseline and one more.

All but four change one of two small models, or how it is compiled; the last four a program of
the graph API.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from tilescope import engine
from tilescope.engine.frontend.onnx.onnx_file import OnnxFile
from tilescope.engine.frontend.source_model import Setup
from tilescope.engine.graph import blocks
from tilescope.engine.options import resolve
from tilescope.engine.program import Copy, Execute, Sequence, StreamCopyIn, StreamCopyOut
from tilescope.engine.session.model_run import run_model

__all__ = ["CHANGES", "Change", "ModelChange"]

SHARE = "convolutionOptions.availableMemoryProportion"


@dataclass(frozen=True)
class Change:
    """A change with what the diff says of it.

    ``write`` writes the report of the candidate into a directory, ``base`` that of the baseline.
    ``metric`` moves, and is empty if none may. The first sentence begins with ``begins`` and holds
    ``holds``.
    """

    title: str
    base: Callable[[Path], Path]
    write: Callable[[Path], Path]
    metric: str
    begins: str
    holds: str = ""


@dataclass(frozen=True)
class ModelChange:
    """A small model of two convolutions, a pooling and a product, and how it is compiled."""

    batch: int = 1
    kernel: int = 3
    seed: int = 1
    has_relu: bool = True
    has_first: bool = False
    is_renamed: bool = False
    share_of_node: float | None = None
    machine: str = "gc200"
    n_tiles: int = 64
    share: float | None = None
    precision: str = "float"

    def __call__(self, directory: Path) -> Path:
        """Compile and run the model; return the path of its report."""
        directory.mkdir(parents=True)
        path = directory / "model.onnx"
        onnx.save(self.model(), path)
        options = resolve(
            environ={},
            code={
                "autoReport.all": True,
                "autoReport.directory": str(directory),
                **({} if self.share is None else {SHARE: self.share}),
            },
        )
        machine = engine.load_machine(self.machine, tiles_per_ipu=self.n_tiles)
        actual = run_model(
            OnnxFile(path), machine, options, setup=Setup(precision=self.precision)
        ).report
        assert actual is not None
        return actual

    def model(self) -> onnx.ModelProto:
        """Return the model; all nodes are named by number, as exporters do."""
        random = np.random.default_rng(self.seed)
        weights = {
            "k0": random.standard_normal((16, 8, 3, 3)),
            "m": random.standard_normal((32, 10)),
            "k1": random.standard_normal((32, 16, self.kernel, self.kernel)),
        }
        plan = {} if self.share_of_node is None else {"__available_memory": self.share_of_node}
        rows: list[tuple[str, list[str], dict[str, Any]]] = [
            *([("Sigmoid", [], {})] if self.has_first else []),
            ("Conv", ["k0"], {"kernel_shape": [3, 3], "pads": [1] * 4}),
            ("Relu", [], {}),
            (
                "Conv",
                ["k1"],
                {
                    "kernel_shape": [self.kernel] * 2,
                    "pads": [self.kernel // 2] * 4,
                    **plan,
                },
            ),
            *([("Relu", [], {})] if self.has_relu else []),
            ("GlobalAveragePool", [], {}),
            ("Flatten", [], {}),
            ("MatMul", ["m"], {}),
        ]
        nodes, value = [], "x"
        for number, (operation, operands, attributes) in enumerate(rows):
            out = "y" if number == len(rows) - 1 else f"v{number}"
            nodes.append(
                helper.make_node(
                    operation, [value, *operands], [out], name=f"{operation}_{number}", **attributes
                )
            )
            value = out
        graph = helper.make_graph(
            nodes,
            "changes",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [self.batch, 8, 16, 16])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [self.batch, 10])],
            [numpy_helper.from_array(w.astype(np.float32), name) for name, w in weights.items()],
        )
        actual = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        return renamed(actual) if self.is_renamed else actual


def renamed(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model with other names of all nodes and values."""
    actual = onnx.ModelProto()
    actual.CopyFrom(model)
    graph = actual.graph

    def new(name: str) -> str:
        return f"tensor of {name}" if name else ""

    for number, node in enumerate(graph.node):
        node.name = f"stage {7 * number}"
        for names in (node.input, node.output):
            names[:] = [new(name) for name in names]
    for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        value.name = new(value.name)
    return actual


@engine.codelet(
    engine.Field("x", "in"),
    engine.Field("out", "out"),
    law=lambda batch, _machine: 20 + 4 * batch.size["x"].ravel(),
    code_bytes=64,
    source="assumption: four cycles per element",
)
def brisk(x: NDArray[Any], out: NDArray[Any]) -> None:
    """Add one."""
    for i in range(x.size):
        out[i] = x[i] + 1


@engine.codelet(
    engine.Field("x", "in"),
    engine.Field("out", "out"),
    law=lambda batch, _machine: 80 + 16 * batch.size["x"].ravel(),
    code_bytes=64,
    source="assumption: sixteen cycles per element",
)
def sluggish(x: NDArray[Any], out: NDArray[Any]) -> None:
    """Add one, four times slower."""
    for i in range(x.size):
        out[i] = x[i] + 1


@engine.codelet(
    engine.Field("x", "in"),
    engine.Field("out", "out"),
    law=lambda batch, _machine: 40 + 8 * batch.size["x"].ravel(),
    code_bytes=64,
    source="assumption: eight cycles per element",
)
def steady(x: NDArray[Any], out: NDArray[Any]) -> None:
    """Add one, twice as slowly."""
    for i in range(x.size):
        out[i] = x[i] + 1


@dataclass(frozen=True)
class Pipeline:
    """Two stages on two IPUs; either may be slower, or the batch mapped elsewhere.

    The stages run in several rounds, and hand over after each.
    """

    first: Any = brisk
    codelet: Any = brisk
    shift: int = 0
    rounds: int = 1

    def __call__(self, directory: Path) -> Path:
        """Compile and run the program; return the path of its report."""
        graph = engine.Graph(engine.load_machine("gc200", n_ipus=2, tiles_per_ipu=8))
        size, n_tiles = 512, 8
        starts = np.arange(0, size, size // n_tiles)

        def variable(name: str, tiles: NDArray[Any]) -> Any:
            tensor = graph.add_variable("float32", (size,), name)
            graph.set_tile_mapping(tensor, starts, tiles)
            return tensor

        first = np.arange(n_tiles)
        x = variable("batch", np.roll(first, self.shift))
        middle = variable("middle", first)
        used, out = variable("taken over", first + n_tiles), variable("out", first + n_tiles)
        stages = []
        for name, source, target, tiles, codelet in (
            ("stage 0", x, middle, first, self.first),
            ("stage 1", used, out, first + n_tiles, self.codelet),
        ):
            compute_set = graph.add_compute_set(name)
            regions = {
                field: blocks(tensor.variable, starts, [size // n_tiles], [1], n_tiles)
                for field, tensor in (("x", source), ("out", target))
            }
            graph.add_vertices(compute_set, codelet, tiles, regions)
            stages.append(Execute(compute_set))
        rounds = [*stages, Copy(middle, used, "hand over")] * self.rounds
        result = StreamCopyOut(out, "result")
        program = Sequence("pipeline", [StreamCopyIn("batch", x), *rounds, result])
        executable = engine.compile_programs(graph, [program])
        code = {"autoReport.all": True, "autoReport.directory": str(directory)}
        with engine.Engine(executable, resolve(environ={}, code=code)) as device:
            device.connect_stream("batch", np.zeros(size, np.float32))
            device.run()
        return directory / "profile.pop"


@dataclass(frozen=True)
class Branches:
    """A small model of two branches that are joined, and how it is exported and run."""

    swaps_nodes: bool = False
    swaps_operands: bool = False
    is_reversed: bool = False
    seed: int = 1
    inputs_seed: int = 1
    opset: int = 17
    size: int = 8
    channels: int = 4
    synthetic: str | None = None
    has_output: bool = False
    is_other: bool = False
    iterations: int = 1
    share: float | None = None
    name: str = "branches"

    def __call__(self, directory: Path) -> Path:
        """Compile and run the model; return the path of its report."""
        directory.mkdir(parents=True)
        path = directory / f"{self.name}.onnx"
        onnx.save(other_model() if self.is_other else self.model(), path)
        code = {"autoReport.all": True, "autoReport.directory": str(directory)}
        code |= {} if self.share is None else {SHARE: self.share}
        code["autoReport.executionProfileProgramRunCount"] = 10
        actual = run_model(
            OnnxFile(path),
            engine.load_machine("gc200", tiles_per_ipu=16),
            resolve(environ={}, code=code),
            setup=Setup(synthetic=self.synthetic),
            seed=self.inputs_seed,
            iterations=self.iterations,
        ).report
        assert actual is not None
        return actual

    def model(self) -> onnx.ModelProto:
        """Return the model; its initializers are in the order of its nodes."""
        random = np.random.default_rng(self.seed)
        shapes = {"left": (8, self.channels, 3, 3), "right": (4, self.channels, 1, 1)}
        weights = {
            name: numpy_helper.from_array(random.standard_normal(shape).astype(np.float32), name)
            for name, shape in shapes.items()
        }
        branches = [
            [
                helper.make_node("Conv", ["x", "left"], ["a"], "left", pads=[1] * 4),
                helper.make_node("Relu", ["a"], ["b"], "relu"),
            ],
            [
                helper.make_node("Conv", ["x", "right"], ["c"], "right"),
                helper.make_node("Tanh", ["c"], ["d"], "tanh"),
            ],
        ]
        order = list(weights.values())
        if self.swaps_nodes:
            branches.reverse()
        if self.swaps_nodes or self.is_reversed:
            order.reverse()
        operands = ["d", "b"] if self.swaps_operands else ["b", "d"]
        joined = helper.make_node("Concat", operands, ["y"], "join", axis=1)
        last = [helper.make_node("Sigmoid", ["y"], ["z"], "last")]
        outputs = ["z", *(["d"] if self.has_output else [])]
        graph = helper.make_graph(
            [*branches[0], *branches[1], joined, *last],
            "branches",
            [
                helper.make_tensor_value_info(
                    "x", TensorProto.FLOAT, [1, self.channels, self.size, self.size]
                )
            ],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
            order,
        )
        opsets = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def other_model() -> onnx.ModelProto:
    """Return a model that has little in common with the branches."""
    random = np.random.default_rng(5)
    weights = {"m": (48, 16), "n": (16, 16)}
    nodes = [
        helper.make_node("MatMul", ["x", "m"], ["a"], "product"),
        helper.make_node("Softmax", ["a"], ["b"], "softmax"),
        helper.make_node("MatMul", ["b", "n"], ["c"], "second"),
        helper.make_node("Relu", ["c"], ["y"], "relu"),
    ]
    graph = helper.make_graph(
        nodes,
        "other",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [32, 48])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [32, 16])],
        [
            numpy_helper.from_array(random.standard_normal(shape).astype(np.float32), name)
            for name, shape in weights.items()
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


MODEL, PIPELINE, BRANCHES = ModelChange(), Pipeline(), Branches()
SLOW_PIPELINE = Pipeline(codelet=sluggish)


def _model(title: str, change: Any, metric: str, begins: str, holds: str = "") -> Change:
    return Change(title, MODEL, change, metric, begins, holds)


def _branches(title: str, change: Any, metric: str, begins: str, holds: str = "") -> Change:
    return Change(title, BRANCHES, change, metric, begins, holds)


CHANGES: tuple[Change, ...] = (
    _model(
        "Batch 1 → 4",
        replace(MODEL, batch=4),
        "memory.max_tile",
        "Batch size changed: 1 → 4.",
    ),
    _model(
        "Precision float → half",
        replace(MODEL, precision="half"),
        "memory.max_tile",
        "Precision changed: float32 → float16.",
    ),
    _model(
        "Machine gc200 → bow",
        replace(MODEL, machine="bow"),
        "time.total",
        "Machine changed: gc200 → bow.",
    ),
    _model(
        "64 tiles → 32 tiles",
        replace(MODEL, n_tiles=32),
        "cycles.total",
        "Number of tiles per IPU changed: 64 → 32.",
    ),
    _model(
        "`availableMemoryProportion` 0.6 → 0.005",
        replace(MODEL, share=0.005),
        "cycles.total",
        f"Options changed: {SHARE} 0.6 → 0.005",
    ),
    _model("Weights only", replace(MODEL, seed=2), "", "Only the weights changed;"),
    _model(
        "All nodes renamed",
        replace(MODEL, is_renamed=True),
        "",
        "All nodes were renamed; nothing else changed.",
    ),
    _model(
        "A Relu dropped",
        replace(MODEL, has_relu=False),
        "memory.max_tile",
        "Relu_3 (Relu) was removed:",
    ),
    _model(
        "A node in front",
        replace(MODEL, has_first=True),
        "cycles.total",
        "Sigmoid_0 (Sigmoid) was added:",
    ),
    _model(
        "Kernel 3 × 3 → 5 × 5",
        replace(MODEL, kernel=5),
        "cycles.total",
        "Conv_2 (Conv) changed: kernel 3 × 3 → 5 × 5,",
    ),
    _model(
        "One convolution's share of memory",
        replace(MODEL, share_of_node=0.005),
        "cycles.total",
        "Plan of Conv_2 changed: availableMemoryProportion 0.6 → 0.005,",
    ),
    _branches(
        "Two branches swapped in the order of nodes",
        replace(BRANCHES, swaps_nodes=True),
        "",
        "Order of nodes or initializers changed;",
    ),
    _branches(
        "Initializers in another order",
        replace(BRANCHES, is_reversed=True),
        "",
        "Model file changed.",
    ),
    _branches(
        "Operands of a Concat swapped",
        replace(BRANCHES, swaps_operands=True),
        "",
        "join (Concat) changed: operands in another order",
    ),
    _branches(
        "Seed of the inputs 1 → 2",
        replace(BRANCHES, inputs_seed=2),
        "",
        "Seed of the inputs changed: 1 → 2;",
    ),
    _branches("Opset 17 → 13", replace(BRANCHES, opset=13), "", "Opset changed: 17 → 13."),
    _branches(
        "Synthetic data",
        replace(BRANCHES, synthetic="random_normal"),
        "cycles.total",
        "Data changed: from the host → random_normal; stream copies take -",
    ),
    _branches(
        "Input 8 × 8 → 12 × 12",
        replace(BRANCHES, size=12),
        "cycles.total",
        "Shape of input x changed: 1 × 4 × 8 × 8 → 1 × 4 × 12 × 12.",
    ),
    _branches(
        "An output added",
        replace(BRANCHES, has_output=True),
        "cycles.total",
        "Output d was added: +",
    ),
    _branches(
        "Another model",
        replace(BRANCHES, is_other=True, name="other"),
        "cycles.total",
        "The reports are of different models, branches and other:",
    ),
    _branches(
        "Model file renamed",
        replace(BRANCHES, name="renamed"),
        "",
        "Model file was renamed: branches → renamed; nothing else changed.",
    ),
    _branches(
        "One run → three runs",
        replace(BRANCHES, iterations=3),
        "",
        "The baseline recorded 1 run, the candidate 3; figures are per run.",
    ),
    _branches(
        "Plans changed by an option",
        replace(BRANCHES, share=0.0005),
        "cycles.total",
        f"Options changed: {SHARE} 0.6 → 0.0005",
    ),
    Change(
        "One variable mapped elsewhere",
        PIPELINE,
        replace(PIPELINE, shift=1),
        "exchange.bytes",
        "Mapping of variable batch changed",
        "its exchanges send +2.0 KiB, +472 cycles",
    ),
    Change(
        "A stage on IPU 1 four times slower",
        PIPELINE,
        replace(PIPELINE, codelet=sluggish),
        "cycles.compute",
        "IPU 1 takes ",
        "IPU 0 waits for it",
    ),
    Change(
        "A stage on IPU 0 slower, though IPU 1 takes longest",
        SLOW_PIPELINE,
        replace(SLOW_PIPELINE, first=steady),
        "cycles.waiting",
        "IPU 0 takes ",
        "none of the run, which another IPU bounds",
    ),
    Change(
        "One stage faster, the other slower",
        replace(PIPELINE, first=sluggish),
        replace(PIPELINE, codelet=steady),
        "cycles.total",
        "IPU 0 takes ",
        "cycles of the run",
    ),
)
