"""The Dockerfile, checked as text since a Docker engine may be unavailable."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
RECIPE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_the_image_has_two_stages_and_is_not_root() -> None:
    assert len(re.findall(r"^FROM ", RECIPE, re.MULTILINE)) == 2
    last_stage = RECIPE.rsplit("\nFROM ", 1)[1]
    assert re.findall(r"^USER (\S+)$", last_stage, re.MULTILINE) == ["tilescope"]
    assert last_stage.index("USER tilescope") < last_stage.index("CMD [")


def test_the_image_installs_by_the_tested_script_and_serves_the_reports() -> None:
    assert "docker/install.sh /opt/tilescope" in RECIPE
    assert '"serve", "/reports", "--host", "0.0.0.0"' in RECIPE


def test_kernels_are_compiled_for_the_processor_that_runs_name() -> None:
    build, last_stage = RECIPE.rsplit("\nFROM ", 1)
    assert 'docker/warmup.sh /opt/tilescope /opt/kernels "$PROCESSOR"' in build
    assert "COPY --from=build --chown=root:root /opt/kernels /opt/kernels" in last_stage
    assert "NUMBA_CACHE_DIR=/opt/kernels NUMBA_CPU_NAME=$PROCESSOR" in last_stage
    # The argument has no value in a stage that does not repeat it.
    assert re.findall(r"^ARG PROCESSOR=(\S+)$", RECIPE, re.MULTILINE) == ["haswell", "haswell"]


def environment_with(folder: Path, *, has_engine: bool) -> Path:
    """Return an environment whose commands print what they are given."""
    (folder / "bin").mkdir(parents=True)
    commands = {
        "python": f"exit {int(not has_engine)}",
        "tilescope": 'echo "$@ for $NUMBA_CPU_NAME in $NUMBA_CACHE_DIR"',
    }
    for name, text in commands.items():
        (folder / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / "bin" / name).chmod(0o755)
    return folder


def warmed(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [str(ROOT / "docker" / "warmup.sh"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_warm_up_of_an_image_names_folder_and_processor(tmp_path: Path) -> None:
    target = environment_with(tmp_path / "target", has_engine=True)
    finished = warmed(target, tmp_path / "kernels", "haswell")
    assert (finished.returncode, finished.stderr) == (0, "")
    assert finished.stdout == f"warmup for haswell in {tmp_path / 'kernels'}\n"


def test_an_image_without_the_engine_compiles_nothing(tmp_path: Path) -> None:
    target = environment_with(tmp_path / "target", has_engine=False)
    finished = warmed(target, tmp_path / "kernels", "haswell")
    assert (finished.returncode, finished.stderr) == (0, "")
    assert finished.stdout == f"no engine in {target}: no kernels to compile\n"
    assert (tmp_path / "kernels").is_dir()
    assert warmed(target).returncode == 2


def test_kernels_of_an_image_are_readable_by_all_and_writable_by_their_owner(
    tmp_path: Path,
) -> None:
    target = environment_with(tmp_path / "target", has_engine=True)
    script = 'umask 077; mkdir -p "$NUMBA_CACHE_DIR/a/b"; touch "$NUMBA_CACHE_DIR/a/b/kernel"'
    (target / "bin" / "tilescope").write_text(f"#!/bin/sh\n{script}\n")
    folder = tmp_path / "kernels"
    assert warmed(target, folder, "haswell").returncode == 0
    modes = {path.name: path.stat().st_mode & 0o777 for path in (folder, *folder.rglob("*"))}
    assert modes == {"kernels": 0o755, "a": 0o755, "b": 0o755, "kernel": 0o644}


def test_versions_are_plain_and_name_no_host() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.]*", pin) for pin in pins), pins
    names = [pin.split("==")[0].lower().replace("_", "-") for pin in pins]
    assert len(set(names)) == len(names)
    assert {"apsw", "dash", "numba", "numpy", "onnx", "pip", "pytest"} <= set(names)
