"""Reference implementations of all codelets, one simple function per codelet.

A function takes the fields as arrays of float64 (or int64) with the shapes of their regions, and
the scalars, and returns the output, or a tuple of them. `counts` are the sizes of the last output.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any

import numpy as np
from scipy import special
from tests.oracle.naive_alignments import ALIGNMENTS
from tests.oracle.naive_beams import BEAMS
from tests.oracle.naive_regions import regions_backward

from tilescope.engine.codelets.popops.elementwise.operations import TO_BOOL

Fields = Mapping[str, np.ndarray]
Naive = Callable[[Fields, Mapping[str, Any], tuple[int, ...]], Any]

UNARY: dict[str, Callable[[float], float]] = {
    "relu": lambda x: max(x, 0),
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "tanh": math.tanh,
    "exp": math.exp,
    "log": math.log,
    "sqrt": math.sqrt,
    "inverse": lambda x: 1 / x,
    "negate": lambda x: -x,
    "absolute": abs,
    "square": lambda x: x * x,
    "erf": math.erf,
    "sign": lambda x: (x > 0) - (x < 0),
    "ceil": math.ceil,
    "floor": math.floor,
    "trunc": math.trunc,
    "nearby_int": round,
    "round": lambda x: math.copysign(math.floor(abs(x) + 0.5), x),
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "asin": math.asin,
    "atan": math.atan,
    "rsqrt": lambda x: 1 / math.sqrt(x),
    "cbrt": lambda x: math.copysign(abs(x) ** (1 / 3), x),
    "exp2": lambda x: 2.0**x,
    "expm1": math.expm1,
    "log1p": math.log1p,
    "gelu_erf": lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2,
    "is_nan": math.isnan,
    "is_inf": math.isinf,
    "is_finite": math.isfinite,
}
NON_LINEAR: dict[str, Callable[[float], float]] = {
    "gelu": lambda x: x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "swish": lambda x: x / (1 + math.exp(-x)),
}


def _gelu_slope(x: float) -> float:
    line = math.sqrt(2 / math.pi)
    rise = math.tanh(line * (x + 0.044715 * x**3))
    return (1 + rise + x * (1 - rise * rise) * line * (1 + 3 * 0.044715 * x * x)) / 2


#: Slopes at a result, or at an operand.
SLOPES: dict[str, Callable[[float], float]] = {
    "relu": lambda y: float(y > 0),
    "sigmoid": lambda y: y * (1 - y),
    "tanh": lambda y: 1 - y * y,
    "gelu": _gelu_slope,
    "gelu_erf": lambda x: (
        (1 + math.erf(x / math.sqrt(2))) / 2 + x * math.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    ),
    "swish": lambda x: (1 + math.exp(-x) * (1 + x)) / (1 + math.exp(-x)) ** 2,
}
#: Functions of integers or bools only.
UNARY_OF_WHOLE: dict[str, Callable[[Any], Any]] = {
    "bitwise_not": lambda x: ~int(x),
    "count_leading_zeros": lambda x: 32 - (int(x) % 2**32).bit_length(),
    "popcount": lambda x: (int(x) % 2**32).bit_count(),
    "logical_not": lambda x: not x,
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
    "maximum": max,
    "minimum": min,
    "power": lambda a, b: a**b,
    "remainder": math.fmod,
    "atan2": math.atan2,
    "equal": lambda a, b: a == b,
    "not_equal": lambda a, b: a != b,
    "less": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
    "greater": lambda a, b: a > b,
    "greater_equal": lambda a, b: a >= b,
}
BINARY_OF_WHOLE: dict[str, Callable[[Any, Any], Any]] = {
    "bitwise_and": lambda a, b: int(a) & int(b),
    "bitwise_or": lambda a, b: int(a) | int(b),
    "bitwise_xnor": lambda a, b: ~(int(a) ^ int(b)),
    "bitwise_xor": lambda a, b: int(a) ^ int(b),
    "shift_left": lambda a, b: int(a) << int(b),
    "shift_right": lambda a, b: int(a) % 2**32 >> int(b) if b else int(a),
    "shift_right_sign_extend": lambda a, b: int(a) >> int(b),
    "logical_and": lambda a, b: bool(a) and bool(b),
    "logical_or": lambda a, b: bool(a) or bool(b),
}
TERNARY: dict[str, Callable[[Any, Any, Any], Any]] = {
    "select": lambda a, b, chooser: a if chooser else b,
    "clamp": lambda x, low, high: min(max(x, low), high),
}
REDUCTIONS: dict[str, Callable[[list[float]], float]] = {
    "sum": sum,
    "square_sum": lambda values: sum(value * value for value in values),
    "maximum": max,
    "minimum": min,
    "product": math.prod,
    "log_add": lambda values: float(np.logaddexp.reduce(values)),
    "logical_and": all,
    "logical_or": any,
}
REINTERPRET: dict[str, Callable[[Any], Any]] = {
    "float,int": lambda value: struct.unpack("<i", struct.pack("<f", value))[0],
    "int,float": lambda value: struct.unpack("<f", struct.pack("<i", value))[0],
}


def _unary(function: Callable[[float], float]) -> Naive:
    def run(fields: Fields, _: Mapping[str, Any], counts: tuple[int, ...]) -> np.ndarray:
        x = fields["x"]
        assert x.shape == counts
        return np.array([function(value) for value in x.reshape(-1).tolist()]).reshape(counts)

    return run


def _binary(function: Callable[[float, float], float]) -> Naive:
    def run(fields: Fields, _: Mapping[str, Any], counts: tuple[int, ...]) -> np.ndarray:
        pairs = zip(fields["a"].reshape(-1).tolist(), fields["b"].reshape(-1).tolist(), strict=True)
        return np.array([function(a, b) for a, b in pairs]).reshape(counts)

    return run


def _gradient(slope: Callable[[float], float]) -> Naive:
    """Return the function that multiplies gradients by slopes."""

    def run(fields: Fields, _: Mapping[str, Any], counts: tuple[int, ...]) -> np.ndarray:
        slopes = [slope(value) for value in fields["act"].reshape(-1).tolist()]
        return np.array(slopes).reshape(counts) * fields["gradient"]

    return run


def _ternary(function: Callable[[Any, Any, Any], Any]) -> Naive:
    def run(fields: Fields, _: Mapping[str, Any], counts: tuple[int, ...]) -> np.ndarray:
        triples = zip(*(fields[name].reshape(-1).tolist() for name in "abc"), strict=True)
        return np.array([function(a, b, c) for a, b, c in triples]).reshape(counts)

    return run


def _shared_row(function: Callable[[Any, Any], Any]) -> Naive:
    def run(fields: Fields, _: Mapping[str, Any], counts: tuple[int, ...]) -> np.ndarray:
        out = np.zeros(counts)
        for p, r, c in np.ndindex(*counts):
            row = fields["b"][p if len(fields["b"]) > 1 else 0]
            out[p, r, c] = function(fields["a"][p, r, c], row[c])
        return out

    return run


def _copy(fields: Fields, _: Mapping[str, Any], counts: tuple[int, ...]) -> np.ndarray:
    assert fields["x"].shape == counts
    return fields["x"]


def _fill(_: Fields, scalars: Mapping[str, Any], counts: tuple[int, ...]) -> np.ndarray:
    return np.full(counts, scalars["value"])


def _sum_partials(fields: Fields, _: Mapping[str, Any], counts: tuple[int, ...]) -> np.ndarray:
    total = np.zeros(counts)
    for row in fields["partials"]:
        total += row
    return total


def _reduce(name: str, *, is_update: bool = False) -> Naive:
    function = REDUCTIONS[name]

    def run(fields: Fields, scalars: Mapping[str, Any], counts: tuple[int, ...]) -> np.ndarray:
        x, out = fields["x"], np.zeros(counts)
        d = 2 if x.shape[2] > 1 else 3
        size, n_sections = x.shape[d], counts[0]
        for section, plane, column in np.ndindex(*counts):
            mine = range(section * size // n_sections, (section + 1) * size // n_sections)
            values = np.take(x, mine, axis=d)[plane, column].reshape(-1).tolist()
            total = function(values)
            scale = fields["scale"].item() if "scale" in fields else scalars["scale"]
            scaled = total + scale if name == "log_add" else total * scale
            if is_update:
                held = fields["out"][section, plane, column]
                scaled = (
                    math.log(math.exp(held) + math.exp(scaled))
                    if name == "log_add"
                    else (held + scaled)
                )
            out[section, plane, column] = scaled
        return out

    return run


def _window(scalars: Mapping[str, Any], oy: int, ox: int, ky: int, kx: int) -> tuple[int, int]:
    """Return the position in the region of a window's element."""
    return (
        oy * scalars["stride_y"] + ky * scalars["dilation_y"] + scalars["shift_y"],
        ox * scalars["stride_x"] + kx * scalars["dilation_x"] + scalars["shift_x"],
    )


