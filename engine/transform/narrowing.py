"""What a model computes in 64 bits and the machine in 32."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tilescope.engine.ir import Model, Parameter, Value
from tilescope.engine.ir.model import walk
from tilescope.engine.notice import Notice

__all__ = ["narrowed_types"]

#: Primitives whose results are elements of their operands: what fits once, fits again.
_MOVING = frozenset({"reshape", "transpose", "slice", "concat", "take", "select"})


def narrowed_types(model: Model) -> tuple[Notice, ...]:
    """Return a notice for each type of 64 bits that the device holds in 32.

    Parameters
    ----------
    model
        After all passes: what is folded is computed in full.
    """
    every = list(walk(model.operations))
    used: list[Value] = [value for operation in every for value in operation.results]
    doubles = [*model.inputs, *used]
    doubles += [v for o in every for v in o.operands if isinstance(v, Parameter)]
    computed = (v for o in every if o.operator.name not in _MOVING for v in o.results)
    return (
        *_sentences(doubles, "float64", "float32: digits beyond the seventh are lost"),
        *_sentences(computed, "int64", "int32: results beyond 2,147,483,647 wrap around"),
    )


def _sentences(values: Iterable[Value], dtype: str, subject: str) -> Iterator[Notice]:
    """Return a sentence that counts the values of a type, or none."""
    names = list(dict.fromkeys(value.name for value in values if value.dtype == dtype))
    if names:
        rest = f" and {len(names) - 1:,} more are" if len(names) > 1 else " is"
        sentence = f"The machine has no {dtype}: {names[0][:80]!r}{rest} computed in {subject}."
        yield Notice("info", "narrowed_type", sentence)
