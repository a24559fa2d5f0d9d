"""From an ONNX file to the operator graph: read, check, fix shapes, convert node by node."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import google.protobuf.message
import numpy as np
import onnx
from onnx import helper, numpy_helper

from tilescope.engine.errors import BadInput, BadModel, UnsupportedOperators

# Importing a family registers its converters.
from tilescope.engine.frontend.onnx import elementwise, layout, product, reduction, window
from tilescope.engine.frontend.onnx.node import CONVERTERS, Node
from tilescope.engine.ir import IrBuilder, Model, Value

__all__ = ["load_onnx", "model_digest"]

_FAMILIES = (elementwise, layout, product, reduction, window)
_DEVICE_TYPES = {"float16", "float32", "int32", "int64", "bool", "float64", "uint8"}
#: Types between nodes only: a cast makes them.
_FLOAT8_TYPES = {"float8_e4m3fnuz", "float8_e5m2fnuz"}


def model_digest(path: Path) -> str:
    """Return the SHA-256 of a model file as hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _read(path: Path) -> onnx.ModelProto:
    """Read and check a model file.

    Raises
    ------
    BadModel
        When it is missing, not ONNX, truncated or inconsistent.
    """
    if not path.is_file():
        what = "is a directory" if path.is_dir() else "does not exist"
        raise BadModel(f"Model {path} {what}: give the path of an .onnx file")
    try:
        model = onnx.load(str(path))
    except (google.protobuf.message.DecodeError, ValueError, UnicodeDecodeError) as error:
        raise BadModel(
            f"Model {path} is not an ONNX file or is truncated: {_one_line(error)}"
        ) from None
    except onnx.checker.ValidationError as error:
        raise BadModel(
            f"Model {path} has external weights that are not readable: {_one_line(error)}"
        ) from None
    except OSError as error:
        raise BadModel(f"Cannot read model {path}: {error.strerror}") from None
    if not model.graph.node or not model.graph.output:
        raise BadModel(f"Model {path} is not a valid ONNX model: it has no nodes or no outputs")
    try:
        onnx.checker.check_model(model)
    except onnx.checker.ValidationError as error:
        raise BadModel(f"Model {path} fails the ONNX checker: {_one_line(error)}") from None
    newest = onnx.defs.onnx_opset_version()
    if _opset(model) > newest:
        raise BadModel(
            f"Model {path} needs opset {_opset(model)}; the newest supported is {newest}"
        )
    return model


def _opset(model: onnx.ModelProto) -> int:
    """Return the version of ONNX's own operators that a model asks for."""
    return max((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), default=1)


def _type_of(kind: int, what: str) -> str:
    """Return the name of an ONNX element type.

    Raises
    ------
    BadModel
        When ONNX has no such type.
    """
    try:
        return np.dtype(helper.tensor_dtype_to_np_dtype(kind)).name
    except KeyError:
        raise BadModel(f"{what} has element type {kind}, which ONNX does not define") from None


def _constant(tensor: onnx.TensorProto, builder: IrBuilder) -> Value:
    """Return an initializer as a known value.

    Raises
    ------
    BadModel
        When its type is none.
    """
    _type_of(tensor.data_type, f"Initializer {tensor.name!r}")
    return builder.constant(numpy_helper.to_array(tensor), tensor.name)


def _one_line(error: Exception) -> str:
    text = str(error).strip()
    return text.splitlines()[0][:200] if text else type(error).__name__


def _check_operators(model: onnx.ModelProto) -> None:
    missing: dict[str, list[str]] = {}
    for node in model.graph.node:
        domain = "" if node.domain in ("", "ai.onnx") else f"{node.domain}."
        if domain or node.op_type not in CONVERTERS:
            name = node.name or (node.output[0] if node.output else "")
            missing.setdefault(f"{domain}{node.op_type}", []).append(name)
    if not missing:
        return
    n_nodes = sum(len(names) for names in missing.values())
    lines = [f"{n_nodes} nodes of {len(missing)} operators are not supported yet:"]
    for operator, names in sorted(missing.items()):
        shown = ", ".join(names[:6])
        more = f" and {len(names) - 6} more" if len(names) > 6 else ""
        lines.append(f"  {operator} ({len(names)}): {shown}{more}")
    lines.append(f"Supported operators: {', '.join(sorted(CONVERTERS))}.")
    raise UnsupportedOperators("\n".join(lines))


def _stated(info: onnx.ValueInfoProto) -> list[int | None]:
    """Return the sizes in a model; None for dynamic ones."""
    dims = info.type.tensor_type.shape.dim
    # Some exporters write an open dimension as -1.
    return [d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else None for d in dims]


def _labels(info: onnx.ValueInfoProto) -> str:
    """Return a shape as the model states it, such as ``(N, 3, ?)``."""
    dims = info.type.tensor_type.shape.dim
    names = [
        d.dim_param or "?" if size is None else str(size)
        for d, size in zip(dims, _stated(info), strict=True)
    ]
    return f"({', '.join(names)})"


