"""Values as polynomials of others: one form for every association that exporters write."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping
from math import isfinite, nextafter

import numpy as np

from tilescope.engine.ir import Operation, Value
from tilescope.engine.transform.uses import Uses, function_of

__all__ = ["Algebra", "Polynomial", "Term", "agrees", "term"]

#: Powers of symbols, without those of power 0.
Term = frozenset[tuple[Hashable, int]]
#: Bounds of the coefficient of every term: a constant stands for all numbers that round to it.
Polynomial = dict[Term, tuple[float, float]]

#: Terms of a polynomial that is compared with a definition.
_MOST_TERMS = 12


class _Unlike(Exception):
    """A value is no polynomial of few terms."""


def term(**powers: int) -> Term:
    """Return a product of powers of symbols."""
    return frozenset((symbol, power) for symbol, power in powers.items())


def agrees(polynomial: Polynomial, terms: Mapping[Term, float]) -> bool:
    """Return whether a polynomial has the terms of a definition and may have its coefficients."""
    return polynomial.keys() == terms.keys() and all(
        low <= terms[key] <= high for key, (low, high) in polynomial.items()
    )


class Algebra:
    """Expands values in terms of symbols.

    Parameters
    ----------
    uses
        Of the model.
    symbols
        By value; a value without symbol that is not computed by arithmetic is its own.

    Attributes
    ----------
    inner
        Operations that were expanded.
    reached
        Values with a symbol that were found.
    """

    def __init__(self, uses: Uses, symbols: Mapping[Value, Hashable]) -> None:
        self.uses, self.symbols = uses, symbols
        self.inner: set[Operation] = set()
        self.reached: set[Value] = set()

    def polynomial(self, value: Value) -> Polynomial | None:
        """Return a value as a polynomial; None if it has too many terms, or divides by a sum."""
        try:
            return self._of(value)
        except _Unlike:
            return None

    def _of(self, value: Value) -> Polynomial:
        if value in self.symbols:
            self.reached.add(value)
            return _symbol(self.symbols[value])
        if value.known is not None:
            bounds = _bounds(value)
            return _symbol(value) if bounds is None else {term(): bounds}
        operation = self.uses.producer.get(value)
        function = function_of(operation)
        if operation is None or not all(v.dtype.startswith("float") for v in operation.operands):
            return _symbol(value)
        if function not in _RULES:
            return _symbol(value)
        polynomial = _RULES[function](*(self._of(operand) for operand in operation.operands))
        if len(polynomial) > _MOST_TERMS:
            raise _Unlike
        self.inner.add(operation)
        return polynomial


def _symbol(symbol: Hashable) -> Polynomial:
    return {frozenset({(symbol, 1)}): (1.0, 1.0)}


def _bounds(value: Value) -> tuple[float, float] | None:
    """Return the bounds of the numbers that round to a constant; None unless it is one number."""
    array = np.asarray(value.known)
    if array.size != 1 or array.dtype.kind != "f":
        return None
    (number,) = array.reshape(-1)
    if not isfinite(number):
        return None
    half = float(np.spacing(np.abs(number))) / 2 if number else 0.0
    return nextafter(float(number) - half, -np.inf), nextafter(float(number) + half, np.inf)


def _add(a: Polynomial, b: Polynomial) -> Polynomial:
    total = dict(a)
    for key, (low, high) in b.items():
        before = total.get(key, (0.0, 0.0))
        total[key] = before[0] + low, before[1] + high
    return total


def _negate(a: Polynomial) -> Polynomial:
    return {key: (-high, -low) for key, (low, high) in a.items()}


def _multiply(a: Polynomial, b: Polynomial) -> Polynomial:
    if len(a) * len(b) > _MOST_TERMS**2:
        raise _Unlike
    product: Polynomial = {}
    for of_a, (a_low, a_high) in a.items():
        for of_b, (b_low, b_high) in b.items():
            ends = (a_low * b_low, a_low * b_high, a_high * b_low, a_high * b_high)
            product = _add(product, {_product(of_a, of_b): (min(ends), max(ends))})
    return product


def _product(a: Term, b: Term) -> Term:
    powers: dict[Hashable, int] = defaultdict(int)
    for symbol, power in (*a, *b):
        powers[symbol] += power
    return frozenset((symbol, power) for symbol, power in powers.items() if power)


def _inverse(a: Polynomial) -> Polynomial:
    if len(a) != 1:
        raise _Unlike
    ((key, (low, high)),) = a.items()
    if low <= 0 <= high:
        raise _Unlike
    return {frozenset((symbol, -power) for symbol, power in key): (1 / high, 1 / low)}


_RULES: dict[str, Callable[..., Polynomial]] = {
    "add": _add,
    "cast": lambda a: a,
    "divide": lambda a, b: _multiply(a, _inverse(b)),
    "inverse": _inverse,
    "multiply": _multiply,
    "negate": _negate,
    "square": lambda a: _multiply(a, a),
    "subtract": lambda a, b: _add(a, _negate(b)),
}