def _convolve(fields: Fields, scalars: Mapping[str, Any], counts: tuple[int, ...]) -> np.ndarray:
    """Sum over kernel positions and inputs; interleaved groups do not mix."""
    x, w = fields["x"], fields["w"]
    out = np.zeros(counts)
    n_in_groups, height, width, n_channels = x.shape[2:]
    n_inside = n_channels // w.shape[5]
    n_in, n_out = w.shape[5], w.shape[6] // n_inside
    for g, n, o, oy, ox, i, ky, kx in product(
        *(range(count) for count in counts[:5]), range(n_in_groups), *map(range, w.shape[3:5])
    ):
        iy, ix = _window(scalars, oy, ox, ky, kx)
        if not (0 <= iy < height and 0 <= ix < width):
            continue
        for inside in range(n_inside):
            ins = slice(inside * n_in, (inside + 1) * n_in)
            outs = slice(inside * n_out, (inside + 1) * n_out)
            out[g, n, o, oy, ox, outs] += x[g, n, i, iy, ix, ins] @ w[g, o, i, ky, kx, :, outs]
    return out


def _pool(*, is_max: bool) -> Naive:
    def run(fields: Fields, scalars: Mapping[str, Any], counts: tuple[int, ...]) -> np.ndarray:
        x = fields["x"]
        out = np.zeros(counts)
        kernel = (scalars["kernel_height"], scalars["kernel_width"])
        for oy, ox in product(range(counts[0]), range(counts[1])):
            positions = [_window(scalars, oy, ox, *k) for k in product(*map(range, kernel))]
            visited = [
                x[iy, ix] for iy, ix in positions if 0 <= iy < x.shape[0] and 0 <= ix < x.shape[1]
            ]
            if is_max:
                out[oy, ox] = np.max(visited, axis=0)
            else:
                n = (1, len(visited) or 1, kernel[0] * kernel[1])[scalars["divisor"]]
                out[oy, ox] = np.sum(visited, axis=0) / n
        return out

    return run


