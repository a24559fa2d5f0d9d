"""Reads the file of a machine, a preset or a custom one, into figures with sources."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from tilescope.engine.arguments import shown
from tilescope.engine.errors import BadMachine
from tilescope.engine.machine.figures import FIGURES, PARAMETER_SETS
from tilescope.engine.machine.links import TOPOLOGIES

__all__ = ["Description", "Figure", "describe_machine", "machine_names"]

_SECTIONS = ("common", *PARAMETER_SETS, "shown")
_TEXTS = ("name", "base", "architecture", "link_topology")
_LARGEST_FILE_BYTES = 1 << 20
_SHOWN_LENGTH = 60


@dataclass(frozen=True)
class Figure:
    """A value and its public source."""

    value: int | float
    source: str

    @property
    def is_assumption(self) -> bool:
        """Whether no public figure was found."""
        return self.source.startswith("Assumption")


@dataclass(frozen=True)
class Description:
    """The content of a machine file, its base included.

    Parameters
    ----------
    name, architecture, link_topology
        Properties of the machine.
    by_set
        Figures by name, per parameter set; display-only figures are in both sets.
    """

    name: str
    architecture: str
    link_topology: str
    by_set: Mapping[str, Mapping[str, Figure]]


def machine_names() -> list[str]:
    """Return the names of the presets, sorted."""
    folder = resources.files("tilescope.engine.machine") / "presets"
    return sorted(p.name[:-5] for p in folder.iterdir() if p.name.endswith(".toml"))


def describe_machine(name: str) -> Description:
    """Return the description of a preset or of a TOML file.

    Parameters
    ----------
    name
        A preset's name or a path; a path ends in ``.toml`` or contains a separator.

    Raises
    ------
    BadMachine
        The preset or file does not exist, or a figure is unknown, missing or out of range.
    """
    if not isinstance(name, str):
        raise BadMachine(
            f"expected a machine name such as gc200 or the path of a file, got {shown(name)}"
        )
    if name.endswith(".toml") or "/" in name:
        return _own_machine(Path(name).expanduser())
    return _preset(name, "Unknown machine")


@cache
def _preset(name: str, complaint: str) -> Description:
    known = machine_names()
    if name not in known:
        near = difflib.get_close_matches(name, known, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise BadMachine(
            f"{complaint} {_shown(name)}: choose one of {', '.join(known)}, or give the path of a"
            f" .toml file{hint}"
        )
    path = resources.files("tilescope.engine.machine") / "presets" / f"{name}.toml"
    return _description(tomllib.loads(path.read_text(encoding="utf-8")), name, f"Target {name}")


def _own_machine(path: Path) -> Description:
    where = f"Machine file {path}"
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_FILE_BYTES + 1)
    except FileNotFoundError:
        raise BadMachine(f"{where} does not exist; expected the path of a .toml file") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a path"
        raise BadMachine(f"{where} is not readable ({reason}); expected a .toml file") from None
    if len(content) > _LARGEST_FILE_BYTES:
        raise BadMachine(f"{where} is larger than 1 MiB; a machine file has a few lines")
    try:
        sections = tomllib.loads(content.decode("utf-8"))
    except UnicodeDecodeError:
        raise BadMachine(f"{where} is not UTF-8 text; expected TOML") from None
    except tomllib.TOMLDecodeError as error:
        raise BadMachine(f"{where} is not valid TOML: {error}") from None
    except (RecursionError, ValueError):
        raise BadMachine(f"{where} is not usable TOML: it is nested too deeply") from None
    return _description(sections, path.stem, where)


def _description(results: Mapping[str, Any], stem: str, where: str) -> Description:
    """Validate a file's content, apply it over its base, and check that it is complete."""
    for key in results:
        if key not in (*_SECTIONS, *_TEXTS):
            near = difflib.get_close_matches(key, (*_SECTIONS, *_TEXTS), 1, 0)[0]
            raise BadMachine(f"{where}: unknown key {_shown(key)}; the nearest known is {near!r}")
    texts = {key: _text(results[key], key, where) for key in _TEXTS if key in results}
    base = _preset(texts["base"], f"{where}: unknown base") if "base" in texts else None
    sections = {key: _section(results.get(key, {}), key, where) for key in _SECTIONS}
    architecture = texts.get("architecture") or (base.architecture if base else None)
    if architecture is None:
        raise BadMachine(
            f"{where}: architecture is missing; expected a string such as 'ipu2', or a base"
        )
    topology = texts.get("link_topology", base.link_topology if base else TOPOLOGIES[0])
    if topology not in TOPOLOGIES:
        raise BadMachine(
            f"{where}: link_topology is {_shown(topology)}; choose {' or '.join(TOPOLOGIES)}"
        )
    by_set = {}
    for parameter_set in PARAMETER_SETS:
        figures = {
            **(base.by_set[parameter_set] if base else {}),
            **sections["shown"],
            **sections["common"],
            **sections[parameter_set],
        }
        _check_whole(figures, f"{where}, set {parameter_set}")
        by_set[parameter_set] = figures
    return Description(texts.get("name", stem), architecture, topology, by_set)


