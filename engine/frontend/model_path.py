"""The path by which a model is known, wherever its repository lies on a computer."""

from __future__ import annotations

from pathlib import Path

import platformdirs

__all__ = ["lasting_path"]


def lasting_path(path: Path) -> str:
    """Return the path of a model, with slashes, as it is on every computer.

    Relative to the top of the repository that holds the model's directory, else to the user's
    cache for models of the catalogue, else to the working directory; absolute if it is in none of
    them. Links to directories are followed, the model itself may be a link.

    Parameters
    ----------
    path
        The model; it need not exist.
    """
    resolved = path.parent.resolve() / path.name
    cache = platformdirs.user_cache_path("tilescope", appauthor=False).resolve()
    tops = [parent for parent in resolved.parents if (parent / ".git").exists()][:1]
    for top in (*tops, cache, Path.cwd()):
        if resolved.is_relative_to(top):
            return resolved.relative_to(top).as_posix()
    return resolved.as_posix()
