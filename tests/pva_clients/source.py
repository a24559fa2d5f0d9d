"""Files of public repositories: fetched, or taken from a folder, and loaded without their rest.

A client often stands in a file that also imports a framework. Of such a file only definitions are
executed, and the imports that this machine can satisfy.
"""

from __future__ import annotations

import ast
import importlib
import runpy
import sys
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

__all__ = ["NotReachable", "Source"]

_HOST = "https://raw.githubusercontent.com"
_TIMEOUT_S = 30


class NotReachable(Exception):
    """A file is neither in the folder nor can it be fetched."""


@dataclass(frozen=True)
class Source:
    """Files of a commit of a repository; ``folder`` keeps what was fetched, by repository."""

    repository: str
    commit: str
    folder: Path

    def file(self, path: str) -> Path:
        """Return where a file lies, after fetching it if need be.

        Raises
        ------
        NotReachable
            When it cannot be fetched.
        """
        position = self.folder / self.repository / path
        if not position.exists():
            address = f"{_HOST}/{self.repository}/{self.commit}/{path}"
            try:
                with urlopen(address, timeout=_TIMEOUT_S) as answer:
                    content = answer.read()
            except (URLError, TimeoutError) as error:
                raise NotReachable(f"{address}: {error}") from error
            position.parent.mkdir(parents=True, exist_ok=True)
            position.write_bytes(content)
        return position

    def definitions(self, path: str) -> SimpleNamespace:
        """Return the functions and classes of a file that can be defined here."""
        position = self.file(path)
        results: dict[str, Any] = {"__name__": position.stem}
        for statement in ast.parse(position.read_text("utf-8")).body:
            if isinstance(statement, ast.Import | ast.ImportFrom):
                _try_import(statement, results)
            elif isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.Assign):
                try:
                    _execute(statement, position, results)
                except NameError:  # it stands on a framework that is not here
                    continue
        return SimpleNamespace(**results)

    def script(self, path: str, directory: Path, *arguments: str) -> str:
        """Run a file as a program in a directory; return what it prints."""
        position, before, printed = self.file(path), sys.argv, StringIO()
        sys.argv = [str(position), *arguments]
        try:
            with redirect_stdout(printed), chdir(directory):
                runpy.run_path(str(position), run_name="__main__")
        finally:
            sys.argv = before
        return printed.getvalue()

    @contextmanager
    def package(self, root: str, *paths: str) -> Iterator[Any]:
        """Import a package from files below a folder of the repository, and forget it after."""
        for path in paths:
            self.file(f"{root}{path}")
        name = paths[0].partition("/")[0]
        position = str(self.folder / self.repository / root)
        sys.path.insert(0, position)
        try:
            yield importlib.import_module
        finally:
            sys.path.remove(position)
            for module in [item for item in sys.modules if item.partition(".")[0] == name]:
                del sys.modules[module]


def _try_import(statement: ast.Import | ast.ImportFrom, found: dict[str, Any]) -> None:
    """Execute an import; a missing framework stays undefined."""
    try:
        _execute(statement, Path("import"), found)
    except ImportError:
        return


def _execute(statement: ast.stmt, place: Path, found: dict[str, Any]) -> None:
    """Execute a statement of a module."""
    module = ast.Module([statement], [])
    exec(compile(module, str(place), "exec"), found)
