"""The launcher of a codelet: a compiled loop over its vertices, on flat memory.

It is generated per codelet: a user's codelet runs exactly as a built-in one.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets._rounding import round_float8_block, round_half_block
from tilescope.engine.graph.codelet import Codelet
from tilescope.engine.jit._jit import cache_folder, cached_jit, jit
from tilescope.engine.jit.identity import kernel_digest
from tilescope.engine.number.grid import HALF, Grid

__all__ = ["launch_arguments", "launcher_of"]


@functools.cache
def launcher_of(
    codelet: Codelet, memories: tuple[int, ...], rounded: tuple[tuple[str, Grid], ...] = ()
) -> Any:
    """Return the compiled loop over vertices `first` to `last` in flat memory.

    Parameters
    ----------
    codelet
        Codelet with the kernel to run per vertex.
    memories
        Which of the distinct memories each field is in: an array takes Python some tenths of a
        microsecond to pass, so fields share theirs, and their places.
    rounded
        Written fields with a type narrower than its storage: they are rounded to the type's grid
        after every vertex.
    """
    source = _launcher_source(codelet, memories, rounded)
    kernel = kernel_digest(codelet.kernel)
    # numba's cache names the kernel's module, which must still exist when the cache is loaded.
    module = getattr(codelet.kernel, "__module__", "")
    text = f"{source}{codelet.name}{kernel}{module}"
    key = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
    path = cache_folder() / "launchers" / f"launch_{key}.py"
    is_kept = kernel is not None and _write_once(path, source)
    namespace: dict[str, Any] = {
        "kernel": codelet.kernel,
        "round_float8_block": round_float8_block,
        "round_half_block": round_half_block,
        "as_strided": np.lib.stride_tricks.as_strided,
        "__name__": __name__,
    }
    exec(compile(source, str(path), "exec"), namespace)  # source is ours: see _launcher_source
    return (cached_jit if is_kept else jit)(namespace["launch"])


def _regions(codelet: Codelet, memories: Sequence[int]) -> dict[str, tuple[str, str, str, str]]:
    """Return memory, start, size and stride of every field: columns of the places of vertex v."""
    regions = {}
    column = 0
    for field, memory in zip(codelet.fields, memories, strict=True):
        size, stride = column + 1, column + 1 + field.n_dims
        end = stride + field.n_dims
        places = (
            f"_places[v, {column}]",
            f"_places[v, {size}:{stride}]",
            f"_places[v, {stride}:{end}]",
        )
        regions[field.name] = (f"_memory_{memory}", *places)
        column = end
    return regions


def _rounding_source(region: Sequence[str], grid: Grid) -> str:
    if grid == HALF:
        return f"        round_half_block({', '.join(region)})\n"
    numbers = f"{grid.mantissa_bits}, {grid.lowest_exponent}, {grid.largest!r}"
    return f"        round_float8_block({', '.join(region)}, {numbers})\n"


def _launcher_source(
    codelet: Codelet, memories: Sequence[int], rounded: Sequence[tuple[str, Grid]]
) -> str:
    """Return the source of the loop; it names fields and scalars by their place, whatever theirs.

    A user may call a field or scalar anything, also what the loop calls its own variables.
    """
    regions = _regions(codelet, memories)
    parameters = [f"_memory_{i}" for i in range(max(memories, default=-1) + 1)] + ["_places"]
    arguments: list[str] = []
    column = 0
    for field in codelet.fields:
        memory, start, size, stride = regions[field.name]
        sizes = [f"_places[v, {column + 1 + d}]" for d in range(field.n_dims)]
        strides = [f"_places[v, {column + 1 + field.n_dims + d}]" for d in range(field.n_dims)]
        column += 1 + 2 * field.n_dims
        if field.kind == "vector":
            arguments.append(f"{memory}[{start} : {start} + {sizes[0]}]")
        elif field.kind == "block":
            arguments += [memory, start, size, stride]
        else:
            shape = "".join(f"{n}, " for n in sizes)
            steps = "".join(f"{step} * {memory}.itemsize, " for step in strides)
            arguments.append(f"as_strided({memory}[{start} :], ({shape}), ({steps}))")
    for place in range(len(codelet.scalars)):
        parameters.append(f"scalar{place}")
        arguments.append(f"scalar{place}[v]")
    count = ""
    if codelet.is_data_dependent:
        parameters.append("_counts")
        count = "_counts[v] = "
    return (
        f"def launch(first, last, {', '.join(parameters)}):\n"
        "    for v in range(first, last):\n"
        f"        {count}kernel({', '.join(arguments)})\n"
    ) + "".join(_rounding_source(regions[name], grid) for name, grid in rounded)


def _write_once(path: Path, text: str) -> bool:
    """Write a launcher's file, which numba's cache needs; return False if the write fails."""
    if path.exists():
        return True
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}.{id(path):x}.tmp")
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except OSError:
        return False
    return True


def launch_arguments(
    codelet: Codelet,
    memories: Sequence[NDArray[Any]],
    regions: Sequence[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]],
    scalars: Sequence[NDArray[Any]],
    counts: NDArray[np.int64],
) -> tuple[Any, ...]:
    """Return the launcher's arguments after `first` and `last`.

    Memories are the distinct ones. Regions are starts in the memory, sizes and strides, by field.
    """
    columns = [part for start, size, stride in regions for part in (start[:, None], size, stride)]
    places = np.concatenate(columns, axis=1, dtype=np.int64)
    return (*memories, places, *scalars, *([counts] if codelet.is_data_dependent else []))
