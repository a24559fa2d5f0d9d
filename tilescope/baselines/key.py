"""What a baseline is stored under: model, machine and options."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilescope.analyser.absence import machine_absence
from tilescope.analyser.provenance import model_name, provenance
from tilescope.baselines.errors import BaselineError
from tilescope.reports import schema

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["REPORT_NAME", "BaselineKey", "key_of", "parse_path"]

REPORT_NAME = "profile.pop"
_LONGEST = 80
#: Options that say where files go and what is recorded, not what is compiled.
_PLACES = ("autoReport.", "enableEngineCaching", "cachePath")


@dataclass(frozen=True)
class BaselineKey:
    """Names that are folders; ``options`` is ``default`` or a digest of those that are set."""

    model: str
    machine: str
    options: str

    def __str__(self) -> str:
        """Return the key as people read it."""
        return f"{self.model}/{self.machine}/{self.options}"

    @property
    def path(self) -> str:
        """Path of the report in a store, with slashes."""
        return f"{self}/{REPORT_NAME}"


def key_of(report: Report, name: str | None = None) -> BaselineKey:
    """Return the key of a report.

    Parameters
    ----------
    report
        The report, open.
    name
        Name of the model; that in the report if None.

    Raises
    ------
    BaselineError
        When the report ends before its machine was written, or names no model.
    """
    model = name or model_name(report)
    if not model:
        raise BaselineError(f"{report.path} does not name its model; name it with --name")
    columns = ("name", "n_ipus", "tiles_per_ipu", "parameter_set")
    rows = report.rows(schema.target, *columns)
    if not rows:
        raise BaselineError(machine_absence(report))
    machine, n_ipus, n_tiles, parameters = rows[0]
    text = f"{machine}-{n_ipus}x{n_tiles}-{parameters}"
    return BaselineKey(_folder(model), _folder(text), _options(report))


def parse_path(path: str) -> BaselineKey | None:
    """Return the key of a report's path in a store; None for any other file."""
    parts = path.split("/")
    return BaselineKey(*parts[:3]) if len(parts) == 4 and parts[3] == REPORT_NAME else None


def _options(report: Report) -> str:
    """Return a digest of the options that are set."""
    facts = provenance(report)
    given = {
        name: value
        for name, value, origin in report.rows(schema.engine_option, "name", "value", "origin")
        if origin != "default" and not name.startswith(_PLACES)
    }
    if "target_options" in facts:
        given["target_options"] = facts["target_options"]
    if not given:
        return "default"
    return hashlib.sha256(json.dumps(given, sort_keys=True).encode()).hexdigest()[:12]


def _folder(name: str) -> str:
    """Return a name as a folder; one that had to change ends in a digest of the original."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:_LONGEST]
    if safe == name:
        return safe
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{safe}-{digest}" if safe else digest
