"""The wheel and the image's install script, in empty environments."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.packaging

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
QUERIES = ("summary", "memory", "liveness", "programs", "trace", "diff", "models")
COMMANDS = (*QUERIES, "baseline", "export", "run", "serve")
TOP_LEVEL = {"tilescope", "libpvti", "popart", "popart_core", "poptorch", "pva"}
FOLDERS = {"engine", "analyser", "webapp", "reports", "compat", "tests", "docs"}
PIP = (sys.executable, "-m", "pip")


def run(folder: Path, *command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command outside the checkout, so that only installed packages are found."""
    environ = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environ["COLUMNS"] = "120"
    return subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )


def must(folder: Path, *command: str | Path) -> str:
    finished = run(folder, *command)
    assert finished.returncode == 0, f"{command}: {finished.stdout}\n{finished.stderr}"
    return finished.stdout


def installed_path(path: str) -> str:
    """Return the path of a checkout's file in the wheel."""
    if path.startswith(("compat/", "tilescope/")):
        return path.removeprefix("compat/")
    return f"tilescope/{path}"


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("packaging")


@pytest.fixture(scope="module")
def wheel(place: Path) -> Path:
    must(place, *PIP, "wheel", "-q", "--no-deps", "-w", place, ROOT)
    (built,) = place.glob("tilescope-*.whl")
    return built


@pytest.fixture(scope="module")
def base(place: Path, wheel: Path) -> Path:
    """Return an environment with the package installed without extras."""
    must(place, sys.executable, "-m", "venv", place / "base")
    pip = (place / "base/bin/python", "-m", "pip", "install", "-q")
    must(place, *pip, "-c", ROOT / "constraints.txt", wheel)
    return place / "base/bin"


@pytest.fixture(scope="module")
def image(place: Path) -> Path:
    """Return the environment that the image's script creates, with all extras."""
    must(place, ROOT / "docker/install.sh", place / "image", "all")
    return place / "image/bin"


def test_the_wheel_holds_every_file_of_the_packages_and_no_tests(wheel: Path) -> None:
    tracked = must(ROOT, "git", "ls-files", *PACKAGES).splitlines()
    links = {f"tilescope/{name}" for name in PACKAGES}
    expected = {installed_path(path) for path in tracked if path not in links}
    names = set(zipfile.ZipFile(wheel).namelist())
    assert expected - names == set()
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == TOP_LEVEL
    developers = ("describe.py", "generate", "targets.toml", "builders.py")
    assert [name for name in names if any(part in name for part in developers)] == []


def test_the_source_archive_builds_the_same_wheel(place: Path, wheel: Path) -> None:
    must(ROOT, sys.executable, "-m", "build", "--sdist", "--outdir", place, ROOT)
    (archive,) = place.glob("tilescope-*.tar.gz")
    must(place, *PIP, "wheel", "-q", "--no-deps", "-w", place / "again", archive)
    (built,) = (place / "again").glob("tilescope-*.whl")
    assert contents(built) == contents(wheel)


def test_an_editable_installation_has_the_same_names(place: Path) -> None:
    must(place, sys.executable, "-m", "venv", place / "editable")
    python = place / "editable/bin/python"
    must(place, python, "-m", "pip", "install", "-q", "--no-deps", "--editable", ROOT)
    script = "import sys, importlib.util as u; print(*filter(u.find_spec, sys.argv[1:]))"
    actual = must(place, python, "-c", script, *TOP_LEVEL, *FOLDERS)
    assert set(actual.split()) == TOP_LEVEL


@pytest.mark.parametrize("name", ["engine", "reports", "analyser", "webapp"])
def test_a_user_module_of_the_same_name_does_not_collide(
    image: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / f"{name}.py").write_text("raise RuntimeError('the module of a user')\n")
    (tmp_path / "main.py").write_text(
        "import pva\nfrom tilescope import analyser, engine, reports, webapp\n"
        "import tilescope.webapp.app\nengine.Graph(engine.load_machine('gc200'))\n"
    )
    must(tmp_path, image / "python", "main.py")


@pytest.mark.parametrize("command", QUERIES)
def test_the_base_answers_questions(base: Path, place: Path, command: str) -> None:
    assert command in must(place, base / "tilescope", "--help")
    assert "Usage" in must(place, base / "tilescope", command, "--help")


def test_the_base_has_pva_and_nothing_heavy(base: Path, place: Path) -> None:
    must(place, base / "python", "-c", "import pva; pva.openReport")
    listed = must(place, base / "python", "-m", "pip", "list", "--format", "freeze").lower()
    assert "sqlalchemy==" in listed
    for heavy in ("numba", "dash", "onnx", "scipy", "pytest"):
        assert f"\n{heavy}==" not in listed


@pytest.mark.parametrize(("command", "extra"), [("run", "engine"), ("serve", "web")])
def test_a_missing_extra_is_named(base: Path, place: Path, command: str, extra: str) -> None:
    finished = run(place, base / "tilescope", command, "nothing-there")
    assert finished.returncode == 2
    # The command that is printed names the wheel that was installed.
    assert re.search(rf"run: pip install '/\S+\.whl\[{extra}\]'$", finished.stderr.strip())
    assert "Traceback" not in finished.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_the_image_has_every_command(image: Path, place: Path, command: str) -> None:
    assert "Usage" in must(place, image / "tilescope", command, "--help")


def test_the_image_finds_its_data(image: Path, place: Path) -> None:
    assert '"mnist-8"' in must(place, image / "tilescope", "models", "list", "--json")


def test_the_install_script_rejects_an_existing_folder(image: Path, place: Path) -> None:
    finished = run(place, ROOT / "docker/install.sh", image.parent)
    assert finished.returncode == 2
    assert "already exists" in finished.stderr
