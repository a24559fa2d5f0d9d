"""The split of a model over IPUs that a command line asks for, and why an automatic one is so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from tilescope.engine.frontend.source_model import Setup, SourceModel
    from tilescope.engine.machine import Machine

__all__ = ["AUTOMATIC", "explained", "with_split"]

#: What ``--split`` takes in place of nodes.
AUTOMATIC = "auto"


def with_split(
    source: SourceModel, setup: Setup, entries: list[str] | None, machine: Machine
) -> Setup:
    """Return a setup with the IPU of every node that ``--split`` names, or of all if it is auto.

    Raises
    ------
    typer.BadParameter
        When an entry has no IPU, or one that the machine lacks.
    """
    if entries == [AUTOMATIC]:
        from tilescope.engine.transform.balance import balance

        if machine.n_ipus < 2:
            raise typer.BadParameter("--split auto needs several IPUs: give --ipus")
        ipu_bytes = machine.capacity_bytes // machine.n_ipus
        return replace(setup, split=balance(source.load(setup), machine.n_ipus, ipu_bytes))
    return replace(setup, split=_stated(entries, machine.n_ipus))


def explained(source: SourceModel, setup: Setup, entries: list[str] | None) -> list[str]:
    """Return lines about an automatic split: what it puts on every IPU, and what others would."""
    if entries != [AUTOMATIC]:
        return []
    from tilescope.engine.transform.balance import other_cuts, parts_of

    model = source.load(replace(setup, split={}))
    parts = parts_of(model, setup.split)
    slowest = max(parts, key=lambda part: part.work)
    lines = [
        f"IPU {part.ipu}: {part.first} to {part.last},"
        f" {part.n_nodes:,} node{'s' * (part.n_nodes > 1)}, {part.work:.1%} of the work,"
        f" {part.weight_bytes:,} bytes of weights, {part.crossing_bytes:,} bytes arrive"
        for part in parts
    ]
    lines.append(
        f"IPU {slowest.ipu} has most work; equal parts would have {1 / len(parts):.1%} each"
    )
    others = (
        f"With {cut.node} on the other side of the cut after IPU {cut.ipu}: most work"
        f" {cut.slowest:.1%}, {cut.crossing_bytes:,} bytes cross"
        for cut in other_cuts(model, setup.split)
    )
    return [*lines, *others]


def _stated(entries: list[str] | None, n_ipus: int) -> Mapping[str, int]:
    split: dict[str, int] = {}
    for entry in filter(None, (part.strip() for text in entries or [] for part in text.split(","))):
        name, equals, number = entry.rpartition("=")
        if not equals or not name or not number.isdecimal():
            raise typer.BadParameter(
                f"expected auto, or NODE=IPU such as '/decoder/*=1', for --split, got {entry}"
            )
        if int(number) >= n_ipus:
            raise typer.BadParameter(
                f"--split puts {name} on IPU {number}, but --ipus is {n_ipus}: numbers of IPUs"
                " begin at 0 and end before that"
            )
        split[name] = int(number)
    return split
