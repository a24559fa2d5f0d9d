"""The launcher of a codelet: a compiled loop over its vertices, on flat memory.

It is generated per codelet: a user's codelet runs exactly as a built-in one. All launchers take the
first and the last vertex and the address of a table with the addresses and shapes of their arrays,
so that a sequence of launches is one call (`engine/host/jit/calls.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph.vertex.codelet import Codelet, Field
from tilescope.engine.host.jit.entry import Entry
from tilescope.engine.host.jit.settings import IS_COMPILED
from tilescope.engine.host.jit.tables import array_in, call_at, numbers_of
from tilescope.engine.host.kernels._addresses import address
from tilescope.engine.host.kernels._rounding import rounder_of
from tilescope.engine.host.kernels._work_arrays import stack_array_of
from tilescope.engine.number.dtype import DType
from tilescope.engine.number.grid import Grid

#: Types of arrays, by their name in a launcher.
_TYPES = {
    np.dtype(kind).name: np.dtype(kind).type
    for kind in ("f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?")
}

__all__ = ["launch_arrays", "launch_numbers", "launcher_named", "launcher_of", "rounded_fields"]


def rounded_fields(codelet: Codelet, dtypes: Sequence[DType]) -> tuple[tuple[str, Grid], ...]:
    """Return the written fields that are rounded after every vertex, with their grids.

    Parameters
    ----------
    dtypes
        Types of the fields, in order.
    """
    free_dtypes = {
        dtype for field, dtype in zip(codelet.fields, dtypes, strict=True) if not field.dtype
    }
    if codelet.is_selection and len(free_dtypes) == 1:
        return ()
    return tuple(
        (field.name, dtype.grid)
        for field, dtype in zip(codelet.fields, dtypes, strict=True)
        if field.is_written and dtype.grid is not None
    )


@functools.cache
def launcher_of(
    codelet: Codelet,
    hosts: tuple[str, ...],
    rounded: tuple[tuple[str, Grid], ...] = (),
) -> Any:
    """Return the compiled loop over vertices `first` to `last` in flat memory.

    Codelets with one kernel and the same fields share it.

    Parameters
    ----------
    codelet
        Codelet with the kernel to run per vertex.
    hosts
        Type of the memory of every field, which begins where its variable does.
    rounded
        Written fields with a type narrower than its storage: they are rounded to the type's grid
        after every vertex.
    """
    source = _launcher_source(codelet, hosts, rounded)
    # Lists and arrays of several dimensions are made for every vertex.
    makes_arrays = any(f.is_list or f.kind not in {"vector", "block"} for f in codelet.fields)
    return _launcher(source, codelet.kernel, tuple(map(_round_by, rounded)), makes_arrays)


@functools.cache
def _launcher(source: str, kernel: Any, rounds: tuple[Any, ...], makes_arrays: bool) -> Any:
    """Return what the source of a launcher defines, around a kernel."""
    namespace: dict[str, Any] = {
        "kernel": kernel,
        "array_in": array_in,
        "address": address,
        "few_numbers": stack_array_of(3),
        **{f"round{number}": function for number, function in enumerate(rounds)},
        **_TYPES,
        "as_strided": np.lib.stride_tricks.as_strided,
        "__name__": __name__,
    }
    exec(compile(source, "<launcher>", "exec"), namespace)  # source is ours: see _launcher_source
    launch = namespace["launch"]
    return Entry("launch", launch, counts_references=makes_arrays) if IS_COMPILED else launch


@functools.cache
def _round_by(rounded: tuple[str, Grid]) -> Any:
    """Return the function of a rounder's address, and of what the rounder takes."""
    if IS_COMPILED:
        return call_at
    rounder = rounder_of(rounded[1])
    return lambda _, *region: rounder(*region)


def _first_columns(codelet: Codelet) -> list[int]:
    """Return where every field begins in the places of a vertex: start, sizes and strides.

    A list of intervals has arrays of its own instead.
    """
    n_columns = (0 if field.is_list else 1 + 2 * field.n_dims for field in codelet.fields)
    return [*accumulate(n_columns, initial=0)][:-1]


