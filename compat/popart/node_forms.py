"""Nodes that PopART reads otherwise than ONNX, in nodes of ONNX that compute the same.

Source: graphcore/popart sdk-release-3.4, willow/src/op/argextrema.cpp, convtranspose.cpp,
reduce.cpp, resize.cpp, scan.cpp, scatterreduce.cpp, topk.cpp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import onnx
from onnx import helper

from popart.builder.types import shape_of_type
from popart.checked_node import CheckedModel, CheckedNode, FileNode
from popart.errors import popart_exception

__all__ = ["in_forms_of_onnx"]

_GRAPHCORE = "ai.graphcore"
#: Attributes of Resize that ONNX has from a version on, and PopART in all.
_MODES, _RESIZE_WITH_MODES = ("coordinate_transformation_mode", "nearest_mode"), 11
#: Inputs of a Resize that is given sizes.
_N_RESIZE_INPUTS = 4

#: Takes a node, which it may change; returns what takes its place, or None if it stays.
_Form = Callable[[CheckedNode], list[onnx.NodeProto] | None]


def in_forms_of_onnx(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model whose nodes mean in ONNX what PopART reads; the model itself if all do.

    Parameters
    ----------
    proto
        The model; it is not changed.

    Raises
    ------
    popart_exception
        When PopART refuses a node.
    """
    if not any(node.key in _FORMS for node in CheckedModel(proto).nodes()):
        return proto
    changed = onnx.ModelProto()
    changed.CopyFrom(proto)
    model = CheckedModel(proto)
    _rewrite(changed.graph, model)
    if not any(entry.domain == _GRAPHCORE for entry in changed.opset_import):
        changed.opset_import.append(helper.make_opsetid(_GRAPHCORE, 1))
    return changed


def _rewrite(graph: onnx.GraphProto, model: CheckedModel) -> None:
    nodes = list(_rewritten(graph, model))
    del graph.node[:]
    graph.node.extend(nodes)


def _rewritten(graph: onnx.GraphProto, model: CheckedModel) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                _rewrite(attribute.g, model)
        checked = FileNode(node, model)
        form = _FORMS.get(checked.key)
        replaced = form(checked) if form is not None else None
        yield from [node] if replaced is None else replaced


def _label(node: onnx.NodeProto, part: str) -> str:
    """Return a name for a tensor, and the node that makes it, that belongs to a node."""
    return f"{next(filter(None, node.output))}/{part}"


def _positions(place: int) -> _Form:
    """Return a form of positions as int32, which ONNX has in 64 bits."""

    def form(node: CheckedNode) -> list[onnx.NodeProto] | None:
        finder = node.proto
        if len(finder.output) <= place or not finder.output[place]:
            return None
        name = finder.output[place]
        finder.name = finder.name or finder.output[0]  # in reports and sentences
        finder.output[place] = wide = f"{name}/int64"
        cast = helper.make_node("Cast", [wide], [name], name=name, to=onnx.TensorProto.INT32)
        return [finder, cast]

    return form


def _transposed(node: CheckedNode) -> list[onnx.NodeProto] | None:
    """Return a convolution whose output of a stated shape lies at the other end.

    Of an odd number of elements too many, PopART leaves one more out at the end, and at the
    beginning for ``SAME_UPPER``; ONNX does the reverse.

    Raises
    ------
    popart_exception
        When the shape is stated, and that the input is not padded.
    """
    if not list(node.settings.get("output_shape", ())):
        return None
    mode = node.settings.get("auto_pad", b"NOTSET").decode()
    if mode == "VALID":
        raise popart_exception(
            "`VALID` type for auto_pad cannot be used if the `output_shape` is also set:"
            f" {node.debug_name}"
        )
    convolution = node.proto
    kept = [a for a in convolution.attribute if a.name != "auto_pad"]
    del convolution.attribute[:]
    convolution.attribute.extend(kept)
    other = "SAME_LOWER" if mode == "SAME_UPPER" else "SAME_UPPER"
    convolution.attribute.append(helper.make_attribute("auto_pad", other))
    return [convolution]


def _reduction(node: CheckedNode) -> list[onnx.NodeProto] | None:
    """Return a reduction over a new axis of size 1, if the node names no axes at all."""
    if list(node.settings.get("axes", (0,))):
        return None
    reduction = node.proto
    wide = _label(reduction, "unsqueezed")
    before = helper.make_node("Unsqueeze", [reduction.input[0]], [wide], name=wide, axes=[0])
    reduction.input[0] = wide
    kept = [a for a in reduction.attribute if a.name not in ("axes", "keepdims")]
    del reduction.attribute[:]
    reduction.attribute.extend(kept)
    reduction.attribute.append(helper.make_attribute("axes", [0]))
    reduction.attribute.append(helper.make_attribute("keepdims", 0))
    return [before, reduction]


