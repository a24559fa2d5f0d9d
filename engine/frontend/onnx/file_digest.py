"""The digest of a model file and of the files that it refers to."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from tilescope.engine.errors import BadModel

__all__ = ["file_digest", "outside_files"]

_BLOCK_BYTES = 1 << 20


def file_digest(path: Path, outside: Sequence[str] = ()) -> str:
    """Return the SHA-256 of a model file, and of files that it refers to, as hexadecimal digits.

    Parameters
    ----------
    path
        The file.
    outside
        Names of the others, as `outside_files` returns them.

    Raises
    ------
    BadModel
        When a file cannot be read.
    """
    digest = hashlib.sha256()
    try:
        with _opened(path) as file:
            digest.update(file.read())
        for name in outside:
            digest.update(name.encode())
            with _opened(path.parent / name) as file:
                while block := file.read(_BLOCK_BYTES):
                    digest.update(block)
    except OSError as error:
        raise BadModel(f"Cannot read model {path}: {error.strerror}") from None
    except ValueError:  # a NUL
        raise BadModel(f"Model {str(path)!r} is not the name of a file") from None
    return digest.hexdigest()


def _opened(path: Path) -> BinaryIO:
    """Return a regular file, open for reading: others can let a reader wait, or never end.

    Raises
    ------
    BadModel
        When it is another kind of file.
    """
    if path.exists() and not path.is_file():
        raise BadModel(f"Cannot read model {path}: it is not a regular file")
    return path.open("rb")


def outside_files(path: Path) -> tuple[str, ...]:
    """Return the names of the files that hold weights of a model file, relative to its folder.

    Raises
    ------
    BadModel
        When the file cannot be read.
    """
    import onnx

    from tilescope.engine.frontend.onnx.refusal import refusing_plainly
    from tilescope.engine.frontend.onnx.source.external import outside_names

    @refusing_plainly
    def names_in(path: Path) -> list[str]:
        return outside_names(onnx.load_model_from_string(path.read_bytes()))

    return tuple(names_in(path))
