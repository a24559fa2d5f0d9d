"""Launches: a compute set's batches bound to memory, ready to be called."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numba

from engine.codelets.codelet import launch_arguments
from engine.errors import BadGraph
from engine.execute.memory import HostMemory
from engine.graph import ComputeSet, VertexBatch

__all__ = ["Launch", "bind", "compile_launchers", "thread_pool"]

_typeof: Any = numba.typeof
_config: Any = numba.config

#: Elements of work from which a batch is shared between threads: some 200 microseconds.
_SHARE_ABOVE = 2_000_000


@dataclass(frozen=True)
class Launch:
    """One batch, bound to its memory."""

    call: Any
    arguments: tuple[Any, ...]
    n_vertices: int
    work: int

    def run(self, pool: ThreadPoolExecutor | None, n_threads: int) -> None:
        """Run all vertices, on several threads where the work is worth it."""
        if pool is None or self.work < _SHARE_ABOVE or self.n_vertices < n_threads:
            self.call(0, self.n_vertices, *self.arguments)
            return
        edges = [self.n_vertices * i // n_threads for i in range(n_threads + 1)]
        futures: list[Future[Any]] = [
            pool.submit(self.call, first, last, *self.arguments)
            for first, last in pairwise(edges[1:])
        ]
        self.call(edges[0], edges[1], *self.arguments)
        for future in futures:
            future.result()


def _work(batch: VertexBatch) -> int:
    """Estimate the elements a batch touches: inputs times what each output needs of them."""
    total = sum(int(regions.n_elements.sum()) for regions in batch.fields.values())
    if batch.codelet.flops is None:
        return total
    if "w" in batch.fields:
        outputs = batch.fields["out"].size[:, :2].prod(axis=1)
        return int((outputs * batch.fields["w"].n_elements).sum())
    return total


def bind(compute_set: ComputeSet, memory: HostMemory) -> list[Launch]:
    """Return the launches of a compute set.

    Raises
    ------
    BadGraph
        When a field has a type that half-precision rounding is not there for yet.
    """
    launches = []
    for batch in compute_set.batches:
        codelet = batch.codelet
        regions = [batch.fields[field.name] for field in codelet.fields]
        for field, region in zip(codelet.fields, regions, strict=True):
            if field.is_written and region.variable.dtype.name == "float16":
                raise BadGraph(
                    f"{compute_set.name!r} writes float16: this version compiles and costs half"
                    " precision but does not run it; use float32"
                )
        starts = [r.start + memory.base[r.variable.variable_id] for r in regions]
        memories = [memory.arenas[r.variable.dtype.host] for r in regions]
        launches.append(
            Launch(
                codelet.launcher,
                launch_arguments(codelet, memories, starts, regions, batch.scalars),
                batch.n_vertices,
                _work(batch),
            )
        )
    return launches


def compile_launchers(
    launches: Iterable[Launch], progress: Callable[[int, int, str], None] | None = None
) -> None:
    """Compile, or load from the cache, every launcher for the types it is called with.

    Parameters
    ----------
    progress
        Called before each with how many are done, how many there are, and a name.
    """
    wanted: dict[tuple[int, Any], tuple[Any, Any]] = {}
    for launch in launches:
        if not hasattr(launch.call, "compile"):
            continue  # compilation is switched off: plain Python
        types = (numba.int64, numba.int64, *(_typeof(a) for a in launch.arguments))
        wanted.setdefault((id(launch.call), types), (launch.call, types))
    for done, (call, types) in enumerate(wanted.values()):
        if progress is not None:
            progress(done, len(wanted), call.__name__)
        call.compile(types)


def thread_pool() -> tuple[ThreadPoolExecutor | None, int]:
    """Return a pool beside the calling thread, and the number of threads with it."""
    n_threads = min(int(_config.NUMBA_NUM_THREADS), 8)
    if n_threads < 2:
        return None, 1
    return ThreadPoolExecutor(n_threads - 1, thread_name_prefix="tilescope"), n_threads
