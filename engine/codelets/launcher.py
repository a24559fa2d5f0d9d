"""The launcher of a codelet: a compiled loop over its vertices, on flat memory.

It is generated per codelet: a user's codelet runs exactly as a built-in one.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets._rounding import round_float8_block, round_half_block
from tilescope.engine.graph.codelet import Codelet
from tilescope.engine.jit._jit import cache_folder, cached_jit, jit
from tilescope.engine.jit.identity import kernel_digest
from tilescope.engine.number.grid import HALF, Grid

if TYPE_CHECKING:
    from tilescope.engine.graph.regions import Regions

__all__ = ["launch_arguments", "launcher_of"]


@functools.cache
def launcher_of(codelet: Codelet, rounded: tuple[tuple[str, Grid], ...] = ()) -> Any:
    """Return the compiled loop over vertices `first` to `last` in flat memory.

    Parameters
    ----------
    codelet
        Codelet with the kernel to run per vertex.
    rounded
        Written fields with a type narrower than its storage: they are rounded to the type's grid
        after every vertex.
    """
    source = _launcher_source(codelet, rounded)
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


_PARTS = ("memory", "start", "size", "stride")


def _rounding_source(name: str, grid: Grid) -> str:
    region = f"{name}_memory, {name}_start[v], {name}_size[v], {name}_stride[v]"
    if grid == HALF:
        return f"        round_half_block({region})\n"
    numbers = f"{grid.mantissa_bits}, {grid.lowest_exponent}, {grid.largest!r}"
    return f"        round_float8_block({region}, {numbers})\n"


def _launcher_source(codelet: Codelet, rounded: Sequence[tuple[str, Grid]]) -> str:
    """Return the source of the loop; its names are the codelet's field names, valid identifiers."""
    parameters: list[str] = []
    arguments: list[str] = []
    for field in codelet.fields:
        name = field.name
        memory, start, size, stride = (f"{name}_{part}" for part in _PARTS)
        parameters += [memory, start, size, stride]
        if field.kind == "vector":
            arguments.append(f"{memory}[{start}[v] : {start}[v] + {size}[v, 0]]")
            continue
        if field.kind == "block":
            arguments += [memory, f"{start}[v]", f"{size}[v]", f"{stride}[v]"]
            continue
        shape = "".join(f"{size}[v, {d}], " for d in range(field.n_dims))
        steps = "".join(f"{stride}[v, {d}] * {memory}.itemsize, " for d in range(field.n_dims))
        arguments.append(f"as_strided({memory}[{start}[v] :], ({shape}), ({steps}))")
    for scalar in codelet.scalars:
        parameters.append(scalar.name)
        arguments.append(f"{scalar.name}[v]")
    count = ""
    if codelet.is_data_dependent:
        parameters.append("_counts")
        count = "_counts[v] = "
    return (
        f"def launch(first, last, {', '.join(parameters)}):\n"
        "    for v in range(first, last):\n"
        f"        {count}kernel({', '.join(arguments)})\n"
    ) + "".join(_rounding_source(name, grid) for name, grid in rounded)


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
    starts: Sequence[NDArray[np.int64]],
    regions: Sequence[Regions],
    scalars: Mapping[str, NDArray[Any]],
    counts: NDArray[np.int64],
) -> tuple[Any, ...]:
    """Return the launcher's arguments after `first` and `last`, in the order of the fields."""
    arguments: list[Any] = []
    for memory, start, region in zip(memories, starts, regions, strict=True):
        arguments += [memory, start, region.size, region.stride]
    arguments += [scalars[scalar.name] for scalar in codelet.scalars]
    if codelet.is_data_dependent:
        arguments.append(counts)
    return tuple(arguments)
