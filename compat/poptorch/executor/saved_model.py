"""Models in files: the program, with what makes it a model again."""

from __future__ import annotations

import pickle
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from poptorch._logging import logger
from poptorch.enums import ConnectionType
from poptorch.errors import createPoptorchError
from poptorch.version import __version__

__all__ = ["SavedModel", "file_of", "read_model", "write_model"]

#: Entry of a file that holds what is no program.
_ENTRY = "poptorch.pickle"


@dataclass
class SavedModel:
    """What a file has beside the program.

    Parameters
    ----------
    version
        Of PopTorch.
    arguments
        What the program was compiled for.
    options
        Of the model.
    is_training
        Whether it is trained; None without the model.
    model, optimizer
        The module and its optimizer; None if they are not in the file.
    optimizer_state
        What the optimizer knew.
    rng_state
        State of the random numbers.
    """

    version: str
    arguments: Any
    options: Any
    is_training: bool | None = None
    model: Any = None
    optimizer: Any = None
    optimizer_state: Any = None
    rng_state: list[int] | None = None


def file_of(filename: str) -> Path:
    """Return the file that a model is saved to, with the folders above it.

    Raises
    ------
    AssertionError
        When a folder above it is a file.
    """
    file = Path(filename)
    if file.is_dir():
        logger.warning("save(): %s is a directory, saving model to model.poptorch in it", file)
        return file / "model.poptorch"
    folder = file.parent
    assert not folder.exists() or folder.is_dir(), f"{folder} is not a directory"
    folder.mkdir(parents=True, exist_ok=True)
    return file


def write_model(file: Path, saved: SavedModel) -> None:
    """Add to a program's file what makes it a model again."""
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr(_ENTRY, pickle.dumps(saved))


def read_model(filename: str | Path) -> SavedModel:
    """Return what a file has beside the program. The file is unpickled: load only your own.

    Raises
    ------
    Error
        When it is not a model's, or another version wrote it.
    """
    try:
        with zipfile.ZipFile(filename) as archive:
            saved = pickle.loads(archive.read(_ENTRY))
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise createPoptorchError(f"Invalid file {filename}: {error}") from None
    if not isinstance(saved, SavedModel) or saved.version != __version__:
        version = getattr(saved, "version", "unknown")
        raise createPoptorchError(
            f"Invalid file {filename}: PopTorch version mismatch: File was created with version:"
            f" {version} and this is version {__version__}"
        )
    saved.options._unfreeze()
    saved.options.deleteIfExists("ipu_version")
    if saved.options.connection_type == ConnectionType.Never.value:
        saved.options.connectionType(ConnectionType.Always)
    return saved
