"""The program of a generated report: layers of operations of a few steps, and one loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tilescope.reports.schema import (
    compute_set,
    debug_context,
    plan_stage,
    program,
    step,
    vertex_type,
)
from tilescope.reports.schema import plan as plan_table
from tilescope.reports.writing.writer import ReportWriter

__all__ = ["VERTEX_TYPES", "ProgramPlan", "plan_program", "write_program"]

#: Name, kind, code bytes.
VERTEX_TYPES = (
    ("poplin::ConvPartial1x1Out<float,half,true,false,16,4>", "supervisor", 1_412),
    ("poplin::ConvPartialnx1<half,float,true,false,8>", "supervisor", 1_986),
    ("popops::ReducePartialsEqualSize<ReduceAdd,half,float>", "worker", 612),
    ("popops::BinaryOp1DInPlace<ADD,half>", "worker", 288),
    ("popops::UnaryOp1DInPlace<RELU,half>", "worker", 196),
    ("popnn::NonLinearity1D<half,GELU>", "worker", 540),
    ("popops::Cast1D<float,half>", "worker", 148),
    ("popops::Transpose2D<half>", "worker", 420),
    ("poplar_rt::DstStridedCopy64BitMultiAccess", "worker", 324),
)
_COMPUTE, _EXCHANGE = "OnTileExecute", "DoExchange"
#: Operations of a layer: name, type, and their steps as (kind, name, vertex type).
_OPERATIONS: tuple[tuple[str, str, tuple[tuple[str, str, int], ...]], ...] = (
    (
        "attention/qkv/matmul",
        "MatMul",
        (
            (_EXCHANGE, "preArrange/exchange", -1),
            (_COMPUTE, "preArrange/transpose", 7),
            (_EXCHANGE, "convolve/exchange", -1),
            (_COMPUTE, "convolve/partials", 0),
            (_EXCHANGE, "reduce/exchange", -1),
            (_COMPUTE, "reduce/sum", 2),
        ),
    ),
    ("attention/bias", "Add", ((_EXCHANGE, "exchange", -1), (_COMPUTE, "Op/Add", 3))),
    (
        "attention/qk/convolve",
        "MatMul",
        ((_EXCHANGE, "exchange", -1), (_COMPUTE, "partials", 1), (_COMPUTE, "cast", 6)),
    ),
    (
        "attention/softmax",
        "Softmax",
        ((_EXCHANGE, "max/exchange", -1), (_COMPUTE, "max", 2), (_COMPUTE, "exp", 5)),
    ),
    (
        "mlp/up/matmul",
        "MatMul",
        (
            (_EXCHANGE, "convolve/exchange", -1),
            (_COMPUTE, "convolve/partials", 0),
            (_EXCHANGE, "reduce/exchange", -1),
            (_COMPUTE, "reduce/sum", 2),
        ),
    ),
    ("mlp/activation", "Gelu", ((_COMPUTE, "nonLinearity", 5),)),
    ("residual", "Add", ((_COMPUTE, "Op/Add", 3), (_EXCHANGE, "copy/exchange", -1))),
    ("output/copy", "Identity", (("Sync", "sync", -1), (_COMPUTE, "copy", 8))),
)
_INPUT = (
    ("Sync", "sync", -1),
    ("StreamCopyBegin", "begin", -1),
    ("StreamCopyMid", "mid", -1),
    ("StreamCopyEnd", "end", -1),
)
_REPEATS = 4


@dataclass
class _Operation:
    """One operation of the program: its name and the range of its steps."""

    name: str
    kind: str
    first_step: int
    steps: tuple[tuple[str, str, int], ...]
    layer: str


@dataclass
class ProgramPlan:
    """The steps in program order, and the tree above them."""

    n_ipus: int
    tiles_per_ipu: int
    operations: list[_Operation]
    kinds: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    vertex_types: list[int] = field(default_factory=list)
    operation_of_step: list[int] = field(default_factory=list)
    #: Leaf of every step in the tree, once the tree is written.
    leaves: list[int] = field(default_factory=list)
    #: Half-open range of the steps in the loop, and its repeat count.
    loop: tuple[int, int] = (0, 0)
    repeat_count: int = 1

    @property
    def n_steps(self) -> int:
        """Number of steps."""
        return len(self.kinds)

    @property
    def n_tiles(self) -> int:
        """Number of tiles of all IPUs."""
        return self.n_ipus * self.tiles_per_ipu

    @property
    def is_external(self) -> np.ndarray:
        """Whether a step waits for all IPUs: ndarray of bool, shape (n_steps,)."""
        kinds = np.array(self.kinds)
        waits: np.ndarray = (kinds == "Sync") | (kinds == "GlobalExchange")
        return waits


def plan_program(n_steps: int, shape: tuple[int, int], random: np.random.Generator) -> ProgramPlan:
    """Return a program with exactly that number of steps; ``shape`` is IPUs and tiles per IPU."""
    n_ipus, n_tiles = shape
    operations = [_Operation("input", "StreamCopy", 0, _INPUT, "")]
    left = n_steps - 2 * len(_INPUT)
    layer = 0
    while left:
        for short, kind, steps in _OPERATIONS:
            if not left:
                break
            cut = steps[:left]
            if n_ipus > 1 and kind == "Identity":
                cut = (("GlobalExchange", "link", -1), *cut)[:left]
            left -= len(cut)
            prefix = f"layer{layer}"
            operations.append(_Operation(f"{prefix}/{short}", kind, 0, cut, prefix))
        layer += 1
    operations.append(_Operation("output", "StreamCopy", 0, _INPUT, ""))
    plan = ProgramPlan(n_ipus, n_tiles, operations)
    for number, operation in enumerate(operations):
        operation.first_step = plan.n_steps
        for kind, name, type_ in operation.steps:
            plan.kinds.append(kind)
            plan.names.append(f"{operation.name}/{name}")
            plan.vertex_types.append(type_)
            plan.operation_of_step.append(number)
    # One operation in the middle is a loop, if there is one without a sync.
    candidates = [
        operation
        for operation in operations[1:-1]
        if operation.kind == "MatMul" and len(operation.steps) > 1
    ]
    if candidates:
        chosen = candidates[int(random.integers(len(candidates)))]
        plan.loop = (chosen.first_step, chosen.first_step + len(chosen.steps))
        plan.repeat_count = _REPEATS
    return plan


def write_program(writer: ReportWriter, plan: ProgramPlan, *, is_training: bool = False) -> None:
    """Write debug contexts, codelets, compute sets, the tree, the steps and plans."""
    context_of_operation = _write_contexts(writer, plan, is_training=is_training)
    writer.add(
        vertex_type,
        [
            {
                "name": name,
                "kind": kind,
                "code_bytes": code_bytes,
                "is_data_dependent": False,
                "source": "generated",
            }
            for name, kind, code_bytes in VERTEX_TYPES
        ],
    )
    compute_steps = [i for i, kind in enumerate(plan.kinds) if kind == _COMPUTE]
    n_vertices = plan.n_tiles
    contexts = [context_of_operation[i] for i in plan.operation_of_step]
    writer.add_columns(
        compute_set,
        {
            "name": [plan.names[i] for i in compute_steps],
            "n_vertices": n_vertices,
            "n_edges": 3 * n_vertices,
            "debug_context_id": [contexts[i] for i in compute_steps],
        },
    )
    compute_set_of_step: list[int | None] = [None] * plan.n_steps
    for number, index in enumerate(compute_steps):
        compute_set_of_step[index] = number
    plan.leaves = _write_tree(writer, plan, compute_set_of_step, contexts)
    writer.add_columns(
        step,
        {
            "program_id": plan.leaves,
            "kind": plan.kinds,
            "name": plan.names,
            "compute_set_id": compute_set_of_step,
            "is_data_dependent": 0,
        },
    )
    _write_plans(writer, plan, context_of_operation)


def _write_contexts(writer: ReportWriter, plan: ProgramPlan, *, is_training: bool) -> list[int]:
    """Write a context per layer and per operation; return those of the operations."""
    rows: list[dict[str, object]] = []
    layers: dict[str, int] = {}
    of_operation = []
    for operation in plan.operations:
        parent = None
        if operation.layer:
            if operation.layer not in layers:
                layers[operation.layer] = len(rows)
                rows.append(_context(None, operation.layer, "Layer"))
            parent = layers[operation.layer]
        of_operation.append(len(rows))
        rows.append(_context(parent, operation.name, operation.kind))
    if is_training:
        _mark_passes(rows, of_operation)
    writer.add(debug_context, rows)
    return of_operation


def _mark_passes(rows: Sequence[dict[str, object]], of_operation: Sequence[int]) -> None:
    """Make the second half of the operations gradients of the first half."""
    half = len(of_operation) // 2
    for number in of_operation[:half]:
        rows[number]["training_pass"] = "forward"
    for origin, number in zip(of_operation[:half], of_operation[half:], strict=False):
        rows[number] |= {"training_pass": "weight gradient", "origin_id": origin}


def _context(parent: int | None, name: str, kind: str) -> dict[str, object]:
    return {
        "parent_id": parent,
        "layer": "onnx",
        "name": name,
        "operation": kind,
        "detail": "{}",
    }


def _spread(n_bytes: int, n_tiles: int) -> np.ndarray:
    """Return bytes spread over the tiles: ndarray of int64, shape (n_tiles,)."""
    return np.diff(np.arange(n_tiles + 1) * n_bytes // n_tiles)


def _write_tree(
    writer: ReportWriter,
    plan: ProgramPlan,
    compute_set_of_step: list[int | None],
    contexts: list[int],
) -> list[int]:
    """Write the tree, parents before children; return the leaves by step."""
    rows: list[dict[str, object]] = []

    def open_node(
        parent: int | None, kind: str, name: str, *, repeat_count: int = 1, **more: object
    ) -> int:
        position = 0
        if parent is not None:
            position = int(rows[parent]["n_children"])  # type: ignore[call-overload]
            rows[parent]["n_children"] = position + 1
        n_bytes = int(more.pop("code_bytes", 16))  # type: ignore[call-overload]
        rows.append(
            {
                "parent_id": parent,
                "position": position,
                "root_kind": "control",
                "root_index": 0,
                "kind": kind,
                "name": name,
                "n_children": 0,
                "repeat_count": repeat_count,
                "n_tiles": 0,
                "code_bytes": n_bytes,
                "code_pattern_id": writer.pattern("code.pattern", _spread(n_bytes, plan.n_tiles)),
                **more,
            }
        )
        return len(rows) - 1

    root = open_node(None, "Sequence", "main")
    leaves, layer_node, layer = [], root, ""
    for operation in plan.operations:
        if operation.layer != layer:
            layer = operation.layer
            layer_node = open_node(root, "Sequence", layer) if layer else root
        parent = layer_node
        if operation.first_step == plan.loop[0] and plan.repeat_count > 1:
            parent = open_node(parent, "Repeat", "", repeat_count=plan.repeat_count)
        parent = open_node(parent, "Sequence", operation.name)
        for index in range(operation.first_step, operation.first_step + len(operation.steps)):
            n_bytes = 48 if plan.kinds[index] == _EXCHANGE else 8
            leaf = open_node(
                parent,
                plan.kinds[index],
                plan.names[index],
                n_tiles=plan.n_tiles,
                code_bytes=n_bytes * plan.n_tiles,
                step_id=index,
                compute_set_id=compute_set_of_step[index],
                debug_context_id=contexts[index],
            )
            leaves.append(leaf)
    writer.add(program, rows)
    return leaves


def _write_plans(writer: ReportWriter, plan: ProgramPlan, contexts: list[int]) -> None:
    rows = [
        {
            "name": operation.name,
            "operation": "matmul",
            "family": "amp",
            "grouping": '{"groups":1,"inputs":16,"outputs":16}',
            "split": '{"batch":1,"out":46,"in":32}',
            "swaps_operands": False,
            "n_tiles": plan.n_tiles,
            "tile_balance": 0.9,
            "predicted_cycles": 12_000,
            "temporary_bytes": 40_960,
            "available_memory_proportion": 0.6,
            "bound": "cycles",
            "runner_up": '{"batch":1,"out":23,"in":64,"cycles":13100}',
            "debug_context_id": contexts[number],
        }
        for number, operation in enumerate(plan.operations)
        if operation.kind == "MatMul"
    ]
    writer.add(plan_table, rows)
    predicted = (("exchange", 4_000), ("compute", 7_000), ("reduce", 1_000))
    writer.add(
        plan_stage,
        [
            {
                "plan_id": number,
                "position": position,
                "name": name,
                "phase": "exchange" if name == "exchange" else "compute",
                "predicted_cycles": cycles,
            }
            for number in range(len(rows))
            for position, (name, cycles) in enumerate(predicted)
        ],
    )