def _text(value: object, key: str, where: str) -> str:
    if not isinstance(value, str) or not value or not value.isprintable():
        raise BadMachine(f"{where}: {key} must be a string, got {_shown(value)}")
    return value


def _section(figures: object, section: str, where: str) -> dict[str, Figure]:
    if not isinstance(figures, dict):
        raise BadMachine(f"{where}: {section} must be a table of figures, [{section}]")
    return {key: _figure(key, value, section, where) for key, value in figures.items()}


def _figure(key: str, figure: object, section: str, where: str) -> Figure:
    section_name = f"{where}, [{section}]"
    spec = FIGURES.get(key)
    if spec is None:
        near = difflib.get_close_matches(key, FIGURES, 1, 0)[0]
        raise BadMachine(
            f"{section_name}: unknown figure {_shown(key)}; the nearest known is {near!r}"
        )
    value, source = figure, f"{where}: no source given"
    if isinstance(figure, dict):
        if "value" not in figure or set(figure) - {"value", "source"}:
            raise BadMachine(
                f'{section_name}: {key} must be a number, or {{ value = …, source = "…" }}'
            )
        value = figure["value"]
        source = _text(figure.get("source", source), f"the source of {key}", section_name)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    # Not-a-number and infinity are outside every range.
    if (
        not is_number
        or not spec.low <= value <= spec.high  # type: ignore[operator]
        or (spec.is_whole and value != int(value))  # type: ignore[call-overload]
    ):
        raise BadMachine(
            f"{section_name}: expected {spec.allowed} {spec.unit} for {key}, got {_shown(value)}"
        )
    assert isinstance(value, int | float)
    return Figure(int(value) if spec.is_whole else value, source)


def _check_whole(figures: Mapping[str, Figure], where: str) -> None:
    """Check that all figures are present and that the memory regions fit the tile."""
    missing = [s for s in FIGURES.values() if s.is_used and s.name not in figures]
    if missing:
        first = missing[0]
        rest = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        raise BadMachine(
            f"{where}: {first.name} is missing{rest}; set it to {first.allowed} {first.unit}, or"
            f" name a base such as base = 'gc200'"
        )
    regions = ("non_interleaved_bytes", "interleaved_bytes")
    sizes = [figures[name].value for name in regions]
    of_tile = figures["bytes_per_tile"].value
    if sum(sizes) > of_tile:
        raise BadMachine(
            f"{where}: {regions[0]} and {regions[1]} add up to {sum(sizes):,}, more than the"
            f" bytes_per_tile of {of_tile:,}; set all three so that the regions fit the tile"
        )


def _shown(value: object) -> str:
    """Return a value quoted, short and without control characters."""
    text = repr(value) if not isinstance(value, str) else value
    text = text if len(text) <= _SHOWN_LENGTH else text[: _SHOWN_LENGTH - 1] + "…"
    text = "".join(c if c.isprintable() else "?" for c in text)
    return f"'{text}'" if isinstance(value, str) else text
