"""Import contracts, and modules that a light start must not load."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "tilescope",
    "webapp",
    "analyser",
    "engine",
    "reports",
    "compat/libpvti",
    "compat/popart",
    "compat/poptorch",
    "compat/pva",
)
HEAVY = ("numba", "dash", "plotly", "fastapi", "onnx", "scipy", "sqlite3")
THE_JIT = Path("engine/host/jit/compiler.py")
COMPILING = {"jit", "njit", "vectorize", "guvectorize", "stencil", "cfunc", "generated_jit"}


def sources() -> Iterator[Path]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield path.relative_to(ROOT)


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "compat")},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_the_import_contracts_hold() -> None:
    pytest.importorskip("importlinter")
    finished = run_python("-c", "from importlinter.cli import lint_imports_command as c; c()")
    assert finished.returncode == 0, finished.stdout
    assert "0 broken" in finished.stdout


@pytest.mark.parametrize(
    "statement",
    [
        "import tilescope.engine.errors",
        "import tilescope.engine.options",
        "import tilescope.engine.models",
        "import tilescope.reports",
        "import tilescope.analyser",
        "import pva",
        "import tilescope.main",
        "import sys; sys.argv = ['tilescope', '--help']\n"
        "try:\n    from tilescope.main import main; main()\nexcept SystemExit: pass",
    ],
    ids=lambda text: "help" if "argv" in text else text.split()[-1],
)
def test_a_light_start_loads_nothing_heavy(statement: str) -> None:
    report = f"import sys; print('LOADED', *sorted(set({HEAVY!r}) & set(sys.modules)))"
    finished = run_python("-c", f"{statement}\n{report}")
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.splitlines()[-1] == "LOADED"


def test_the_help_loads_no_command() -> None:
    heavy = (
        *HEAVY,
        "numpy",
        "apsw",
        "rich",
        "sqlalchemy",
        "importlib.metadata",
        "email",
        "zipfile",
    )
    report = (
        f"print('LOADED', *sorted({{*{heavy!r}}} & {{*sys.modules}}),"
        " *(name for name in sys.modules if name.startswith('tilescope.commands.')))"
    )
    finished = run_python(
        "-c", f"import sys; from tilescope.main import main; main(['--help'])\n{report}"
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.splitlines()[-1] == "LOADED"


def test_one_file_holds_the_one_decorator_that_compiles() -> None:
    results = []
    for path in sources():
        if path == THE_JIT:
            continue
        for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "numba":
                names = {alias.name for alias in node.names} & COMPILING
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                is_numba = node.value.id in {"numba", "nb"}
                names = {node.attr} & COMPILING if is_numba else set()
            else:
                continue
            results += [f"{path}:{node.lineno} {name}" for name in names]
    assert results == [], f"compile through {THE_JIT} only"


def test_no_module_has_a_generic_name() -> None:
    nothing = {"utils", "util", "helpers", "common", "misc", "core"}
    named = [path for path in sources() if {*path.parts, path.stem} & nothing]
    bases = [path for path in sources() if path.stem == "base"]
    assert named + bases == []


def test_every_package_documents_its_purpose() -> None:
    silent = [
        path
        for path in sources()
        if not ast.get_docstring(ast.parse((ROOT / path).read_text(encoding="utf-8")))
    ]
    assert silent == []
