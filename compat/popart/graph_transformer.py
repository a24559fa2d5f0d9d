"""`GraphTransformer`: changes models before a session reads them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from popart.arguments import TEXTS
from popart.builder.external import save_initializers
from popart.builder.model_file import check, read_model
from popart.builder.tensor import array_of, tensor_of
from popart.errors import popart_exception

__all__ = ["GraphTransformer"]

_Types = onnx.TensorProto
_FIXED_POINT = frozenset(
    {
        _Types.UINT8,
        _Types.INT8,
        _Types.UINT16,
        _Types.INT16,
        _Types.INT32,
        _Types.INT64,
        _Types.UINT32,
        _Types.UINT64,
        _Types.BOOL,
    }
)
_Convert = Callable[[NDArray[Any]], NDArray[Any]]


class GraphTransformer:
    """A model and changes of it.

    Parameters
    ----------
    modelProtoOrFilename
        The model: its bytes or path.
    """

    def __init__(self, modelProtoOrFilename: str | bytes) -> None:
        self._model = read_model(modelProtoOrFilename)
        self._names: Counter[str] = Counter()

    def getModelProto(self) -> bytes:
        """Return the model as the bytes of an ONNX file."""
        return bytes(self._model.SerializeToString())

    # Types

    def _convert(self, name: str, old: int, new: int, convert: _Convert) -> None:
        """Change the type of all tensors that have one type.

        Parameters
        ----------
        name
            The method, for messages.
        old, new
            Types before and after.
        convert
            Returns the elements in the new type.
        """
        for content in self._contents(name):
            if content.data_type == old:
                elements = convert(array_of(content))
                replaced = onnx.numpy_helper.from_array(elements, content.name)
                content.CopyFrom(replaced)
        graph = self._model.graph
        for value in (*graph.input, *graph.output, *graph.value_info):
            if value.type.tensor_type.elem_type == old:
                value.type.tensor_type.elem_type = new

    def _contents(self, name: str) -> Iterator[onnx.TensorProto]:
        """Yield constants of nodes and initializers; refuse subgraphs."""
        graph = self._model.graph
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.TENSOR:
                    yield attribute.t
                elif attribute.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS):
                    raise popart_exception(
                        f"Attributes of type GRAPH and GRAPHS : need impl in {name}"
                    )
        yield from graph.initializer

    def convertFloatsToHalfs(self) -> None:
        """Change single precision to half."""
        with np.errstate(over="ignore"):
            self._convert(
                "convertFloatToHalf", _Types.FLOAT, _Types.FLOAT16, lambda x: x.astype(np.float16)
            )

    def convertDoublesToFloats(self) -> None:
        """Change double precision to single."""
        with np.errstate(over="ignore"):
            self._convert(
                "convertDoublesToFloats",
                _Types.DOUBLE,
                _Types.FLOAT,
                lambda x: x.astype(np.float32),
            )

    def convertDoublesToHalfs(self) -> None:
        """Change double precision to half."""
        with np.errstate(over="ignore"):
            self._convert(
                "convertDoublesToHalfs",
                _Types.DOUBLE,
                _Types.FLOAT16,
                lambda x: x.astype(np.float16),
            )

    def convertBFloats16ToFloat32(self) -> None:
        """Change the 16-bit floats with the exponent of single precision to single precision."""
        self._convert(
            "convertBFloats16ToFloat32",
            _Types.BFLOAT16,
            _Types.FLOAT,
            lambda x: x.astype(np.float32),
        )

    def convertUINT8ToINT32(self) -> None:
        """Change unsigned 8-bit integers to signed 32-bit ones."""
        self._widen("convertUINT8ToINT32", _Types.UINT8)

    def convertUINT16ToINT32(self) -> None:
        """Change unsigned 16-bit integers to signed 32-bit ones."""
        self._widen("convertUINT16ToINT32", _Types.UINT16)

    def convertINT8ToINT32(self) -> None:
        """Change 8-bit integers to 32-bit ones."""
        self._widen("convertINT8ToINT32", _Types.INT8)

    def convertINT16ToINT32(self) -> None:
        """Change 16-bit integers to 32-bit ones."""
        self._widen("convertINT16ToINT32", _Types.INT16)

    def _widen(self, name: str, old: int) -> None:
        self._convert(name, old, _Types.INT32, lambda x: x.astype(np.int32))

    def convertINT64ToINT32(self, clip: bool = False) -> None:
        """Change 64-bit integers to 32-bit ones.

        Parameters
        ----------
        clip
            Whether integers that 32 bits do not hold become the nearest; they are refused if not.
        """
        least, most = np.iinfo(np.int32).min, np.iinfo(np.int32).max

        def convert(elements: NDArray[Any]) -> NDArray[Any]:
            if not clip and ((elements < least) | (elements > most)).any():
                raise popart_exception(
                    "In convertINT64TensorToINT32, cannot cast int64 to int32: number is too"
                    " large. If you are sure you want still want to convert your tensor data, you"
                    " can set 'clip' to 'true'."
                )
            return elements.clip(least, most).astype(np.int32)

        self._convert("convertINT64ToINT32", _Types.INT64, _Types.INT32, convert)

    # Nodes, inputs and initializers

    def removeUnusedInputs(self) -> None:
        """Remove inputs and initializers that no node reads."""
        graph = self._model.graph
        read = {name for node in graph.node for name in node.input}
        for entries in (graph.input, graph.initializer):
            for entry in [entry for entry in entries if entry.name not in read]:
                entries.remove(entry)

    def prepareNodesForTraining(self) -> None:
        """Give batch normalisations the outputs that they have in training."""
        for node in self._model.graph.node:
            if node.op_type != "BatchNormalization":
                continue
            for place in range(len(node.output), 5):
                stem = f"BatchNormalization_{node.name}_oi{place}"
                node.output.append(f"{stem}_{self._names[stem]}")
                self._names[stem] += 1

    def convertInitializersToConstants(self, ids: Sequence[str]) -> None:
        """Make constants of initializers, so that nothing trains them.

        Parameters
        ----------
        ids
            Names of the initializers.
        """
        graph = self._model.graph
        names = TEXTS.convert(ids)
        contents = {content.name: content for content in graph.initializer}
        for name in names:
            if name not in contents:
                raise popart_exception(f"TensorId {name} not in the model initalizers")
        constants = [
            onnx.helper.make_node(
                "Constant", [], [name], name=name, value=tensor_of(array_of(contents[name]), name)
            )
            for name in dict.fromkeys(names)
        ]
        nodes = [*constants, *graph.node]
        del graph.node[:]
        graph.node.extend(nodes)
        for entries in (graph.initializer, graph.input):
            for entry in [entry for entry in entries if entry.name in set(names)]:
                entries.remove(entry)
        check(self._model)

    def convertAllFixedPointInitializersToConstants(self) -> None:
        """Make constants of all initializers of integers and truth values."""
        self.convertInitializersToConstants(
            [
                content.name
                for content in self._model.graph.initializer
                if content.data_type in _FIXED_POINT
            ]
        )

    def saveInitializersExternally(self, ids: Sequence[str], filename: str) -> None:
        """Move the contents of initializers into a file beside the model.

        Parameters
        ----------
        ids
            Names of the initializers.
        filename
            The file; what it holds is replaced.
        """
        save_initializers(self._model.graph, TEXTS.convert(ids), str(filename))
