"""A store of baselines, and the way to open one by its name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tilescope.baselines.directory import DirectoryStore
from tilescope.baselines.errors import StoreNotUsable
from tilescope.baselines.git_branch import GitBranchStore

if TYPE_CHECKING:
    from tilescope.baselines.key import BaselineKey

__all__ = ["BaselineStore", "open_store"]


class BaselineStore(Protocol):
    """Holds one report per key; several processes may save at once, the last one stays."""

    def save(self, key: BaselineKey, report: Path) -> None:
        """Store a report under a key."""

    def get(self, key: BaselineKey, target: Path) -> None:
        """Write the report of a key to a file."""

    def sizes(self) -> dict[BaselineKey, int]:
        """Return the size of every report, bytes."""


def open_store(
    text: str, remote: str | None = None, *, is_from_file: bool = False
) -> BaselineStore:
    """Return the store named as a directory or as ``git:BRANCH``.

    Parameters
    ----------
    text
        The directory, or the branch of the repository of the current directory.
    remote
        A git remote to fetch the branch from and to push it to; the branch stays local if None.
    is_from_file
        Whether a file names the remote, which must not be a directory then.

    Raises
    ------
    StoreNotUsable
        When a remote is given for a directory, the branch is not one for baselines, or branch or
        remote are not valid names.
    """
    branch = text.removeprefix("git:")
    if branch != text:
        return GitBranchStore(Path.cwd(), branch, remote, is_from_file=is_from_file)
    if remote is not None:
        raise StoreNotUsable(f"--remote needs a store such as git:baselines, got {text!r}")
    if not text.isprintable():
        raise StoreNotUsable(f"{text!r} is not a valid directory; name one such as ./baselines")
    return DirectoryStore(Path(text))