def _taps(scalars: Mapping[str, Any], results: tuple[int, ...]) -> Any:
    """Yield a result of a pool, and the row and column of an element of its window."""
    kernel = (scalars["kernel_height"], scalars["kernel_width"])
    for oy, ox in product(*map(range, results[:2])):
        for taps in product(*map(range, kernel)):
            yield (oy, ox), _window({**scalars, "shift_y": 0, "shift_x": 0}, oy, ox, *taps)


def _pool_gradient(
    fields: Fields, scalars: Mapping[str, Any], counts: tuple[int, ...]
) -> np.ndarray:
    gradient, out = fields["gradient"], np.zeros(counts)
    for result, (y, x) in _taps(scalars, gradient.shape):
        at = (y - scalars["shift_y"], x - scalars["shift_x"])
        if 0 <= at[0] < counts[0] and 0 <= at[1] < counts[1]:
            is_largest = "x" not in fields or fields["x"][at] == fields["pooled"][result]
            out[at] += gradient[result] * is_largest
    return out


def _pool_scale(fields: Fields, scalars: Mapping[str, Any], counts: tuple[int, ...]) -> np.ndarray:
    x, count = fields["x"], np.zeros(counts)
    for result, (row, column) in _taps(scalars, counts):
        at = (row + scalars["shift_y"], column + scalars["shift_x"])
        if 0 <= at[0] < x.shape[0] and 0 <= at[1] < x.shape[1]:
            count[result] += x[at] == fields["pooled"][result]
    return np.divide(1, count, out=np.zeros(counts), where=count > 0)


def _scaled_add(fields: Fields, _: Mapping[str, Any], counts: tuple[int, ...]) -> np.ndarray:
    (scale,) = fields["scale"].tolist()
    pairs = zip(fields["a"].reshape(-1).tolist(), fields["b"].reshape(-1).tolist(), strict=True)
    return np.array([a + scale * b for a, b in pairs]).reshape(counts)


def _dynamic_slice(fields: Fields, _: Mapping[str, Any], counts: tuple[int, ...]) -> np.ndarray:
    base, first = fields["base"], int(fields["offset"][0])
    n_rows = base.shape[1]
    first = first if 0 <= first < n_rows else 0
    rows = [(first + i) % n_rows for i in range(counts[1])]
    return np.stack([base[:, row] for row in rows], axis=1)


def _dynamic_update(fields: Fields, _: Mapping[str, Any], __: tuple[int, ...]) -> np.ndarray:
    base, first = fields["base"].copy(), int(fields["offset"][0])
    n_rows = base.shape[1]
    first = first if 0 <= first < n_rows else 0
    for i in range(fields["sub"].shape[1]):
        base[:, (first + i) % n_rows] = fields["sub"][:, i]
    return base


def _multi_slice(fields: Fields, scalars: Mapping[str, Any], counts: tuple[int, ...]) -> np.ndarray:
    out = np.zeros(counts)
    for g, k in np.ndindex(*counts[:2]):
        row = int(fields["offsets"][g, k]) - scalars["base_offset"]
        if 0 <= row < fields["base"].shape[1]:
            out[g, k] = fields["base"][g, row]
    return out


