"""Copies from and to streaming memory beside compute, by way of I/O tiles.

A load before an operation runs while the operations before it compute: it goes to variables on the
I/O tiles, and from there to where it is read. What is stored goes to I/O tiles first, and from
there off chip while the operations after it compute.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from tilescope.engine.graph import Graph, RemoteBuffer, View
from tilescope.engine.program import (
    Copy,
    CrossReplicaCopy,
    Function,
    Overlap,
    Program,
    RemoteCopyIn,
    RemoteCopyOut,
    Repeat,
    Sequence,
    StreamCopyIn,
    StreamCopyOut,
)

__all__ = ["overlap_streaming"]

#: What cannot run beside copies from and to streaming memory.
_ALONE = (CrossReplicaCopy, Overlap, RemoteCopyIn, RemoteCopyOut, StreamCopyIn, StreamCopyOut)


def overlap_streaming(graph: Graph, root: Sequence) -> None:
    """Run copies from and to streaming memory on I/O tiles beside compute, in place.

    Parameters
    ----------
    graph
        Of the program; a graph without I/O tiles stays as it is.
    root
        The program; bodies of its loops are treated likewise.
    """
    if graph.n_io_tiles:
        root.children = _Schedule(graph).of(root.children)


@dataclass
class _Schedule:
    """Arranges the programs of a sequence.

    Parameters
    ----------
    graph
        Takes the variables on I/O tiles.

    Attributes
    ----------
    placed
        Programs in their new order.
    compute
        Those since the last copy, which copies may run beside.
    leaving
        Copies off chip that have their data on the I/O tiles.
    """

    graph: Graph
    placed: list[Program] = field(default_factory=list)
    compute: list[Program] = field(default_factory=list)
    leaving: list[RemoteCopyOut] = field(default_factory=list)

    def of(self, children: list[Program]) -> list[Program]:
        """Return the programs of a sequence in their new order."""
        arriving: list[RemoteCopyIn] = []
        for child in children:
            loads = _loads_of(child)
            if loads is not None:
                if {load.buffer for load in loads} & {store.buffer for store in self.leaving}:
                    self._run(arriving)  # what was stored last is read after it is there
                    arriving = []
                    self._run([])
                arriving += loads
                continue
            if arriving:
                self._run(arriving)
                arriving = []
            stores = child.children[-1:] if isinstance(child, Sequence) else []
            if stores and isinstance(stores[0], RemoteCopyOut) and not _is_alone(child, 1):
                self._store(child, stores[0])
            elif isinstance(child, Repeat) and isinstance(child.body, Sequence):
                self._run([])
                body = _Schedule(self.graph).of(child.body.children)
                self.placed.append(replace(child, body=replace(child.body, children=body)))
            elif _is_alone(child):
                self._run([])
                self.placed.append(child)
            else:
                self.compute.append(child)
        self._run(arriving)
        self._run([])
        return self.placed

    def _run(self, arriving: list[RemoteCopyIn]) -> None:
        """Run what computes, and the copies beside it; then bring what has arrived to its place."""
        pairs = [(load, self._on_io_tiles(load.target, load.buffer)) for load in arriving]
        copies: list[Program] = [*self.leaving]
        copies += [replace(load, target=there) for load, there in pairs]
        if copies and self.compute:
            names = [load.buffer.name for load in arriving] or [copies[0].debug.name]
            side, compute = Sequence("copies", copies), Sequence("compute", self.compute)
            self.placed.append(Overlap(side, compute, f"beside {names[0]}"))
        else:
            self.placed += [*self.compute, *copies]
        self.compute, self.leaving = [], []
        self.placed += [
            Copy(there, load.target, name="fromIoTiles", debug=load.debug) for load, there in pairs
        ]

    def _store(self, child: Program, store: RemoteCopyOut) -> None:
        """Copy what is stored to I/O tiles; from there it leaves beside what follows."""
        assert isinstance(child, Sequence)
        if self.leaving:
            self._run([])
        there = self._on_io_tiles(store.source, store.buffer)
        copied = Copy(store.source, there, name="toIoTiles", debug=store.debug)
        self.compute.append(replace(child, children=[*child.children[:-1], copied]))
        held, self.compute = self.compute, []
        self.placed += held
        self.leaving.append(replace(store, source=there))

    def _on_io_tiles(self, view: View, buffer: RemoteBuffer) -> View:
        """Return a new variable for a value on the I/O tiles of its IPUs."""
        graph, per_ipu = self.graph, self.graph.machine.tiles_per_ipu
        tiles = np.concatenate([variable.map_tile for variable in view.variables])
        ipus = np.unique(tiles // per_ipu)
        io_tiles = graph.io_tiles[np.isin(graph.io_tiles // per_ipu, ipus)]
        there = graph.add_variable(view.dtype.name, view.shape, f"{buffer.name}/io")
        graph.map_linearly(there, grain=max(1, 8 // view.dtype.n_bytes), tiles=io_tiles)
        return there


def _loads_of(program: Program) -> list[RemoteCopyIn] | None:
    """Return the loads that a program is; None if it is something else."""
    if not isinstance(program, Sequence) or not program.children:
        return None
    loads = [child for child in program.children if isinstance(child, RemoteCopyIn)]
    return loads if len(loads) == len(program.children) else None


def _is_alone(program: Program, n_last: int = 0) -> bool:
    """Return whether a program has a part that cannot run beside copies.

    Parameters
    ----------
    program
        Any program.
    n_last
        Last children of a sequence that do not count.
    """
    if n_last and isinstance(program, Sequence):
        return any(map(_is_alone, program.children[:-n_last]))
    return isinstance(program, _ALONE) or any(map(_is_alone, _parts(program)))


def _parts(program: Program) -> Iterator[Program]:
    """Yield the programs inside a program."""
    for value in vars(program).values():
        inside = value.values() if isinstance(value, Mapping) else value
        for part in inside if isinstance(value, Mapping | list | tuple) else [value]:
            if isinstance(part, Program):
                yield part
            elif isinstance(part, Function):
                yield part.body
