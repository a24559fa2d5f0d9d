"""Programs that the product starts: one list, so that a new one is a decision."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

ROOT = Path(__file__).parents[2]
FOLDERS = (
    "analyser",
    "compat/libpvti",
    "compat/popart",
    "compat/poptorch",
    "compat/pva",
    "engine",
    "examples",
    "reports",
    "tilescope",
    "webapp",
)

#: Place of a call that starts a program, or links or imports code by name: what reaches it.
STARTS = {
    "compat/poptorch/dataloader/accessor.py AsynchronousDataAccessor.__init__"
    " multiprocessing.get_context": "this Python, with the data set of the program",
    "compat/poptorch/dataloader/worker.py load_batches multiprocessing.set_forkserver_preload": (
        "names modules for the workers of that data set"
    ),
    "engine/models/wheel.py download_wheel subprocess.run": "pip, with facts of the catalogue",
    "engine/session/warmup.py warm_up ProcessPoolExecutor": "this Python, with kernels by name",
    "engine/session/warmup.py warm_up get_context": "this Python, with kernels by name",
    "tilescope/baselines/git.py Git.run subprocess.run": "git; test_baseline_git.py",
    "engine/host/memory.py give_back ctypes.CDLL": "the C library of the process",
    "engine/host/memory.py keep_freed ctypes.CDLL": "the C library of the process",
    "engine/host/jit/loader.py load add_object_file": "kernels; test_planted_kernels.py",
}
IMPORTS = {
    "analyser/diff/__init__.py __getattr__": "names of the package",
    "engine/__init__.py __getattr__": "names of the package",
    "engine/compiler/executable/codelet_place.py codelet_at": "executables: trusted, documented",
    "engine/compiler/executable/codelet_place.py codelet_modules": "modules of codelets",
    "engine/frontend/operator_file.py load_operators": "the file of --operators: documented",
    "engine/frontend/onnx/__init__.py __getattr__": "names of the package",
    "engine/frontend/torch/__init__.py __getattr__": "names of the package",
    "engine/host/jit/settings.py _setting": "numba",
    "engine/session/warmup.py _Kernel.launcher": "modules of codelets",
    "reports/__init__.py __getattr__": "names of the package",
    "tilescope/main.py _Group.load": "the table of commands",
    "webapp/api/__init__.py modules": "names of the package",
    "webapp/pages/__init__.py modules": "names of the package",
}
_MODULES = {
    "_posixsubprocess", "multiprocessing", "pexpect", "pty", "runpy", "subprocess", "webbrowser",
}  # fmt: skip
_NAMES = {
    "CDLL", "LoadLibrary", "Popen", "PyDLL", "ProcessPoolExecutor", "add_object_file",
    "create_subprocess_exec", "create_subprocess_shell", "forkpty", "fork", "get_context",
    "getoutput", "getstatusoutput", "load_library_permanently", "popen", "run_module",
    "run_path", "startfile", "subprocess_exec", "subprocess_shell", "system",
}  # fmt: skip
_PREFIXES = ("exec", "posix_spawn", "spawn")
_UNPICKLE = {"pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}


def source_files() -> Iterator[tuple[str, ast.Module]]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not any(parent.is_symlink() for parent in path.parents if ROOT in parent.parents):
                yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text("utf-8"))


def calls(tree: ast.AST, scope: str = "") -> Iterator[tuple[str, str]]:
    """Yield the function or method that holds a call, and the callee as it is written."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Call):
            yield scope, ast.unparse(node.func)
        is_scope = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        inner = f"{scope}.{node.name}".lstrip(".") if is_scope else scope  # type: ignore[attr-defined]
        yield from calls(node, inner)


def starts_a_program(callee: str) -> bool:
    module, _, name = callee.rpartition(".")
    if name in _NAMES or module in _MODULES:
        return True
    return module in ("os", "loop", "asyncio") and name.startswith(_PREFIXES)


def test_programs_are_started_where_the_list_says() -> None:
    starts = {
        f"{path} {scope} {callee.removeprefix('engine.')}"
        for path, tree in source_files()
        for scope, callee in calls(tree)
        if starts_a_program(callee)
    }
    assert starts == set(STARTS)


def test_code_is_imported_by_name_where_the_list_says() -> None:
    imports = {
        f"{path} {scope}"
        for path, tree in source_files()
        for scope, callee in calls(tree)
        if callee.rpartition(".")[2] in ("import_module", "__import__", "exec_module")
    }
    assert imports == set(IMPORTS)


@pytest.mark.parametrize(
    "callee",
    ["subprocess.check_output", "os.system", "os.execvp", "os.posix_spawn", "Popen", "pty.spawn",
     "webbrowser.open", "asyncio.create_subprocess_exec", "ctypes.CDLL", "os.popen"],
)  # fmt: skip
def test_the_list_would_hold_a_new_program(callee: str) -> None:
    assert starts_a_program(callee)


#: Reads pickles of listed types only, which are data: see `_Reader.find_class`.
LISTED_OBJECTS = ("engine/compiler/executable/objects.py",)

#: What a program hands to a process of its own, and its own models in files: documented.
OWN_OBJECTS = tuple(
    f"compat/poptorch/{file}"
    for file in ("dataloader/accessor.py", "dataloader/worker.py", "executor/saved_model.py")
)

#: Connections and slots, of processes that `STARTS` has.
OWN_PROCESSES = ("compat/poptorch/dataloader/slots.py", "compat/poptorch/dataloader/worker.py")


def test_no_shell_and_no_object_that_is_code_in_a_file() -> None:
    for path, tree in source_files():
        for node in ast.walk(tree):
            if isinstance(node, ast.keyword) and node.arg in ("shell", "allow_pickle"):
                assert isinstance(node.value, ast.Constant), path
                assert node.value.value is False, path
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = {alias.name.partition(".")[0] for alias in node.names}
                names.add((getattr(node, "module", None) or "").partition(".")[0])
                assert not names & _UNPICKLE or path in (*LISTED_OBJECTS, *OWN_OBJECTS), path
                is_known = path in OWN_PROCESSES or any(start.startswith(path) for start in STARTS)
                assert not names & _MODULES or is_known, path


@pytest.mark.parametrize("file", ["action.yml", "docs/how-to/ci/gitlab.yml"])
def test_scripts_of_ci_take_values_from_the_environment_only(file: str) -> None:
    """GitHub writes an expression into the text of a script, where it is code."""

    def scripts(node: object, key: str = "") -> Iterator[str]:
        if isinstance(node, dict):
            for name, inner in node.items():
                yield from scripts(inner, str(name))
        elif isinstance(node, list):
            for inner in node:
                yield from scripts(inner, key)
        elif key in ("run", "script", "before_script", "after_script"):
            yield str(node)

    texts = list(scripts(yaml.safe_load((ROOT / file).read_text("utf-8"))))
    assert len(texts) >= 4
    for text in texts:
        assert "${{" not in text
        assert "eval" not in text.split()
        for line in text.replace("\\\n", " ").splitlines():
            words = line.split()
            if words[:1] == ["tilescope"] or words[:2] in (["rm", "-rf"], ["mkdir", "-p"]):
                assert "--" in words, line


def test_examples_of_workflows_in_the_documentation_do_too() -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        for line in page.read_text("utf-8").splitlines():
            if line.lstrip(" -").startswith("run:"):
                assert "${{" not in line, page