def _multi_slice_parts(fields: Fields, _: Mapping[str, Any], counts: tuple[int, ...]) -> np.ndarray:
    out = np.zeros(counts)
    for g, k in np.ndindex(*counts[:2]):
        part = int(fields["offsets"][g, k])
        out[g, k] = fields["base"][part if 0 <= part < fields["base"].shape[0] else 0, g, k]
    return out


UPDATES: dict[str, Callable[[float, float], float]] = {
    "add": lambda old, new: old + new,
    "multiply": lambda old, new: old * new,
    "maximum": max,
    "minimum": min,
}


def _multi_update(function: Callable[[float, float], float]) -> Naive:
    def run(fields: Fields, scalars: Mapping[str, Any], _: tuple[int, ...]) -> np.ndarray:
        out = fields["base"].copy()
        scale = scalars.get("scale", 1)
        for g, k in np.ndindex(*fields["offsets"].shape):
            row = int(fields["offsets"][g, k]) - scalars["base_offset"]
            if 0 <= row < out.shape[1]:
                for c in range(out.shape[2]):
                    out[g, row, c] = function(out[g, row, c], fields["sub"][g, k, c] * scale)
        return out

    return run


def _iota(_: Fields, scalars: Mapping[str, Any], counts: tuple[int, ...]) -> np.ndarray:
    return np.array([[scalars["begin"] + i for i in range(counts[1])]] * counts[0])


def _compare_and_swap(
    fields: Fields, scalars: Mapping[str, Any], _: tuple[int, ...]
) -> tuple[np.ndarray, ...]:
    """Order every pair; pairs are (key, value), or keys alone."""
    names = [name for name in ("low", "high", "low_value", "high_value") if name in fields]
    out = {name: fields[name].copy() for name in names}
    sign = -1 if scalars["is_descending"] else 1
    for offset in np.ndindex(*fields["low"].shape):
        first, second = fields["low"][offset], fields["high"][offset]
        is_wrong = sign * second < sign * first
        if first == second and scalars.get("is_stable"):
            is_wrong = fields["high_value"][offset] < fields["low_value"][offset]
        if is_wrong:
            for low, high in (("low", "high"), ("low_value", "high_value")):
                if low in fields:
                    out[low][offset], out[high][offset] = fields[high][offset], fields[low][offset]
    return tuple(out[name] for name in names)


def _substitute(*, is_lower: bool) -> Naive:
    def solve(fields: Fields, _: Mapping[str, Any], __: tuple[int, ...]) -> np.ndarray:
        """Solve with the triangle of a matrix whose diagonal counts as ones."""
        a = np.tril(fields["a"], -1) if is_lower else np.triu(fields["a"], 1)
        x: np.ndarray = np.linalg.solve(a.astype(float) + np.eye(len(a)), fields["b"].astype(float))
        return x

    return solve


def _cholesky(fields: Fields, _: Mapping[str, Any], __: tuple[int, ...]) -> np.ndarray:
    """Factorise the lower triangle; the upper one stays."""
    a = np.asarray(fields["a"], float)
    whole = np.tril(a) + np.tril(a, -1).T
    factor: np.ndarray = np.tril(np.linalg.cholesky(whole)) + np.triu(a, 1)
    return factor


def _sparse_product(size: int) -> Naive:
    """Multiply the blocks of every row, one element after the other."""

    def run(fields: Fields, _: Mapping[str, Any], __: tuple[int, ...]) -> np.ndarray:
        places = [int(place) for place in fields["places"]]
        blocks = np.asarray(fields["values"]).reshape(-1, size, size).tolist()
        rows = []
        while places:
            n_blocks, places = places[0], places[1:]
            chosen, places = places[:n_blocks], places[n_blocks:]
            n = len(fields["dense"][chosen[0]]) // size
            total = np.zeros((size, n))
            for place in chosen:
                block = blocks.pop(0)
                dense = np.asarray(fields["dense"][place]).reshape(size, n)
                for i, c, j in product(range(size), range(size), range(n)):
                    total[i, j] += block[i][c] * dense[c, j]
            rows.append(total.reshape(-1))
        return np.concatenate(rows)

    return run


def _own_blocks(fields: Fields, part: int) -> Iterator[tuple[int, int, int]]:
    """Yield the slot, row and column of every block of a part in a bucket."""
    places = [int(place) for place in fields["places"]]
    slot = 0
    while places and places[0]:
        number, n_rows, *places = places
        for _ in range(n_rows):
            row, n_blocks, *places = places
            for column in places[:n_blocks]:
                if number == part + 1:
                    yield slot, row, column
                slot += 1
            places = places[n_blocks:]


