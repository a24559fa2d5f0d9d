"""Programs: what the machine does, in which order."""

from engine.program.program import (
    Copy,
    Execute,
    Program,
    Repeat,
    Sequence,
    StreamCopyIn,
    StreamCopyOut,
    WriteUndef,
)

__all__ = [
    "Copy",
    "Execute",
    "Program",
    "Repeat",
    "Sequence",
    "StreamCopyIn",
    "StreamCopyOut",
    "WriteUndef",
]
