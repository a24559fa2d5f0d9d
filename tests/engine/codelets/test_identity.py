"""Compiled launchers of different kernels are never confused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba.extending
import numpy as np
import pytest
from llvmlite import ir

from tilescope.engine import (
    Engine,
    Field,
    Graph,
    codelet,
    compile_programs,
    load_machine,
    resolve_options,
)
from tilescope.engine.compiler.executable.codelet_place import codelet_modules
from tilescope.engine.graph import blocks
from tilescope.engine.graph.vertex.codelet import Codelet
from tilescope.engine.graph.vertex.law import Batch
from tilescope.engine.host.jit._jit import Overloaded, allocating_jit, intrinsic, jit
from tilescope.engine.host.jit.identity import kernel_digest
from tilescope.engine.program import Execute


def law(batch: Batch, _: Any) -> Any:
    return batch.size["out"][:, 0]


def filling(value: float) -> Codelet:
    """Return a codelet with a fill value that is not part of its source."""

    @codelet(Field("out", "out"), law=law, code_bytes=10, name="filling")
    def fill(out: Any) -> None:
        for i in range(out.size):
            out[i] = value

    return fill


def run(made: Codelet) -> list[float]:
    graph = Graph(load_machine("gc200", tiles_per_ipu=1))
    out = graph.add_variable("float32", (3,), "out")
    graph.map_linearly(out)
    compute_set = graph.add_compute_set("one")
    graph.add_vertices(compute_set, made, [0], {"out": blocks(out.variable, 0, [3], [1], 1)})
    executable = compile_programs(graph, [Execute(compute_set)])
    with Engine(executable, resolve_options(environ={})) as device:
        device.run()
        values: list[float] = device.read_tensor(out).tolist()
        return values


def test_codelets_of_equal_name_and_source_are_distinct() -> None:
    for value in (1.0, 2.0, 1.0):
        assert run(filling(value)) == [value] * 3


def reversed_twice(x: Any) -> Any:
    return x[::-1].copy()[::-1]


def test_a_function_may_make_arrays_and_return_parts_of_them() -> None:
    """Its launcher counts no references; the function does, and what it calls."""
    inner = allocating_jit(reversed_twice)

    @codelet(Field("out", "out"), law=law, code_bytes=10, name="making")
    def make(out: Any) -> None:
        values = np.arange(out.size + 2).astype(np.float32)
        full = [values, inner(values)]
        out[:] = full[1][1:-1]

    assert run(make) == [1.0, 2.0, 3.0]


def scaled(factor: Any) -> Callable[[Any], Any]:
    def scale(x: Any) -> Any:
        return x * factor

    return scale


def over(inner: Any) -> Any:
    @jit
    def outer(x: Any) -> Any:
        return inner(x) + 1

    return outer


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (scaled(2), scaled(3)),
        (scaled(2), scaled(2.0)),
        (scaled(np.float32(2)), scaled(np.float64(2))),
        (scaled(np.arange(3)), scaled(np.arange(3) + 1)),
        (scaled((1, 2)), scaled((2, 1))),
        (over(jit(scaled(2))), over(jit(scaled(3)))),
        (lambda x: x + 1, lambda x: x + 2),
        (lambda x, y=1: x + y, lambda x, y=2: x + y),
    ],
    ids=["int", "type", "width", "array", "order", "callee", "constant", "default"],
)
def test_the_closure_is_part_of_the_digest(one: Any, other: Any) -> None:
    assert kernel_digest(one) not in (None, kernel_digest(other))


def test_types_of_the_compiler_count_by_their_text() -> None:
    """Functions that emit instructions refer to them."""
    digests = [kernel_digest(scaled(kind)) for kind in (ir.IntType(64), ir.IntType(32))]
    assert None not in digests
    assert len(set(digests)) == 2
    assert digests[0] == kernel_digest(scaled(ir.IntType(64)))


def test_what_stands_for_a_function_in_compiled_code_counts() -> None:
    """Its definition is called, or the function that is chosen compiled."""
    kinds = (intrinsic, lambda made: Overloaded(scaled(1), made), numba.extending.intrinsic)
    for kind in kinds:
        digests = [kernel_digest(over(kind(scaled(factor)))) for factor in (2, 3, 2)]
        assert None not in digests
        assert digests[0] != digests[1]
        assert digests[0] == digests[2]


def test_the_same_kernel_has_one_digest() -> None:
    assert kernel_digest(scaled(2)) == kernel_digest(jit(scaled(2)))
    assert kernel_digest(over(jit(scaled(2)))) == kernel_digest(over(jit(scaled(2))))


def test_every_codelet_of_the_library_is_cached() -> None:
    """Without it, every process would compile the kernel again."""
    for module in codelet_modules():
        for value in vars(module).values():
            for item in value.values() if isinstance(value, dict) else [value]:
                if isinstance(item, Codelet):
                    assert kernel_digest(item.kernel) is not None, item.name


def test_kernels_without_a_digest_are_not_cached() -> None:
    assert kernel_digest(scaled(object())) is None


FACTOR = 2


def by_global(x: Any) -> Any:
    return FACTOR * x


def test_a_global_counts_by_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    before = kernel_digest(by_global)
    monkeypatch.setitem(globals(), "FACTOR", 3)
    assert kernel_digest(by_global) not in (None, before)
