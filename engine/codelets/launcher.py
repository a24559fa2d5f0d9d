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

    Codelets with one kernel and the same fields share it.

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
    return _launcher(_launcher_source(codelet, memories, rounded), codelet.kernel)


@functools.cache
def _launcher(source: str, kernel: Any) -> Any:
    """Compile the source of a launcher around a kernel."""
    digest = kernel_digest(kernel)
    # numba's cache names the kernel's module, which must still exist when the cache is loaded.
    module = getattr(kernel, "__module__", "")
    key = hashlib.blake2b(f"{source}{digest}{module}".encode(), digest_size=8).hexdigest()
    path = cache_folder() / "launchers" / f"launch_{key}.py"
    is_kept = digest is not None and _write_once(path, source)
    namespace: dict[str, Any] = {
        "kernel": kernel,
        "round_float8_block": round_float8_block,
        "round_half_block": round_half_block,
        "as_strided": np.lib.stride_tricks.as_strided,
        "__name__": __name__,
    }
    exec(compile(source, str(path), "exec"), namespace)  # source is ours: see _launcher_source
    return (cached_jit if is_kept else jit)(namespace["launch"])


def _regions(codelet: Codelet, memories: Sequence[int]) -> list[tuple[str, str, str, str]]:
    """Return memory, start, size and stride of every field: columns of the places of vertex v.

    A list of intervals has arrays of its own instead, with an entry for every interval.
    """
    regions = []
    column = 0
    for place, (field, memory) in enumerate(zip(codelet.fields, memories, strict=True)):
        if field.is_list:
            columns = (f"start{place}[k]", f"size{place}[k]", f"stride{place}[k]")
        else:
            size, stride = column + 1, column + 1 + field.n_dims
            end = stride + field.n_dims
            columns = (
                f"places[v, {column}]",
                f"places[v, {size}:{stride}]",
                f"places[v, {stride}:{end}]",
            )
            column = end
        regions.append((f"memory{memory}", *columns))
    return regions


def _rounding_source(place: int, region: Sequence[str], grid: Grid, *, is_list: bool) -> str:
    before = "        "
    if is_list:
        before = f"        for k in range(first{place}[v], first{place}[v + 1]):\n            "
    if grid == HALF:
        return f"{before}round_half_block({', '.join(region)})\n"
    numbers = f"{grid.mantissa_bits}, {grid.lowest_exponent}, {grid.largest!r}"
    return f"{before}round_float8_block({', '.join(region)}, {numbers})\n"


def _field_arguments(codelet: Codelet, regions: Sequence[Sequence[str]]) -> list[str]:
    """Return what the kernel takes of every field."""
    arguments: list[str] = []
    column = 0
    for place, (field, region) in enumerate(zip(codelet.fields, regions, strict=True)):
        memory, start, size, stride = region
        if field.is_list:
            interval = f"{memory}[{start} : {start} + size{place}[k, 0]]"
            arguments.append(f"[{interval} for k in range(first{place}[v], first{place}[v + 1])]")
            continue
        sizes = [f"places[v, {column + 1 + d}]" for d in range(field.n_dims)]
        strides = [f"places[v, {column + 1 + field.n_dims + d}]" for d in range(field.n_dims)]
        column += 1 + 2 * field.n_dims
        if field.kind == "vector":
            arguments.append(f"{memory}[{start} : {start} + {sizes[0]}]")
        elif field.kind == "block":
            arguments += [memory, start, size, stride]
        else:
            shape = "".join(f"{n}, " for n in sizes)
            steps = "".join(f"{step} * {memory}.itemsize, " for step in strides)
            arguments.append(f"as_strided({memory}[{start} :], ({shape}), ({steps}))")
    return arguments


def _launcher_source(
    codelet: Codelet, memories: Sequence[int], rounded: Sequence[tuple[str, Grid]]
) -> str:
    """Return the source of the loop; it names fields and scalars by their place, whatever theirs.

    A user may call a field or scalar anything, also what the loop calls its own variables.
    """
    regions = _regions(codelet, memories)
    parameters = [f"memory{i}" for i in range(max(memories, default=-1) + 1)] + ["places"]
    for place, field in enumerate(codelet.fields):
        if field.is_list:
            parameters += [f"{part}{place}" for part in ("start", "size", "stride", "first")]
    arguments = _field_arguments(codelet, regions)
    for place in range(len(codelet.kernel_scalars)):
        parameters.append(f"scalar{place}")
        arguments.append(f"scalar{place}[v]")
    run, place_of_count = "        ", "v"
    if codelet.is_multi_vertex:
        parameters.append("n_workers")
        arguments += ["worker", "n_workers"]
        run, place_of_count = "        for worker in range(n_workers):\n            ", "v, worker"
    if codelet.reads_clock:
        parameters.append("clock")
        arguments.append("clock[v]")
    count = ""
    if codelet.is_data_dependent:
        parameters.append("counts")
        count = f"counts[{place_of_count}] = "
    places = {field.name: place for place, field in enumerate(codelet.fields)}
    return (
        f"def launch(first, last, {', '.join(parameters)}):\n"
        "    for v in range(first, last):\n"
        f"{run}{count}kernel({', '.join(arguments)})\n"
    ) + "".join(
        _rounding_source(
            places[name], regions[places[name]], grid, is_list=codelet.field(name).is_list
        )
        for name, grid in rounded
    )


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
    firsts: Sequence[NDArray[np.int64] | None],
    scalars: Sequence[NDArray[Any]],
    n_workers: int,
    clock: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> tuple[Any, ...]:
    """Return the launcher's arguments after `first` and `last`.

    Memories are the distinct ones. Regions are starts in the memory, sizes and strides, by field;
    `firsts` the first interval of every vertex, for lists of intervals.
    """
    columns: list[NDArray[np.int64]] = []
    lists: list[NDArray[np.int64]] = []
    for (start, size, stride), first in zip(regions, firsts, strict=True):
        if first is None:
            columns += [start[:, None], size, stride]
        else:
            lists += [start, size, stride, first]
    places = np.zeros((0, 0), np.int64)
    if columns:
        places = np.concatenate(columns, axis=1, dtype=np.int64)
    arguments: list[Any] = [*memories, places, *lists, *scalars]
    if codelet.is_multi_vertex:
        arguments.append(n_workers)
    if codelet.reads_clock:
        arguments.append(clock)
    if codelet.is_data_dependent:
        arguments.append(counts)
    return tuple(arguments)
