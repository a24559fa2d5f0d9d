"""How a printed tensor looks, as Poplar's `PrintTensorFmt` says it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["FLOAT_FORMATS", "PrintFormat"]

#: Forms of floating-point numbers, by Poplar's numbers.
FLOAT_FORMATS = ("auto", "fixed", "scientific", "none")

#: More than any line or tensor has.
_UNLIMITED = 1 << 40

#: The least number that is written without an exponent, where both forms are allowed.
_LEAST_FIXED = 1e-4


@dataclass(frozen=True)
class PrintFormat:
    """How a printed tensor looks.

    Parameters
    ----------
    summarise_threshold
        Elements from which on only the first and last ones are shown; 0 shows all.
    edge_items
        How many of them in a dimension.
    max_line_width
        Characters of a line; 0 for one line in a row.
    digits
        Significant digits of floating-point numbers.
    float_format
        One of `FLOAT_FORMATS`.
    separator, open_bracket, close_bracket
        One character each.
    """

    summarise_threshold: int = 1000
    edge_items: int = 3
    max_line_width: int = 75
    digits: int = 8
    float_format: str = "auto"
    separator: str = " "
    open_bracket: str = "["
    close_bracket: str = "]"

    def text(self, values: NDArray[Any]) -> str:
        """Return the text of a tensor: numbers of equal width in nested brackets."""
        numbers = values.astype(np.int8) if values.dtype == np.bool_ else values
        form = self._form(numbers)
        width = max((len(format(v, form)) for v in self._shown(numbers)), default=0)

        def aligned(value: Any) -> str:
            return format(value, form).rjust(width)

        text = np.array2string(
            numbers,
            max_line_width=self.max_line_width or _UNLIMITED,
            threshold=self.summarise_threshold or _UNLIMITED,
            edgeitems=self.edge_items,
            separator=self.separator,
            formatter={"all": aligned},
        )
        return text.translate({ord("["): self.open_bracket, ord("]"): self.close_bracket})

    def _shown(self, values: NDArray[Any]) -> list[Any]:
        """Return the elements that the text has."""
        if not self.summarise_threshold or values.size <= self.summarise_threshold:
            return list(values.reshape(-1))
        for axis, size in enumerate(values.shape):
            if size > 2 * self.edge_items:
                edges = [*range(self.edge_items), *range(size - self.edge_items, size)]
                values = values.take(edges, axis)
        return list(values.reshape(-1))

    def _form(self, values: NDArray[Any]) -> str:
        """Return the format of a number, as Python states it."""
        if values.dtype.kind != "f" or self.float_format == "none":
            return ""
        finite = np.abs(values[np.isfinite(values)].astype(np.float64))
        most = float(finite.max(initial=0))
        least = float(finite[finite > 0].min(initial=math.inf))
        is_wide = most >= 10.0**self.digits or least < _LEAST_FIXED
        if self.float_format == "scientific" or (self.float_format == "auto" and is_wide):
            return f".{max(self.digits - 1, 0)}e"
        whole = math.floor(math.log10(most)) if most >= 1 else 0
        return f".{max(self.digits - 1 - whole, 0)}f"