def _bucket_product(size: int, *, is_transposed: bool) -> Naive:
    def run(fields: Fields, scalars: Mapping[str, Any], _: tuple[int, ...]) -> np.ndarray:
        width = scalars["width"]
        blocks = np.asarray(fields["values"]).reshape(-1, size, size)
        dense = np.asarray(fields["dense"]).reshape(-1, size, width)
        out = np.array(fields["out"], float).reshape(-1, size, width)
        for slot, row, column in _own_blocks(fields, scalars["part"]):
            if is_transposed:
                out[column] += blocks[slot].T @ dense[row]
            else:
                out[row] += blocks[slot] @ dense[column]
        return out

    return run


def _bucket_gradient(size: int) -> Naive:
    def run(fields: Fields, scalars: Mapping[str, Any], _: tuple[int, ...]) -> np.ndarray:
        gradient, dense = (
            np.asarray(fields[name]).reshape(-1, size, scalars["width"])
            for name in ("gradient", "dense")
        )
        out = np.array(fields["out"], float).reshape(-1, size, size)
        for slot, row, column in _own_blocks(fields, scalars["part"]):
            out[slot] = gradient[row] @ dense[column].T
        return out

    return run


def _look_up(*, is_update: bool) -> Naive:
    """Copy the values of rows that are looked up, or add to them."""

    def run(fields: Fields, scalars: Mapping[str, Any], _: tuple[int, ...]) -> np.ndarray:
        values = np.array(fields["values"], float)
        slices = np.array(fields["slices"], float).reshape(-1, scalars["width"])
        for slot, row, column in _own_blocks(fields, scalars["part"]):
            for k, wanted in enumerate(fields["lookups"]):
                if wanted != row + scalars["first_row"]:
                    continue
                if is_update:
                    values[slot] += fields["scale"][0] * slices[k, column]
                else:
                    slices[k, column] = values[slot]
        return values if is_update else slices

    return run


def _triangular_inverse(
    fields: Fields, scalars: Mapping[str, Any], counts: tuple[int, ...]
) -> np.ndarray:
    """Return columns of the inverse as rows."""
    inverse = np.linalg.inv(np.tril(np.asarray(fields["a"], float)))
    rows: np.ndarray = inverse.T[scalars["first"] : scalars["first"] + counts[0]]
    return rows


