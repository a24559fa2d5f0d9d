"""Host streams: user-supplied arrays and functions that a program reads from and writes to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilescope.engine.arguments import a_text, numbers
from tilescope.engine.channels import DRIVERS
from tilescope.engine.compiler.executable.executable import StreamAccess
from tilescope.engine.errors import BadInput, CallbackFailed, said
from tilescope.engine.execute.host_arenas import HostMemory
from tilescope.tracepoints import Tracepoint

__all__ = ["HostStreams", "call_back"]


class HostStreams:
    """The connections of one engine's streams, and the values written to them."""

    def __init__(self) -> None:
        self._sources: dict[str, Any] = {}
        self._outputs: dict[str, NDArray[Any]] = {}

    def connect(self, stream: str, source: ArrayLike | Callable[..., Any]) -> None:
        """Connect a stream to an array or a function.

        Raises
        ------
        BadGraph
            When the stream's name is not a string.
        """
        self._sources[a_text("The name of a stream", stream)] = source

    def output(self, stream: str) -> NDArray[Any]:
        """Return the values last written to an output stream.

        Raises
        ------
        BadGraph
            When the stream's name is not a string.
        BadInput
            When no run has written to it.
        """
        if a_text("The name of a stream", stream) not in self._outputs:
            raise BadInput(f"No run has written to stream {stream!r}")
        return self._outputs[stream]

    def copy(self, access: StreamAccess, memory: HostMemory) -> None:
        """Execute a copy step of a program.

        Raises
        ------
        BadInput
            When nothing is connected, or an array has the wrong shape.
        CallbackFailed
            When the connected function raised.
        """
        with Tracepoint(DRIVERS, access.stream):
            self._copy(access, memory)

    def _copy(self, access: StreamAccess, memory: HostMemory) -> None:
        """Execute a copy step.

        Raises
        ------
        BadInput
            When nothing is connected.
        """
        stream = access.stream
        source = self._sources.get(stream)
        if access.is_input:
            if source is None:
                raise BadInput(
                    f"Stream {stream!r} is not connected: call connect_stream before run"
                )
            subject = f"The function connected to stream {stream!r}"
            array = call_back(subject, source) if callable(source) else source
            memory.write(access.tensor, numbers(f"The values of stream {stream!r}", array), stream)
            return
        values = memory.read(access.tensor)
        self._outputs[stream] = values
        if callable(source):
            call_back(f"The function connected to stream {stream!r}", source, values)
        elif source is not None:
            _fill(stream, source, values)


def call_back(subject: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a user-supplied function.

    Raises
    ------
    CallbackFailed
        When it raised; its exception is the cause.
    """
    try:
        return function(*arguments)
    except Exception as error:
        raise CallbackFailed(
            f"{subject} raised {said(error)}. The run ends there: fix the function; its traceback"
            " is the cause of this error"
        ) from error


def _fill(stream: str, target: Any, values: NDArray[Any]) -> None:
    """Copy the output of a stream into the connected array."""
    is_array = isinstance(target, np.ndarray)
    if not is_array or target.shape != values.shape or target.dtype != values.dtype:
        stated = f"{target.dtype} {target.shape}" if is_array else type(target).__name__
        raise BadInput(
            f"Stream {stream!r} writes {values.dtype} {values.shape}: connect such an array, or a"
            f" function that takes it, not {stated}"
        )
    target[...] = values
