"""Models made to break their reader: wrong constants, sizes, names, files, nesting and types."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

__all__ = ["HOSTILE_FILES", "HOSTILE_MODELS", "addition", "renamed", "small_models"]

_MIB = 1 << 20
_FLOAT = TensorProto.FLOAT
#: Changes a model of one addition, ``y = x + k``, in place.
_Change = Callable[[onnx.ModelProto], object]


def addition() -> onnx.ModelProto:
    """Return the model ``y = x + k``."""
    node = helper.make_node("Add", ["x", "k"], ["y"], name="node")
    weight = numpy_helper.from_array(np.ones((2, 3), np.float32), "k")
    return _model([node], [weight])


def _model(nodes: list[onnx.NodeProto], weights: list[TensorProto]) -> onnx.ModelProto:
    """Return a model from ``x`` to ``y``, both of two rows and three columns."""
    x, y = (helper.make_tensor_value_info(name, _FLOAT, [2, 3]) for name in "xy")
    graph = helper.make_graph(nodes, "graph", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def small_models() -> list[onnx.ModelProto]:
    """Return valid models of several kinds of nodes, whose parts are then replaced."""
    make, array = helper.make_node, numpy_helper.from_array
    out = helper.make_tensor_value_info("b", _FLOAT, [2, 3])
    branch = [
        helper.make_graph([make(kind, ["x"], ["b"])], kind, [], [out]) for kind in ("Relu", "Neg")
    ]
    decision = make("If", ["c"], ["y"], name="if", then_branch=branch[0], else_branch=branch[1])
    constant = make("Constant", [], ["s"], value=array(np.array([3, 2], np.int64)))
    text = make("Constant", [], ["t"], value_string="a text")
    reshape = [
        constant,
        make("Reshape", ["x", "s"], ["r"]),
        make("Transpose", ["r"], ["y"], perm=[1, 0]),
    ]
    product = make("Gemm", ["x", "w", "b"], ["y"], name="gemm", alpha=0.5, transB=1)
    weights = [array(np.ones((3, 3), np.float32), "w"), array(np.ones(3, np.float32), "b")]
    pads = [array(np.array([0, 0, 0, 0], np.int64), "p")]
    return [
        addition(),
        _model([decision], [array(np.array(True), "c")]),
        _model([*reshape, text], []),
        _model([product], weights),
        _model([make("Pad", ["x", "p"], ["q"]), make("Softmax", ["q"], ["y"], axis=-1)], pads),
        _model([make("Concat", ["x", "x"], ["d"], axis=0), make("Slice", ["d", "0", "2"], ["y"])],
               [array(np.array([0], np.int64), "0"), array(np.array([2], np.int64), "2")]),
    ]  # fmt: skip


def _weight(**fields: object) -> _Change:
    """Replace fields of the constant."""

    def change(model: onnx.ModelProto) -> None:
        tensor = model.graph.initializer[0]
        for name, value in fields.items():
            if name == "dims":
                tensor.dims[:] = value
            elif name == "string_data":
                tensor.ClearField("raw_data")
                tensor.string_data.extend(value)
            else:
                setattr(tensor, name, value)

    return change


def _outside(**entries: str) -> _Change:
    """Make the constant lie in another file."""

    def change(model: onnx.ModelProto) -> None:
        tensor = model.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in entries.items():
            tensor.external_data.add(key=key, value=value)

    return change


def renamed(old: str, new: str) -> _Change:
    """Rename a value, or the node."""

    def change(model: onnx.ModelProto) -> None:
        graph = model.graph
        for part in (*graph.node, *graph.input, *graph.output, *graph.initializer):
            part.name = new if part.name == old else part.name
        for node in graph.node:
            node.input[:] = [new if name == old else name for name in node.input]
            node.output[:] = [new if name == old else name for name in node.output]

    return change


def _nested(depth: int) -> _Change:
    """Put decisions into each other."""

    def change(model: onnx.ModelProto) -> None:
        out = helper.make_tensor_value_info("b", _FLOAT, [2, 3])
        inner = helper.make_graph([helper.make_node("Relu", ["x"], ["b"])], "inner", [], [out])
        model.graph.initializer.append(numpy_helper.from_array(np.array(True), "c"))
        for _ in range(depth):
            node = helper.make_node("If", ["c"], ["b"], then_branch=inner, else_branch=inner)
            inner = onnx.GraphProto(name="g", output=[out])
            attribute = node.attribute[0]
            inner.node.add(op_type="If", input=["c"], output=["b"]).attribute.append(attribute)
        model.graph.node.add(op_type="If", input=["c"], output=["z"]).attribute.add(
            name="then_branch", type=AttributeProto.GRAPH, g=inner
        )

    return change


def _attribute(**fields: object) -> _Change:
    """Give the node an attribute."""
    return lambda model: model.graph.node[0].attribute.add(**fields)


def _function(body: str, name: str = "F") -> _Change:
    """Call a function that calls `body`."""

    def change(model: onnx.ModelProto) -> None:
        model.opset_import.add(domain="local", version=1)
        inner = helper.make_node(body, ["a"], ["b"], domain="local" if body in {"F", "G"} else "")
        for label in (name, "G"):
            model.functions.append(
                helper.make_function("local", label, ["a"], ["b"], [inner], model.opset_import)
            )
            inner = helper.make_node("F", ["a"], ["b"], domain="local")
        model.graph.node[0].CopyFrom(helper.make_node("F", ["x"], ["y"], domain="local"))

    return change


def _circle(model: onnx.ModelProto) -> None:
    model.graph.node[0].input[1] = "z"
    model.graph.node.append(helper.make_node("Relu", ["y"], ["z"]))


def _text_reaches_the_device(model: onnx.ModelProto) -> None:
    model.graph.node.insert(0, helper.make_node("Constant", [], ["k2"], value_string="text"))
    model.graph.node[1].input[1] = "k2"


def _renamed_attribute(model: onnx.ModelProto) -> None:
    model.graph.node[0].op_type = "Softmax"
    del model.graph.node[0].input[1:]
    model.graph.node[0].attribute.add(name="axis", type=AttributeProto.FLOAT, f=1.5)


_LONG = "n" * _MIB
HOSTILE_MODELS: Mapping[str, _Change] = {
    "strings": _weight(data_type=TensorProto.STRING, string_data=[b"a"] * 6),
    "strings of wrong number": _weight(data_type=TensorProto.STRING, string_data=[b"\xff"]),
    "constant of text": _text_reaches_the_device,
    "type 0": _weight(data_type=0),
    "type 99": _weight(data_type=99),
    "type -1": _weight(data_type=-1),
    "complex": _weight(data_type=TensorProto.COMPLEX64),
    "bfloat16": _weight(data_type=TensorProto.BFLOAT16),
    "short data": _weight(raw_data=b"123"),
    "no data": _weight(raw_data=b""),
    "long data": _weight(raw_data=bytes(1000)),
    "negative size": _weight(dims=[-2, 3]),
    "product overflows": _weight(dims=[1 << 62, 1 << 62, 3]),
    "huge size": _weight(dims=[1 << 62]),
    "huge and empty": _weight(dims=[1 << 62, 0], raw_data=b""),
    "many sizes": _weight(dims=[1] * 5_000),
    "input of huge size": lambda m: setattr(
        m.graph.input[0].type.tensor_type.shape.dim[0], "dim_value", 1 << 62
    ),
    "input of negative size": lambda m: setattr(
        m.graph.input[0].type.tensor_type.shape.dim[0], "dim_value", -7
    ),
    "input of strings": lambda m: setattr(m.graph.input[0].type.tensor_type, "elem_type", 8),
    "input of type 99": lambda m: setattr(m.graph.input[0].type.tensor_type, "elem_type", 99),
    "output of type 99": lambda m: setattr(m.graph.output[0].type.tensor_type, "elem_type", 99),
    "input is a sequence": lambda m: m.graph.input[0].type.sequence_type.elem_type.SetInParent(),
    **{
        f"name of {label}: {part}": renamed(part, name)
        for part in ("x", "k", "y", "node")
        for label, name in {
            "1 MB": _LONG,
            "nothing": "",
            "NUL": "a\0b",
            "control": "a\x1b[31m\r\nb",
            "direction": "a\u202eb\u2066",
            "slashes": "///",
            "dots": "../../../etc/passwd",
        }.items()
    },
    "graph name of 1 MB": lambda m: setattr(m.graph, "name", _LONG),
    "operator of 1 MB": lambda m: setattr(m.graph.node[0], "op_type", _LONG),
    "domain of 1 MB": lambda m: setattr(m.graph.node[0], "domain", _LONG),
    "attribute name of 1 MB": _attribute(name=_LONG, type=AttributeProto.INT, i=1),
    "size named by 1 MB": lambda m: setattr(
        m.graph.input[0].type.tensor_type.shape.dim[1], "dim_param", _LONG
    ),
    "duplicate constant": lambda m: m.graph.initializer.append(m.graph.initializer[0]),
    "duplicate output": lambda m: m.graph.node.append(m.graph.node[0]),
    "duplicate input": lambda m: m.graph.input.append(m.graph.input[0]),
    "constant named as input": renamed("k", "x"),
    "output that nothing makes": lambda m: m.graph.output.add(name="nothing"),
    "reads what nothing makes": lambda m: m.graph.node[0].input.append("nothing"),
    "no outputs of a node": lambda m: m.graph.node[0].ClearField("output"),
    "no inputs of a node": lambda m: m.graph.node[0].ClearField("input"),
    "many inputs of a node": lambda m: m.graph.node[0].input.extend(["x"] * 100_000),
    "outside: absolute": _outside(location="/etc/hostname"),
    "outside: leaves": _outside(location="../weights.bin"),
    "outside: NUL": _outside(location="a\0b"),
    "outside: long": _outside(location="l" * 5_000),
    "outside: long parts": _outside(location="l/" * 100_000),
    "outside: nothing": _outside(location=""),
    "outside: no location": _outside(offset="0"),
    "outside: folder": _outside(location="folder"),
    "outside: FIFO": _outside(location="fifo"),
    "outside: link out": _outside(location="link"),
    "outside: circle of links": _outside(location="circle"),
    "outside: device": _outside(location="zero"),
    "outside: offset -1": _outside(location="weights.bin", offset="-1", length="24"),
    "outside: offset huge": _outside(location="weights.bin", offset=str(1 << 70), length="24"),
    "outside: length huge": _outside(location="weights.bin", offset="0", length="9" * 5_000),
    "outside: length -1": _outside(location="weights.bin", offset="0", length="-24"),
    "outside: length short": _outside(location="weights.bin", offset="0", length="7"),
    "outside: offset is text": _outside(location="weights.bin", offset="zero"),
    "nested 20": _nested(20),
    "circle": _circle,
    "reads itself": lambda m: m.graph.node[0].input.__setitem__(1, "y"),
    "no graph": lambda m: m.ClearField("graph"),
    "empty graph": lambda m: m.graph.Clear(),
    "no opset": lambda m: m.ClearField("opset_import"),
    "opset 0": lambda m: setattr(m.opset_import[0], "version", 0),
    "opset -5": lambda m: setattr(m.opset_import[0], "version", -5),
    "opset huge": lambda m: setattr(m.opset_import[0], "version", (1 << 63) - 1),
    "unknown domain": lambda m: setattr(m.graph.node[0], "domain", "no.such.domain"),
    "unknown operator": lambda m: setattr(m.graph.node[0], "op_type", "NoSuchOperator"),
    "ir version 0": lambda m: setattr(m, "ir_version", 0),
    "ir version huge": lambda m: setattr(m, "ir_version", (1 << 62)),
    "attribute of wrong kind": _renamed_attribute,
    "attribute without type": _attribute(name="axis", i=3),
    "attribute twice": lambda m: [_attribute(name="a", type=2, i=1)(m) for _ in range(2)],
    "attribute of type 77": _attribute(name="axis", type=0, ref_attr_name="x"),
    "function calls itself": _function("F"),
    "functions call each other": _function("G"),
    "function calls what is missing": _function("NoSuchOperator"),
    "function without a name": _function("Relu", ""),
}


def _truncated(path: Path) -> None:
    path.write_bytes(addition().SerializeToString()[:-10])


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 30)


def _sparse_weight(path: Path) -> None:
    """Write a file whose first field claims a gigabyte."""
    with path.open("wb") as file:
        file.write(b"\x3a\xf0\xff\xff\xff\x03")
        file.truncate(1 << 30)


def _nested_bytes(path: Path) -> None:
    """Write graphs in attributes of nodes of graphs, deeper than protobuf reads."""
    content = b""
    for _ in range(3_000):
        for tag in (b"\x32", b"\x2a", b"\x0a"):  # GraphProto g, AttributeProto, NodeProto
            content = tag + _varint(len(content)) + content
    path.write_bytes(b"\x3a" + _varint(len(content)) + content)


def _varint(number: int) -> bytes:
    """Return a number as protobuf writes lengths."""
    content = bytearray()
    while number > 127:
        content.append(number & 127 | 128)
        number >>= 7
    return bytes((*content, number))


#: What may stand where a model is expected.
HOSTILE_FILES: Mapping[str, Callable[[Path], object]] = {
    "folder": lambda path: path.mkdir(),
    "FIFO": os.mkfifo,
    "nothing": lambda _: None,
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_bytes(b"a text, not a model\n" * 100),
    "zeros": lambda path: path.write_bytes(bytes(5_000)),
    "truncated": _truncated,
    "sparse": _sparse,
    "sparse field": _sparse_weight,
    "nested": _nested_bytes,
    "deep": lambda path: path.write_bytes(b"\x3a\x80\x80\x04" + b"\x0a\x7f" * 30_000),
    "link to itself": lambda path: path.symlink_to(path),
    "device": lambda path: path.symlink_to("/dev/zero"),
}