def _regions(codelet: Codelet) -> list[tuple[str, str, str, str]]:
    """Return memory, start, size and stride of every field: columns of the places of vertex v.

    A list of intervals has arrays of its own instead, with an entry for every interval.
    """
    regions = []
    fields = zip(codelet.fields, _first_columns(codelet), strict=True)
    for index, (field, column) in enumerate(fields):
        if field.is_list:
            columns = (f"start{index}[k]", f"size{index}[k]", f"stride{index}[k]")
        else:
            size, stride = column + 1, column + 1 + field.n_dims
            columns = (
                f"places[v, {column}]",
                f"places[v, {size}:{stride}]",
                f"places[v, {stride}:{stride + field.n_dims}]",
            )
        regions.append((f"memory{index}", *columns))
    return regions


def _rounding_source(
    number: int, field: Field, index: int, column: int, region: Sequence[str]
) -> str:
    """Return the lines that round a field of a vertex by the rounder with a number."""
    memory, start, size, stride = region
    call = f"round{number}(rounder{number}, address({memory}, 0), "
    if not field.is_list:
        region_at = f"address(places, v * places.shape[1] + {column})"
        return f"        {call}{region_at}, {field.n_dims})\n"
    return (
        f"        for k in range(first{index}[v], first{index}[v + 1]):\n"
        "            region = few_numbers(places)\n"
        f"            region[0], region[1], region[2] = {start}, {size}[0], {stride}[0]\n"
        f"            {call}address(region, 0), 1)\n"
    )


def _field_arguments(codelet: Codelet, regions: Sequence[Sequence[str]]) -> list[str]:
    """Return what the kernel takes of every field."""
    arguments: list[str] = []
    fields = zip(codelet.fields, regions, _first_columns(codelet), strict=True)
    for index, (field, region, column) in enumerate(fields):
        memory, start, size, stride = region
        if field.is_list:
            interval = f"{memory}[{start} : {start} + size{index}[k, 0]]"
            arguments.append(f"[{interval} for k in range(first{index}[v], first{index}[v + 1])]")
            continue
        sizes = [f"places[v, {column + 1 + d}]" for d in range(field.n_dims)]
        strides = [f"places[v, {column + 1 + field.n_dims + d}]" for d in range(field.n_dims)]
        if field.kind == "vector":
            arguments.append(f"{memory}[{start} : {start} + {sizes[0]}]")
        elif field.kind == "block":
            arguments += [memory, start, size, stride]
        else:
            shape = "".join(f"{n}, " for n in sizes)
            steps = "".join(f"{step} * {memory}.itemsize, " for step in strides)
            arguments.append(f"as_strided({memory}[{start} :], ({shape}), ({steps}))")
    return arguments


def _arrays(codelet: Codelet, hosts: Sequence[str]) -> list[tuple[str, str, int]]:
    """Return name, type and number of dimensions of all arrays of a launcher, as in its table."""
    arrays = [(f"memory{i}", host, 1) for i, host in enumerate(hosts)] + [("places", "int64", 2)]
    for index, field in enumerate(codelet.fields):
        if field.is_list:
            dims = {"start": 1, "size": 2, "stride": 2, "first": 1}
            arrays += [(f"{part}{index}", "int64", n) for part, n in dims.items()]
    kinds = {"int": "int64", "float": "float32"}
    for index, scalar in enumerate(codelet.kernel_scalars):
        arrays.append((f"scalar{index}", kinds[scalar.kind], 1))
    if codelet.reads_clock:
        arrays.append(("clock", "int64", 1))
    if codelet.is_data_dependent:
        arrays.append(("counts", "int64", 2 if codelet.is_multi_vertex else 1))
    return arrays


def _unpacking(codelet: Codelet, hosts: Sequence[str], n_rounders: int) -> str:
    """Return the source that makes arrays of the table's addresses and shapes, and numbers."""
    lines, offset = [], 0
    for name, kind, n_dims in _arrays(codelet, hosts):
        lines.append(f"    {name} = array_in(table, {offset}, {n_dims}, {kind})\n")
        offset += 1 + n_dims
    numbers = ["n_workers"] * codelet.is_multi_vertex
    numbers += [f"rounder{number}" for number in range(n_rounders)]
    for index, name in enumerate(numbers, offset):
        lines.append(f"    {name} = array_in(table, {index}, 0, int64)\n")
    return "".join(lines)


