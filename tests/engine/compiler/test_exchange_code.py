"""Exchange code: runs of a sender's memory, changes of source and pointer of a receiver."""

from __future__ import annotations

import numpy as np
import pytest

from tilescope.engine.codelets.popops.elementwise.copy import COPY
from tilescope.engine.compiler.executable.executable import Executable
from tilescope.engine.graph import ROOT, Graph, blocks
from tilescope.engine.library.builder import Builder
from tilescope.engine.machine import load_machine
from tilescope.engine.program import Sequence
from tilescope.engine.session.compile import compile_programs

MACHINE = load_machine("c600", tiles_per_ipu=6)
FIXED, SOURCE, POINTER, SEND = (
    MACHINE.exchange_code_bytes_per_phase,
    MACHINE.exchange_code_bytes_per_source,
    MACHINE.exchange_code_bytes_per_pointer,
    MACHINE.exchange_code_bytes_per_send,
)


def copied(starts: list[int], n: int, owners: list[tuple[int, int]], size: int) -> Executable:
    """Copy `n` floats from each start of a variable to tiles 2, 3 …; owners: (start, tile)."""
    graph = Graph(MACHINE)
    x = graph.add_variable("float32", (size,), "x")
    graph.set_tile_mapping(x, *map(list, zip(*owners, strict=True)))
    out = graph.add_variable("float32", (len(starts), n), "out")
    tiles = list(range(2, 2 + len(starts)))
    graph.set_tile_mapping(out, [i * n for i in range(len(starts))], tiles)
    builder = Builder(graph, Sequence("program"), ROOT)
    fields = {
        "x": blocks(x.variable, np.array(starts), [n], [1], len(starts)),
        "out": blocks(out.variable, np.arange(len(starts)) * n, [n], [1], len(starts)),
    }
    builder.vertices(builder.compute_set("copy"), COPY, tiles, fields)
    return compile_programs(graph, [builder.sequence])


def code_of(executable: Executable) -> list[int]:
    (step,) = (step for step in executable.steps if step.kind == "DoExchange")
    assert step.code_bytes is not None
    return step.code_bytes.tolist()


def test_overlapping_reads_are_one_run() -> None:
    """Tiles 2, 3 and 4 read 16 floats each, 8 apart: 32 floats of tile 0 are sent once."""
    code = code_of(copied([0, 8, 16], 16, [(0, 0)], 32))
    receiver = FIXED + SOURCE
    assert code == [FIXED + SEND, 0, receiver, receiver, receiver, 0]


def test_intervals_that_are_neighbours_in_memory_are_one_run() -> None:
    """Tile 0 holds elements 0 to 7 and 16 to 23, one after the other; tile 1 those between."""
    code = code_of(copied([0], 24, [(0, 0), (8, 1), (16, 0)], 24))
    # Three pieces of the buffer, of which the first and the last come one after the other.
    assert code == [FIXED + SEND, FIXED + SEND, FIXED + 2 * SOURCE + POINTER, 0, 0, 0]


def test_runs_apart_in_memory_are_sent_one_by_one() -> None:
    code = code_of(copied([0, 16], 8, [(0, 0)], 32))
    assert code == [FIXED + 2 * SEND, 0, FIXED + SOURCE, FIXED + SOURCE, 0, 0]


@pytest.mark.parametrize(("n_words", "n_sends"), [(64, 1), (65, 2), (4160, 2), (4161, 3)])
def test_a_long_run_is_continued(n_words: int, n_sends: int) -> None:
    """A send carries 64 words, every continuation 4,096 more."""
    code = code_of(copied([0], n_words, [(0, 0)], n_words))
    assert code == [FIXED + n_sends * SEND, 0, FIXED + SOURCE, 0, 0, 0]
