"""The key of a baseline: the path of its model in the repository, or a name."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilescope.analyser.summary.provenance import model_name, provenance
from tilescope.baselines.errors import BaselineError

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["FILE_NAME", "BaselineKey", "is_of_old_layout", "key_of", "parse_path"]

#: File of a baseline below the folders of its key.
FILE_NAME = "baseline.pop"
_LONGEST = 80
#: Builds before 0.1.0 stored a baseline below its model, machine and options.
_OLD_LAYOUT = re.compile(r"[^/]+/[^/]+/[^/]+/profile\.pop")


@dataclass(frozen=True, order=True)
class BaselineKey:
    """What a baseline is stored under: folders, with slashes.

    It holds nothing that a change may alter, such as machine, tiles or options: what differs from
    the baseline is compared.
    """

    model: str

    def __str__(self) -> str:
        """Return the key as people read it."""
        return self.model

    @property
    def path(self) -> str:
        """Path of the report in a store, with slashes."""
        return f"{self.model}/{FILE_NAME}"


def key_of(report: Report, name: str | None = None) -> BaselineKey:
    """Return the key of a report.

    Parameters
    ----------
    report
        The report, open.
    name
        Name to store it under; the path of its model if None, else the name of model or engine.

    Raises
    ------
    BaselineError
        When the report names no model, or the name is empty.
    """
    text = name if name is not None else provenance(report).get("model_path") or model_name(report)
    folders = [_folder(part) for part in text.split("/") if part]
    if not folders:
        problem = f"{report.path} does not name its model" if name is None else "the name is empty"
        raise BaselineError(f"{problem}; name it with --name, such as --name resnet")
    return BaselineKey("/".join(folders))


def parse_path(path: str) -> BaselineKey | None:
    """Return the key of a report's path in a store; None for any other file."""
    folders, _, name = path.rpartition("/")
    return BaselineKey(folders) if folders and name == FILE_NAME else None


def is_of_old_layout(path: str) -> bool:
    """Return whether a file of a store is a baseline that is no longer found."""
    return _OLD_LAYOUT.fullmatch(path) is not None


def _folder(name: str) -> str:
    """Return a name as a folder; one that had to change ends in a digest of the original."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:_LONGEST]
    if safe == name and name != FILE_NAME:
        return safe
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{safe}-{digest}" if safe else digest