def _scatter(node: CheckedNode) -> list[onnx.NodeProto] | None:
    """Return a scatter of the first updates, if there are more of them than indices."""
    indices, updates = node.shape(1), node.shape(2)
    if indices is None or updates is None or len(indices) != len(updates) or indices == updates:
        return None
    scatter = node.proto
    name = _label(scatter, "updates")
    rank = len(indices)
    part = helper.make_node(
        "Slice",
        [scatter.input[2]],
        [name],
        name=name,
        domain=_GRAPHCORE,
        axes=list(range(rank)),
        starts=[0] * rank,
        ends=indices,
    )
    scatter.input[2] = name
    return [part, scatter]


def _resize(node: CheckedNode) -> list[onnx.NodeProto] | None:
    """Return PopART's own operator: version 10 with later modes, or sizes without scales."""
    resize = node.proto
    has_modes = node.version < _RESIZE_WITH_MODES and not node.settings.keys().isdisjoint(_MODES)
    if has_modes:
        x, scales = resize.input
        del resize.input[:]
        resize.input.extend([x, "", scales])
    elif len(resize.input) < _N_RESIZE_INPUTS or resize.input[2]:
        return None
    resize.domain = _GRAPHCORE
    return [resize]


def _scan(node: CheckedNode) -> list[onnx.NodeProto] | None:
    """Return a scan whose steps keep the axis of vectors, and whose results are concatenated.

    ONNX gives a step of a vector a scalar, PopART a vector of one element; ONNX stacks the results
    of the steps along a new axis, PopART joins them along one that they have.
    """
    scan = node.proto
    if not scan.input[0]:
        return None  # version 8 has a batch
    body = next(a.g for a in scan.attribute if a.name == "body")
    n_carried = len(scan.input) - node.settings["num_scan_inputs"]
    for place, value in enumerate(body.input[n_carried:], n_carried):
        shape = node.shape(place)
        if shape is not None and len(shape) == 1:
            _keep_axis(value, body, _label(scan, value.name))
    n_results = len(body.output) - n_carried
    axes = list(node.settings.get("scan_output_axes", ())) or [0] * n_results
    shapes = [shape_of_type(value.type) for value in body.output[n_carried:]]
    lengths = [shape for shape in (node.shape(i) for i in range(n_carried, len(scan.input)))]
    in_axes = list(node.settings.get("scan_input_axes", ())) or [0] * len(lengths)
    if not lengths or lengths[0] is None:
        return [scan]
    n_steps = lengths[0][in_axes[0]]
    after = []
    for place, (axis, shape) in enumerate(zip(axes, shapes, strict=False), n_carried):
        if shape and scan.output[place]:
            after.append(_joined(scan, place, shape, axis % len(shape), n_steps))
    _set_axes(scan, axes, shapes)
    return [scan, *after]


def _keep_axis(value: onnx.ValueInfoProto, body: onnx.GraphProto, name: str) -> None:
    """Let a body read a vector of one element where it is given a scalar."""
    vector = value.name
    element = value.type.tensor_type.elem_type
    value.CopyFrom(helper.make_tensor_value_info(name, element, []))
    nodes = list(body.node)
    del body.node[:]
    unsqueezed = helper.make_node("Unsqueeze", [name], [vector], name=f"{name}/step", axes=[0])
    body.node.extend([unsqueezed, *nodes])


def _joined(
    scan: onnx.NodeProto, place: int, shape: list[int], axis: int, n_steps: int
) -> onnx.NodeProto:
    """Return what joins the steps of a result along an axis that a step's has."""
    joined, stacked = scan.output[place], _label(scan, f"stacked{place}")
    scan.output[place] = stacked
    sizes = [*shape[:axis], n_steps * shape[axis], *shape[axis + 1 :]]
    return helper.make_node(
        "Reshape", [stacked], [joined], name=joined, domain=_GRAPHCORE, shape=sizes
    )


def _set_axes(scan: onnx.NodeProto, axes: list[int], shapes: list[list[int] | None]) -> None:
    """State the axes of the results as ONNX counts them: those of a step and one more."""
    counted = [
        axis % len(shape) if shape else axis for axis, shape in zip(axes, shapes, strict=False)
    ]
    kept = [a for a in scan.attribute if a.name != "scan_output_axes"]
    del scan.attribute[:]
    scan.attribute.extend(kept)
    if counted:
        scan.attribute.append(helper.make_attribute("scan_output_axes", counted))


_REDUCTIONS = (
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
)
_FORMS: dict[tuple[str, str], _Form] = {
    **{("ai.onnx", name): _reduction for name in _REDUCTIONS},
    ("ai.onnx", "ArgMax"): _positions(0),
    ("ai.onnx", "ArgMin"): _positions(0),
    ("ai.onnx", "ConvTranspose"): _transposed,
    ("ai.onnx", "Resize"): _resize,
    ("ai.onnx", "Scan"): _scan,
    ("ai.onnx", "Scatter"): _scatter,
    ("ai.onnx", "ScatterElements"): _scatter,
    ("ai.onnx", "TopK"): _positions(1),
}