def _cumulative_sum(
    fields: Fields, scalars: Mapping[str, Any], _: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    out = np.zeros(fields["x"].shape)
    total = np.zeros(fields["x"].shape[:2])
    for p, r, c in np.ndindex(*out.shape):
        before, total[p, r] = total[p, r], total[p, r] + fields["x"][p, r, c]
        out[p, r, c] = before if scalars["is_exclusive"] else total[p, r]
    return out, total


def _add_carry(fields: Fields, _: Mapping[str, Any], _counts: tuple[int, ...]) -> np.ndarray:
    return fields["out"] + fields["carry"][:, :, None]


def _histogram(fields: Fields, scalars: Mapping[str, Any], counts: tuple[int, ...]) -> np.ndarray:
    out = np.zeros(counts)
    for value in fields["data"].tolist():
        size = abs(value) if scalars["is_absolute"] else value
        out[sum(size >= limit for limit in fields["limits"].tolist())] += 1
    return out


def _chosen(name: str, values: np.ndarray, is_last: Any) -> int:
    """Return the position of the largest or smallest value."""
    signed = values if "Max" in name else -values
    return int(len(values) - 1 - np.argmax(signed[::-1]) if is_last else np.argmax(signed))


def _arg_gather(name: str) -> Naive:
    def run(
        fields: Fields, scalars: Mapping[str, Any], counts: tuple[int, ...]
    ) -> tuple[np.ndarray, ...]:
        x, share = fields["x"], int(scalars["share"])
        parts = [x[i * share : (i + 1) * share] for i in range(counts[0])]
        offset = [_chosen(name, part, scalars["is_last"]) for part in parts]
        values = [part[i] for part, i in zip(parts, offset, strict=True)]
        positions = [scalars["offset"] + k * share + i for k, i in enumerate(offset)]
        return np.array(values), np.array(positions)

    return run


def _arg_sparse(name: str) -> Naive:
    def run(
        fields: Fields, scalars: Mapping[str, Any], _: tuple[int, ...]
    ) -> tuple[np.ndarray, ...]:
        offset = _chosen(name, fields["values"], scalars["is_last"])
        return fields["values"][[offset]], fields["indices"][[offset]]

    return run


def _one_hot(fields: Fields, scalars: Mapping[str, Any], _: tuple[int, ...]) -> np.ndarray:
    out = fields["out"].copy()
    for row, index in enumerate(fields["indices"].tolist()):
        if 0 <= index - scalars["offset"] < out.shape[1]:
            out[row, int(index) - scalars["offset"]] = scalars["value"]
    return out


def _cross_entropy(fields: Fields, scalars: Mapping[str, Any], _: tuple[int, ...]) -> Any:
    p, label = fields["outputs"], fields["expected"]
    (scale,), (factor,) = fields["output_scale"].tolist(), fields["deltas_scale"].tolist()
    logarithms = np.log(p + scalars["epsilon"]) - math.log(scale)
    return (p - scale * label) * factor / scale, -label * logarithms


def _sum_squared(fields: Fields, _: Mapping[str, Any], __: tuple[int, ...]) -> Any:
    delta = fields["outputs"] - fields["expected"]
    return delta, delta**2 / 2


def _accuracy(fields: Fields, _: Mapping[str, Any], __: tuple[int, ...]) -> np.ndarray:
    pairs = zip(fields["predicted"].tolist(), fields["expected"].tolist(), strict=True)
    return np.asarray(fields["n_correct"] + sum(a == b != -1 for a, b in pairs))


def _inverse_std_deviation(
    fields: Fields, scalars: Mapping[str, Any], _: tuple[int, ...]
) -> np.ndarray:
    variance = fields["power"]
    if not scalars["is_stable"]:
        variance = np.maximum(variance - fields["mean"] ** 2, 0)
    return np.asarray(1 / np.sqrt((variance + scalars["epsilon"]) * scalars["scale"]))


def naive_philox(counter: list[int], key: list[int]) -> list[int]:
    """Return Philox4x32-10 of a counter of four and a key of two 32-bit numbers."""
    c, k = list(counter), list(key)
    for _ in range(10):
        high, low = divmod(0xD2511F53 * c[0], 2**32)
        other_high, other_low = divmod(0xCD9E8D57 * c[2], 2**32)
        c = [other_high ^ c[1] ^ k[0], other_low, high ^ c[3] ^ k[1], low]
        k = [(k[0] + 0x9E3779B9) % 2**32, (k[1] + 0xBB67AE85) % 2**32]
    return c


def _position(element: int, scalars: Mapping[str, Any]) -> int:
    """Return the position in the tensor of an element in memory order, digit by digit."""
    sizes = [int(scalars[f"size_{i}"]) for i in range(6)]
    sizes = sizes[: sizes.index(0)]
    position = 0
    for i, size in enumerate(sizes):
        element, digit = divmod(element, size)
        position += digit * int(scalars[f"step_{i}"])
    return position + element * int(scalars[f"step_{len(sizes)}"])


def _random(draw: Callable[[int, Mapping[str, Any]], float]) -> Naive:
    """Return the function of a distribution: `draw` takes 32 bits and the scalars."""

    def run(fields: Fields, scalars: Mapping[str, Any], counts: tuple[int, ...]) -> np.ndarray:
        key = [int(k) % 2**32 for k in fields["seed"]]
        steps = [scalars[name] for name in ("by_plane", "by_row", "by_column")]
        out = np.zeros(counts)
        for index in np.ndindex(*counts):
            element = scalars["index"] + sum(i * s for i, s in zip(index, steps, strict=True))
            position = _position(int(element), scalars)
            counter = [position // 4 % 2**32, position // 4 >> 32, scalars["modifier"], 0]
            value = draw(naive_philox(counter, key)[position % 4], scalars)
            out[index] = value * fields["x"][index] if "x" in fields else value
        return out

    return run


def _truncated(bits: int, s: Mapping[str, Any]) -> float:
    inside = s["below"] + (1 - 2 * s["below"]) * ((bits + 0.5) / 2**32)
    return float(s["mean"] + s["deviation"] * special.ndtri(inside))


def _stochastic_cast(
    fields: Fields, scalars: Mapping[str, Any], counts: tuple[int, ...]
) -> np.ndarray:
    """Return one of the two halves beside every number, by the bits of its position."""
    bits = _random(lambda drawn, _: float(drawn))
    drawn = bits({"seed": fields["seed"]}, scalars, counts)
    out = np.zeros(counts)
    for index in np.ndindex(*counts):
        x = float(fields["x"][index])
        near = np.float16(x)
        if not np.isfinite(near) or abs(x) >= 65504 or float(near) == x:
            out[index] = near
            continue
        other = np.nextafter(near, np.float16(np.inf if float(near) < x else -np.inf))
        below, above = sorted((float(near), float(other)))
        share = (x - below) / (above - below)
        out[index] = above if drawn[index] / 2**32 < share else below
    return out


RANDOM = {
    "Uniform": lambda bits, s: s["a"] + s["b"] * (bits >> 8) / 2**24,
    "UniformInt": lambda bits, s: int(s["a"]) + (bits * int(s["b"]) >> 32),
    "Bernoulli": lambda bits, s: float(bits < s["a"]),
    "Normal": lambda bits, s: s["a"] + s["b"] * special.ndtri((bits + 0.5) / 2**32),
    "TruncatedNormal": _truncated,
    "Dropout": lambda bits, s: s["factor"] if bits < s["threshold"] else 0.0,
}


def _map(text: str) -> Naive:
    """Return the function of an expression such as ``add(_1,k1)``, by Python's own evaluation."""
    code = compile(text, "<expression>", "eval")

    def run(fields: Fields, scalars: Mapping[str, Any], counts: tuple[int, ...]) -> np.ndarray:
        columns = [fields[name].reshape(-1).tolist() for name in sorted(fields)]
        known = {**UNARY, **BINARY, **TERNARY, **scalars}
        rows = zip(*columns, strict=True)
        names = [f"_{i + 1}" for i in range(len(columns))]
        results = [eval(code, known | dict(zip(names, row, strict=True))) for row in rows]
        return np.array(results).reshape(counts)

    return run


def _words(count: int) -> np.ndarray:
    """Return a count as two words of 32 bits, the lower one first."""
    return np.array([count % 2**32, count // 2**32])


def _cycle_stamp(_: Fields, scalars: Mapping[str, Any], __: tuple[int, ...]) -> np.ndarray:
    return _words(scalars["clock"] + 45)


def _cycle_count(fields: Fields, scalars: Mapping[str, Any], _: tuple[int, ...]) -> np.ndarray:
    low, high = fields["start"].tolist()
    return _words(scalars["clock"] - low - high * 2**32)


def _ring(size: int, is_interleaved: int) -> list[int]:
    """Return the members of a ring: up those with even numbers, and down the others."""
    members = list(range(size))
    return members[::2] + members[1::2][::-1] if is_interleaved else members


def _ring_index(fields: Fields, scalars: Mapping[str, Any], _: tuple[int, ...]) -> np.ndarray:
    size = scalars["size"]
    ring = _ring(size, scalars["is_interleaved"])
    member = int(fields["replica"][0]) // scalars["stride"] % size
    return np.array([ring[(ring.index(member) + scalars["distance"]) % size]])


def _ring_step(fields: Fields, scalars: Mapping[str, Any], _: tuple[int, ...]) -> np.ndarray:
    size = scalars["size"]
    ring = _ring(size, scalars["is_interleaved"])
    return np.array([ring[(ring.index(int(fields["index"][0])) + scalars["distance"]) % size]])


class _Naive(dict[str, Naive]):
    """Functions by codelet; those of expressions follow from the name."""

    def __missing__(self, name: str) -> Naive:
        prefix, _, rest = name.partition("<")
        if not prefix.startswith("popops::Map"):
            raise KeyError(name)
        return _map(rest.removesuffix(">"))


NAIVE: dict[str, Naive] = _Naive(
    {
        **{f"poprand::{name}": _random(draw) for name, draw in RANDOM.items()},
        "poprand::StochasticCast": _stochastic_cast,
        "gcl::RingIndex": _ring_index,
        "gcl::RingStep": _ring_step,
        "poplar::CycleCount": _cycle_count,
        "poplar::CycleStamp": _cycle_stamp,
        "popops::DynamicSlice1D": _dynamic_slice,
        **{
            f"popnn::NonLinearity{d}D{place}<{n}>": _unary(f)
            for n, f in NON_LINEAR.items()
            for d in (1, 2)
            for place in ("", "InPlace")
        },
        **{
            f"popnn::NonLinearityGrad{d}D<{n}>": _gradient(f)
            for n, f in SLOPES.items()
            for d in (1, 2)
        },
        "poplin::InverseStdDeviation": _inverse_std_deviation,
        "popops::DynamicUpdateSlice1D": _dynamic_update,
        "popops::MultiSlice": _multi_slice,
        "popops::MultiSlice<parts>": _multi_slice_parts,
        "popops::MultiUpdate": _multi_update(lambda _, new: new),
        **{f"popops::MultiUpdateOp<{name}>": _multi_update(f) for name, f in UPDATES.items()},
        "popops::Iota": _iota,
        "popops::CompareAndSwapAtDistance": _compare_and_swap,
        "popops::CompareAndSwapAtDistanceKeyVal": _compare_and_swap,
        "tilescope::CumulativeSum": _cumulative_sum,
        "popops::BroadcastVectorOuterInPlace<add>": _add_carry,
        "popops::Histogram1D": _histogram,
        "popops::EncodeOneHot": _one_hot,
        **{f"popnn::LossCrossEntropyTransform{kind}": _cross_entropy for kind in ("", "<block>")},
        **{f"popnn::LossSumSquaredTransform{kind}": _sum_squared for kind in ("", "<block>")},
        "popnn::CalcAccuracy": _accuracy,
        **ALIGNMENTS,
        "popnn::ROIAlignBackward": regions_backward,
        **BEAMS,
        **{f"popnn::Reduce{name}ClassGather": _arg_gather(name) for name in ("Max", "Min")},
        **{f"popnn::Reduce{name}ClassSparse": _arg_sparse(name) for name in ("Max", "Min")},
        "poplin::ConvPartial1x1Out": _convolve,
        "poplin::ConvPartialnx1": _convolve,
        "poplin::ConvPartialVerticalMac": _convolve,
        "poplin::ConvPartialVerticalMac<wide>": _convolve,
        "poplin::ConvPartialHorizontalMac": _convolve,
        "poplin::ConvPartial1xNSLIC": _convolve,
        "poplin::OuterProduct": _convolve,
        **{
            f"poplin::TriangularSolve{workers}<{str(is_lower).lower()}>": _substitute(
                is_lower=is_lower
            )
            for workers in ("", "MultiWorker")
            for is_lower in (True, False)
        },
        "poplin::Cholesky<true>": _cholesky,
        "poplin::TriangularInverseWithTranspose": _triangular_inverse,
        "popsparse::StaticSparseDenseElementWise": _sparse_product(1),
        **{
            f"popsparse::StaticSparseDenseMatMulBlock<{size},{size}>": _sparse_product(size)
            for size in (4, 8, 16)
        },
        "popsparse::SparseDenseMultiSliceElementWise": _look_up(is_update=False),
        "popsparse::SparseDenseMultiUpdateAddElementWise": _look_up(is_update=True),
        "popsparse::SparseDenseMatMulElementWise": _bucket_product(1, is_transposed=False),
        "popsparse::SparseDenseMatMulElementWiseTranspose": _bucket_product(1, is_transposed=True),
        "popsparse::SparseDenseMatMulGradWElementWise": _bucket_gradient(1),
        **{
            f"popsparse::SparseDenseMatMulBlock{kind}<{size},{size}>": naive
            for size in (4, 8, 16)
            for kind, naive in (
                ("", _bucket_product(size, is_transposed=False)),
                ("GradA", _bucket_product(size, is_transposed=True)),
                ("GradW", _bucket_gradient(size)),
            )
        },
        "poplin::CastPartials": _copy,
        "poplin::ReduceAdd": _sum_partials,
        "popnn::MaxPooling": _pool(is_max=True),
        "popnn::SumPooling": _pool(is_max=False),
        "popnn::MaxPoolingGrad": _pool_gradient,
        "popnn::SumPooling<gradient>": _pool_gradient,
        "popnn::MaxPoolingGradientScale": _pool_scale,
        **{
            f"popops::ScaledAdd{shape}{asks}": _scaled_add
            for shape in ("Supervisor", "2D")
            for asks in ("", "<constrained>")
        },
        "popops::BinaryOp2DInPlace<add>": _binary(BINARY["add"]),
        "popops::Fill": _fill,
        "popops::Fill2d": _fill,
        "poplar::Memcpy": _copy,
        "poplar::StridedCopy": _copy,
        "poplar_rt::Transpose": _copy,
        **{
            f"poplar::{kind}<{types}>": _unary(reinterpret)
            for types, reinterpret in REINTERPRET.items()
            for kind in ("Reinterpret", "StridedReinterpret")
        },
        # The machine rounds values to the type when it stores them.
        "popops::Cast1D": _copy,
        "popops::Cast2D": _copy,
        **{
            f"popops::UnaryOp{dims}D{place}<{n}>": _unary(f)
            for n, f in {**UNARY, **UNARY_OF_WHOLE}.items()
            for dims in (1, 2)
            for place in ("", "InPlace")
            if not place or n not in TO_BOOL
        },
        **{
            f"popops::{kind}<{n}>": _binary(f)
            for n, f in {**BINARY, **BINARY_OF_WHOLE}.items()
            for kind in ("BinaryOp1D", "BroadcastOp2D", "BinaryOp1DInPlace", "BroadcastOp2DInPlace")
            if not kind.endswith("InPlace") or n not in TO_BOOL
        },
        **{
            f"popops::{n.capitalize()}{d}": _ternary(f)
            for n, f in TERNARY.items()
            for d in ("", "2D")
        },
        **{f"popops::SelectInPlace{d}": _ternary(TERNARY["select"]) for d in ("", "2D")},
        **{
            f"popops::BroadcastVectorInner{place}<{n}>": _shared_row(BINARY[n])
            for n in ("add", "subtract", "multiply", "divide")
            for place in ("", "InPlace")
        },
        **{f"popops::Reduce<{n}>": _reduce(n) for n in REDUCTIONS},
        **{f"popops::ScaledReduce<{n}>": _reduce(n) for n in REDUCTIONS},
        **{
            f"popops::{kind}<{n},update>": _reduce(n, is_update=True)
            for n in ("sum", "square_sum", "log_add")
            for kind in ("Reduce", "ScaledReduce")
        },
    }
)
