"""The split of a model over IPUs and stages that a command line asks for, and why it is so."""

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

Entries = list[str] | None


def with_split(
    source: SourceModel, setup: Setup, split: Entries, pipeline: Entries, machine: Machine
) -> Setup:
    """Return a setup with IPUs and stages of nodes, as ``--split`` and ``--pipeline`` state them.

    Raises
    ------
    typer.BadParameter
        When an entry has no number, or an IPU that the machine lacks; or when there are more
        stages than IPUs, and no IPU is stated.
    """
    n_ipus = machine.n_ipus
    ipu_bytes = machine.capacity_bytes // n_ipus
    if split == [AUTOMATIC]:
        from tilescope.engine.transform.balance import balance

        if n_ipus < 2:
            raise typer.BadParameter("--split auto needs several IPUs: give --ipus")
        setup = replace(setup, split=balance(source.load(setup), n_ipus, ipu_bytes))
    else:
        setup = replace(setup, split=_stated("--split", "auto, or NODE=IPU", split))
        for name, ipu in setup.split.items():
            if ipu >= n_ipus:
                raise typer.BadParameter(
                    f"--split puts {name} on IPU {ipu}, but {_ipus_of(machine)}: numbers of IPUs"
                    " begin at 0 and end before that"
                )
    n_stages = _number_of(pipeline)
    if n_stages:
        from tilescope.engine.transform.balance import balance

        setup = replace(setup, pipeline=balance(source.load(setup), n_stages, ipu_bytes))
    else:
        stages = _stated("--pipeline", "a number of stages, or NODE=STAGE", pipeline)
        setup = replace(setup, pipeline=stages)
        n_stages = max(stages.values(), default=-1) + 1
    if n_stages > n_ipus and not setup.split:
        raise typer.BadParameter(
            f"--pipeline has {n_stages} stages, but {_ipus_of(machine)}: give more IPUs, or the"
            " IPU of every stage with --split"
        )
    return setup


def _ipus_of(machine: Machine) -> str:
    """Return how many IPUs a replica has, as a part of a sentence."""
    if machine.n_replicas == 1:
        return f"--ipus is {machine.n_ipus}"
    return f"a replica has {machine.n_ipus} of the {machine.n_system_ipus} of --ipus"


def explained(source: SourceModel, setup: Setup, split: Entries, pipeline: Entries) -> list[str]:
    """Return lines about what was cut automatically: what is on every IPU, and other cuts."""
    lines = _explained(source, setup, setup.split, "IPU") if split == [AUTOMATIC] else []
    if _number_of(pipeline):
        lines += _explained(source, setup, setup.pipeline, "Stage")
    return lines


def _explained(
    source: SourceModel, setup: Setup, places: Mapping[str, int], part_name: str
) -> list[str]:
    from tilescope.engine.transform.balance import other_cuts, parts_of

    model = source.load(replace(setup, split={}, pipeline={}))
    parts = parts_of(model, places)
    slowest = max(parts, key=lambda part: part.work)
    lines = [
        f"{part_name} {part.ipu}: {part.first} to {part.last},"
        f" {part.n_nodes:,} node{'s' * (part.n_nodes > 1)}, {part.work:.1%} of the work,"
        f" {part.weight_bytes:,} bytes of weights, {part.crossing_bytes:,} bytes arrive"
        for part in parts
    ]
    lines.append(
        f"{part_name} {slowest.ipu} has most work; equal parts would have {1 / len(parts):.1%} each"
    )
    others = (
        f"With {cut.node} on the other side of the cut after {part_name} {cut.ipu}: most work"
        f" {cut.slowest:.1%}, {cut.crossing_bytes:,} bytes cross"
        for cut in other_cuts(model, places)
    )
    return [*lines, *others]


def _number_of(pipeline: Entries) -> int:
    """Return the number of stages that is asked for; 0 where nodes are named."""
    return int(pipeline[0]) if pipeline and len(pipeline) == 1 and pipeline[0].isdecimal() else 0


def _stated(option: str, form: str, entries: Entries) -> Mapping[str, int]:
    """Return the numbers of nodes.

    Raises
    ------
    typer.BadParameter
        When an entry has none.
    """
    numbers: dict[str, int] = {}
    for entry in filter(None, (part.strip() for text in entries or [] for part in text.split(","))):
        name, equals, number = entry.rpartition("=")
        if not equals or not name or not number.isdecimal():
            raise typer.BadParameter(
                f"expected {form} such as '/decoder/*=1', for {option}, got {entry}"
            )
        numbers[name] = int(number)
    return numbers