def _launcher_source(
    codelet: Codelet, hosts: Sequence[str], rounded: Sequence[tuple[str, Grid]]
) -> str:
    """Return the source of the loop; it names fields and scalars by their place, whatever theirs.

    A user may call a field or scalar anything, also what the loop calls its own variables.
    """
    regions = _regions(codelet)
    arguments = _field_arguments(codelet, regions)
    arguments += [f"scalar{index}[v]" for index in range(len(codelet.kernel_scalars))]
    run, place_of_count = "        ", "v"
    if codelet.is_multi_vertex:
        arguments += ["worker", "n_workers"]
        run, place_of_count = "        for worker in range(n_workers):\n            ", "v, worker"
    if codelet.reads_clock:
        arguments.append("clock[v]")
    count = f"counts[{place_of_count}] = " if codelet.is_data_dependent else ""
    index_of = {field.name: index for index, field in enumerate(codelet.fields)}
    return (
        "def launch(first, last, table):\n"
        f"{_unpacking(codelet, hosts, len(rounded))}"
        "    for v in range(first, last):\n"
        f"{run}{count}kernel({', '.join(arguments)})\n"
    ) + "".join(
        _rounding_source(
            number, codelet.field(name), index, _first_columns(codelet)[index], regions[index]
        )
        for number, (name, _) in enumerate(rounded)
        for index in [index_of[name]]
    )


def launcher_named(name: str, launcher: Callable[[], Any]) -> Any:
    """Return the launcher of a name, or the one that a function returns where that has no code.

    Parameters
    ----------
    name
        Name of its entry; empty if it has none that lasts.
    launcher
        Returns it as `launcher_of` does.
    """
    return _named(name, launcher) if name and IS_COMPILED else launcher()


#: Launchers of stored programs, by name.
_known: dict[str, Entry] = {}


def _named(name: str, launcher: Callable[[], Any]) -> Entry:
    if name not in _known:
        _known[name] = Entry.named(name, launcher)
    return _known[name]


def launch_arrays(
    regions: Sequence[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]],
    firsts: Sequence[NDArray[np.int64] | None],
    scalars: Sequence[NDArray[Any]],
) -> list[NDArray[Any]]:
    """Return the arrays of a launcher between memories and counters, in the order of its table.

    Regions are starts in the variable, sizes and strides, by field; `firsts` the first interval of
    every vertex, for lists of intervals.
    """
    columns: list[NDArray[np.int64]] = []
    lists: list[NDArray[np.int64]] = []
    for (start, size, stride), first in zip(regions, firsts, strict=True):
        if first is None:
            columns += [start[:, None], size, stride]
        else:
            lists += [start, size, stride, first]
    positions = np.zeros((0, 0), np.int64)
    if columns:
        positions = np.empty((len(columns[0]), sum(c.shape[1] for c in columns)), np.int64)
        np.concatenate(columns, axis=1, out=positions)  # its own order would follow the columns'
    arrays: list[NDArray[Any]] = [positions]
    arrays += [np.ascontiguousarray(array, np.int64) for array in lists]
    arrays += [np.ascontiguousarray(scalar) for scalar in scalars]
    return arrays


def launch_numbers(
    arrays: Sequence[NDArray[Any]], n_workers: int, grids: Sequence[Grid] = ()
) -> list[int]:
    """Return the table that a launcher takes, behind the memories; it does not keep arrays alive.

    Parameters
    ----------
    arrays
        Those of `launch_arrays`, and the clock and the counts where the kernel has them.
    n_workers
        Worker contexts of a tile, for a kernel that takes them; otherwise 0.
    grids
        Those that fields are rounded to, as for `launcher_of`: the table has the addresses of
        their rounders.
    """
    assert all(array.flags.c_contiguous for array in arrays), "kernels read arrays by address"
    numbers = numbers_of(arrays)
    if n_workers:
        numbers.append(n_workers)
    return [*numbers, *(rounder_of(grid).address if IS_COMPILED else 0 for grid in grids)]
