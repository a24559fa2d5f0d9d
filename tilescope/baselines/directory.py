"""Baselines in a directory: one file per key, replaced in one step."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from tilescope.baselines.errors import BaselineMissing, StoreNotUsable
from tilescope.baselines.key import FILE_NAME, BaselineKey, is_of_old_layout, parse_path

__all__ = ["DirectoryStore", "replaced_by_copy"]


class DirectoryStore:
    """Reports below a directory.

    Parameters
    ----------
    root
        The directory; made with the first report.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def save(self, key: BaselineKey, report: Path) -> None:
        """Store a report under a key.

        Raises
        ------
        StoreNotUsable
            When the directory cannot be written.
        """
        target = self._root / key.path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            replaced_by_copy(report, target)
        except OSError as error:
            raise StoreNotUsable(f"cannot write {target}: {error.strerror}") from None

    def get(self, key: BaselineKey, target: Path) -> None:
        """Write the report of a key to a file.

        Raises
        ------
        BaselineMissing
            When nothing is stored under the key.
        StoreNotUsable
            When a file cannot be read or written.
        """
        source = self._root / key.path
        if not source.is_file():
            old = (path.relative_to(self._root) for path in self._root.glob("*/*/*/profile.pop"))
            n_old = sum(is_of_old_layout(path.as_posix()) for path in old)
            raise BaselineMissing(str(key), str(self._root), map(str, self.sizes()), n_old)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            replaced_by_copy(source, target)
        except OSError as error:
            raise StoreNotUsable(f"cannot write {target}: {error.strerror}") from None

    def sizes(self) -> dict[BaselineKey, int]:
        """Return the size of every report, bytes."""
        sizes = {}
        for path in sorted(self._root.rglob(FILE_NAME)):
            key = parse_path(path.relative_to(self._root).as_posix())
            if key is not None:
                sizes[key] = path.stat().st_size
        return sizes


def replaced_by_copy(source: Path, target: Path) -> None:
    """Copy a file over another in one step, so that a reader sees the old one or the new one."""
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=".saving-")
    try:
        with os.fdopen(descriptor, "wb") as copy, source.open("rb") as original:
            shutil.copyfileobj(original, copy)
        os.chmod(name, 0o644)
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
