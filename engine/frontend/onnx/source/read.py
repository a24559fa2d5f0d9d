"""Reads and checks an ONNX file, and replaces functions by their bodies."""

from __future__ import annotations

from pathlib import Path

import google.protobuf.message
import onnx
from onnx import inliner

from tilescope.engine.errors import BadModel, UnsupportedOperators
from tilescope.engine.frontend.onnx.refusal import refusing_plainly
from tilescope.engine.frontend.onnx.source.bodies import has_body, with_bodies
from tilescope.engine.frontend.onnx.source.external import load_small_tensors, without_large_tensors
from tilescope.engine.frontend.onnx.source.long_names import shorten_names
from tilescope.engine.frontend.onnx.source.model_file import check_is_file
from tilescope.engine.frontend.onnx.source.sequences import SEQUENCES
from tilescope.engine.frontend.onnx.source.tidy import (
    check_imports,
    name_domains,
    name_results,
    order_nodes,
    with_dense_initializers,
)
from tilescope.engine.frontend.onnx.source.walk import key_of, nodes_of
from tilescope.engine.ir.definition import TAKEN_DOMAINS
from tilescope.engine.operators import OPERATORS

__all__ = [
    "expanded",
    "opsets_of",
    "read_model",
    "unsupported",
]


#: How deep bodies of operators that ONNX defines by others may be in each other.
_DEEPEST_BODIES = 4
#: Operators that one message lists.
_MOST_LISTED = 100


def opsets_of(model: onnx.ModelProto) -> dict[str, int]:
    """Return the version of every operator set that a model imports, by domain."""
    opsets = {"": 1}
    for imported in model.opset_import:
        domain = "" if imported.domain == "ai.onnx" else imported.domain
        opsets[domain] = max(imported.version, opsets.get(domain, 1))
    return opsets


@refusing_plainly
def read_model(path: Path) -> onnx.ModelProto:
    """Return the model of a file, of supported operators only.

    Raises
    ------
    BadModel
        When the file does not exist, is not ONNX, is truncated or inconsistent.
    UnsupportedOperators
        Lists every operator that is not supported, with the names of its nodes.
    """
    model = _checked(path)
    try:
        model = expanded(model)
    except RuntimeError as error:
        raise BadModel(
            f"Model {path} has functions that cannot be inlined: {_one_line(error)}"
        ) from None
    missing = unsupported(model)
    if not missing:
        return model
    n_nodes = sum(len(names) for names in missing.values())
    lines = [f"{n_nodes} nodes of {len(missing)} operators are not supported yet:"]
    listed = sorted(missing.items())
    for operator, names in listed[:_MOST_LISTED]:
        text = ", ".join(names[:6])
        rest = f" and {len(names) - 6} more" if len(names) > 6 else ""
        lines.append(f"  {operator} ({len(names)}): {text}{rest}")
    if len(listed) > _MOST_LISTED:
        lines.append(f"  and {len(listed) - _MOST_LISTED} more")
    lines.append(
        "Export the model without them, or cut it before them with: tilescope models cut; the page"
        " Supported operators lists those that are."
    )
    domains = sorted({key.rpartition(".")[0] for key in missing} - TAKEN_DOMAINS.keys())
    if domains:
        lines.append(
            f"Operators of other domains ({', '.join(domains)}) can be written in Python: register"
            " them with engine.custom_operator, in a file that tilescope run --operators takes, or"
            " in the program; those in C++ cannot be loaded."
        )
    raise UnsupportedOperators("\n".join(lines))


def expanded(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model with its functions, and operators that others define, replaced by bodies.

    Operators are replaced only if that leaves none that is not supported.

    Raises
    ------
    RuntimeError
        When ONNX cannot inline a function of the model.
    """
    if model.functions:
        model = inliner.inline_local_functions(model)
    model_, opset = model, opsets_of(model)[""]
    # A body may use operators that are again defined by others.
    for _ in range(_DEEPEST_BODIES):
        missing = unsupported(model_)
        bodies = {key for key in missing if has_body(key, opset)}
        if not missing:
            return model_
        if bodies < set(missing):
            break
        model_ = with_bodies(model_, bodies, opset)
    return model if unsupported(model_) else model_


def _checked(path: Path) -> onnx.ModelProto:
    """Read and check a model file.

    Raises
    ------
    BadModel
        When it is missing, not ONNX, truncated or inconsistent.
    """
    check_is_file(path)
    try:
        model = onnx.load(str(path), load_external_data=False)
    except (google.protobuf.message.DecodeError, ValueError, UnicodeDecodeError) as error:
        raise BadModel(
            f"Model {path} is not an ONNX file or is truncated: {_one_line(error)}"
        ) from None
    except OSError as error:
        raise BadModel(f"Cannot read model {path}: {error.strerror}") from None
    if not model.graph.node or not model.graph.output:
        raise BadModel(f"Model {path} is not a valid ONNX model: it has no nodes or no outputs")
    shorten_names(model)
    load_small_tensors(model, path.parent)
    check_imports(model)
    name_domains(model)
    name_results(model)
    order_nodes(model.graph)
    # The checker wants a shape of every output, which ONNX allows a model to leave out.
    shapeless = [
        info.type.tensor_type
        for info in model.graph.output
        if info.type.WhichOneof("value") == "tensor_type"
        and not info.type.tensor_type.HasField("shape")
    ]
    for tensor_type in shapeless:
        tensor_type.shape.SetInParent()
    try:
        with without_large_tensors(model):
            onnx.checker.check_model(model)
    except (onnx.checker.ValidationError, ValueError) as error:
        raise BadModel(f"Model {path} fails the ONNX checker: {_one_line(error)}") from None
    for tensor_type in shapeless:
        tensor_type.ClearField("shape")
    with_dense_initializers(model.graph)
    return model


def _one_line(error: Exception) -> str:
    text = str(error).strip()
    return text.splitlines()[0][:200] if text else type(error).__name__


def unsupported(model: onnx.ModelProto) -> dict[str, list[str]]:
    """Return the names of the nodes whose operator is not supported, by operator."""
    missing: dict[str, list[str]] = {}
    for node in nodes_of(model.graph):
        if key_of(node) in SEQUENCES:
            continue
        operator = OPERATORS.get(key_of(node))
        if operator is None or operator.is_primitive:
            name = node.name or (node.output[0] if node.output else "")
            missing.setdefault(key_of(node), []).append(name)
    return missing