def _input_shape(
    info: onnx.ValueInfoProto, shapes: Mapping[str, tuple[int, ...]]
) -> tuple[int, ...]:
    """Return the static shape of an input; a first dimension without size is taken as 1.

    Raises
    ------
    BadInput
        When another dimension has no size or one is 0, and none is given; or when the given one
        contradicts.
    """
    stated = _stated(info)
    if info.name in shapes:
        given = shapes[info.name]
        agrees = len(given) == len(stated) and all(
            not s or s == g for s, g in zip(stated, given, strict=True)
        )
        if not agrees:
            raise BadInput(
                f"Input {info.name!r} has shape {_labels(info)}, which is incompatible with {given}"
            )
        return given
    if _is_assumed_one(info, shapes):
        stated[0] = 1
    if not all(stated):
        why = " with a dimension of 0, which holds nothing" if 0 in stated else ""
        raise BadInput(
            f"Input {info.name!r} has shape {_labels(info)}{why}; set its sizes with"
            f" --shape {info.name}={','.join(str(s) if s else 'N' for s in stated)}"
        )
    return tuple(int(size or 0) for size in stated)


def _is_assumed_one(info: onnx.ValueInfoProto, shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Return whether the first dimension of an input is open and nobody says its size."""
    stated = _stated(info)
    return info.name not in shapes and stated[:1] == [None]


def _check_output(info: onnx.ValueInfoProto, value: Value, assumed_ones: Sequence[str]) -> None:
    """Refuse an output whose declared shape is not the one that is computed.

    Raises
    ------
    BadModel
        Names the output, and both shapes or its type.
    """
    if value.dtype in _FLOAT8_TYPES:
        raise BadModel(
            f"Output {info.name!r} is {value.dtype}: float8 stays on the device; cast it to float16"
            " in the model"
        )
    stated = _stated(info)
    if len(stated) == len(value.shape) and all(
        s is None or s == size for s, size in zip(stated, value.shape, strict=True)
    ):
        return
    taken = ""
    if assumed_ones:
        names = ", ".join(map(repr, assumed_ones))
        taken = f" (the open first dimension of {names} was taken as 1; --shape says another)"
    raise BadModel(
        f"Output {info.name!r} is declared as {_labels(info)} but computed as {value.shape}{taken}:"
        " correct the declaration in the model or make its sizes dynamic"
    )


def _attribute(attribute: onnx.AttributeProto) -> Any:
    value = helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return value


def load_onnx(path: Path | str, shapes: Mapping[str, tuple[int, ...]] | None = None) -> Model:
    """Return the operator graph of an ONNX file.

    Parameters
    ----------
    path
        The file.
    shapes
        Sizes of inputs whose dimensions the model leaves open, by name.

    Raises
    ------
    BadModel
        No ONNX, truncated, inconsistent, with types the device does not have, or with an output
        of another shape than it declares.
    UnsupportedOperators
        Lists every unsupported operator, with the names of its nodes.
    BadInput
        A dimension of an input has no size or is 0, or `shapes` names an unknown input.
    """
    path = Path(path)
    proto = _read(path)
    _check_operators(proto)
    graph = proto.graph
    opset = _opset(proto)
    builder = IrBuilder(graph.name or path.stem)
    values: dict[str, Value] = {t.name: _constant(t, builder) for t in graph.initializer}
    given = shapes or {}
    names = [info.name for info in graph.input if info.name not in values]
    for name in given:
        if name not in names:
            raise BadInput(f"Unknown input {name!r}; the model has {', '.join(names)}")
    for info in graph.input:
        if info.name not in values:
            if info.type.WhichOneof("value") != "tensor_type":
                raise BadModel(f"Input {info.name!r} is not a tensor; only tensors are supported")
            dtype = _type_of(info.type.tensor_type.elem_type, f"Input {info.name!r}")
            if dtype not in _DEVICE_TYPES:
                raise BadModel(f"Input {info.name!r} is {dtype}, which is not supported yet")
            values[info.name] = builder.input(info.name, _input_shape(info, given), dtype)
    used = {name for node in graph.node for name in node.input} | {o.name for o in graph.output}
    for proto_node in graph.node:
        _check_outputs(proto_node, used)
        _convert(proto_node, opset, values, builder)
    assumed = [i.name for i in graph.input if i.name in names and _is_assumed_one(i, given)]
    for info in graph.output:
        _check_output(info, values[info.name], assumed)
    return builder.finish([(info.name, values[info.name]) for info in graph.output], assumed)


def _check_outputs(proto_node: onnx.NodeProto, used: set[str]) -> None:
    """Refuse a node of which more than the first output is used.

    Raises
    ------
    BadModel
        Names the node and the output.
    """
    for extra in list(proto_node.output)[1:]:
        if extra and extra in used:
            name = proto_node.name or proto_node.output[0]
            raise BadModel(
                f"Node {name!r} ({proto_node.op_type}) has a second output {extra!r} in use;"
                " only first outputs are supported"
            )


def _convert(
    proto_node: onnx.NodeProto, opset: int, values: dict[str, Value], builder: IrBuilder
) -> None:
    name = (proto_node.name or proto_node.output[0]).strip("/")
    node = Node(
        op_type=proto_node.op_type,
        name=name,
        opset=opset,
        inputs=[values[i] if i else None for i in proto_node.input],
        attributes={a.name: _attribute(a) for a in proto_node.attribute},
        output=proto_node.output[0],
        builder=builder,
    )
    result = CONVERTERS[proto_node.op_type](node)
    if result.constant is None and result.dtype not in _DEVICE_TYPES | _FLOAT8_TYPES:
        raise BadModel(f"Node {name!r} makes {result.dtype}, which is not supported yet")
    values[proto_node.output[0]] = result
