"""Contents of initializers in a file beside the model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnx

from popart.builder.tensor import array_of
from popart.errors import popart_exception

__all__ = ["refer", "save_initializers"]


def save_initializers(graph: onnx.GraphProto, names: Sequence[str], filename: str) -> None:
    """Move the contents of initializers into a file, one behind another.

    Parameters
    ----------
    graph
        Whose initializers are changed.
    names
        Of the initializers, in the order of the file.
    filename
        The file; what it holds is replaced.
    """
    path = Path(filename)
    if not path.parent.exists():
        raise popart_exception(
            f"Saving tensor data to file {filename}, but its parent directory does not exist"
        )
    contents = {content.name: content for content in graph.initializer}
    with path.open("wb") as file:
        for name in names:
            content = contents.get(name)
            if content is None:
                raise popart_exception(f"Tensor '{name}' is not an initializer")
            if content.data_location == onnx.TensorProto.EXTERNAL:
                raise popart_exception(f"Tensor '{name}' already has an external data_location")
            elements = array_of(content).tobytes()
            if not elements:
                raise popart_exception(f"Tensor '{name}' has no data to save externally")
            refer(content, filename, len(elements), file.tell())
            file.write(elements)


def refer(content: onnx.TensorProto, filename: str, n_bytes: int, start: int) -> None:
    """Make a content one that a file holds."""
    for field in ("raw_data", "float_data", "int32_data", "int64_data", "uint64_data"):
        content.ClearField(field)
    content.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", filename), ("length", n_bytes), ("offset", start)):
        entry = content.external_data.add()
        entry.key, entry.value = key, str(value)
