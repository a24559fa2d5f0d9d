"""The instructions of a Dockerfile, carried out as scripts in an empty root directory.

No engine for images is needed. It is not a build of the image: the system's directories and Python
are those of this computer, mounted.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from urllib.parse import unquote, urlsplit

__all__ = ["Stage", "build", "can_change_root"]

#: Directories of a base image; all others of the root directory are empty.
_SYSTEM = ("/bin", "/dev", "/lib", "/lib64", "/proc", "/sbin", "/sys", "/usr")
#: Instructions that describe the image and do nothing.
_DESCRIPTIONS = ("EXPOSE", "VOLUME")


def can_change_root() -> bool:
    """Return whether this process may mount directories and change its root."""
    if os.geteuid() or shutil.which("unshare") is None:
        return False
    command = ["unshare", "--mount", "chroot", "/", "true"]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def build(folder: Path, checkout: Path) -> Stage:
    """Carry out the Dockerfile of a checkout in an empty folder; return the last stage."""
    recipe = (checkout / "Dockerfile").read_text(encoding="utf-8")
    stages: dict[str, Stage] = {}
    stage: Stage | None = None
    for keyword, text in _instructions(recipe):
        if keyword == "FROM":
            name = text.partition(" AS ")[2] or "last"
            stage = stages[name] = _begin(folder / name)
            continue
        assert stage is not None, f"{keyword} before FROM"
        _carry_out(stage, keyword, text, checkout, stages)
    assert stage is not None
    return stage


@dataclass
class Stage:
    """A stage of an image: its root directory, and what its instructions have set so far."""

    root: Path
    mounts: tuple[str, ...]
    environ: dict[str, str]
    user: str = "root"
    folder: str = "/"
    command: tuple[str, ...] = ()
    arguments: dict[str, str] = field(default_factory=dict)

    def start(self, *command: str) -> subprocess.Popen[str]:
        """Start a command in the stage, as its user and in its working directory."""
        lines = ["set -e"]
        for path in self.mounts:
            target = shlex.quote(f"{self.root}{path}")
            lines.append(f"mkdir -p {target}; mount --rbind {shlex.quote(path)} {target}")
        owner = f"--userspec={self.user} " if self.user != "root" else ""
        inside = f"cd {shlex.quote(self.folder)} && exec {shlex.join(command)}"
        root = shlex.quote(str(self.root))
        lines.append(f"exec chroot {owner}{root} /bin/sh -c {shlex.quote(inside)}")
        return subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", "\n".join(lines)],
            env={**self.arguments, **self.environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, script: str) -> str:
        """Run a shell script in the stage; return what it prints."""
        process = self.start("/bin/sh", "-c", script)
        output, _ = process.communicate(timeout=900)
        assert process.returncode == 0, f"{script}: {output}"
        return output

    def inside(self, path: str) -> Path:
        """Return where a path of the stage is on this computer."""
        return self.root / path.lstrip("/")


def _instructions(recipe: str) -> Iterator[tuple[str, str]]:
    """Return the keywords of a Dockerfile with the rest of their lines, continued ones joined."""
    for line in re.sub(r"\\\n", " ", recipe).splitlines():
        keyword, _, text = line.strip().partition(" ")
        if keyword and not keyword.startswith("#"):
            yield keyword, text.strip()


def _begin(root: Path) -> Stage:
    """Return a stage that has only the system and Python."""
    for name in ("home", "opt", "root", "tmp", "var"):
        (root / name).mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    shutil.copytree("/etc", root / "etc", symlinks=True, ignore_dangling_symlinks=True)
    mounts = [path for path in (*_SYSTEM, sys.base_prefix, *_packages()) if Path(path).is_dir()]
    selected = {key: value for key, value in os.environ.items() if key.startswith("PIP_")}
    path = f"{sys.base_prefix}/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
    return Stage(
        root, tuple(mounts), {**selected, "PATH": path, "HOME": "/root", "LANG": "C.UTF-8"}
    )


def _packages() -> list[str]:
    """Return the directories from which this computer's pip installs, besides the network."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], check=True, capture_output=True, text=True
    ).stdout
    words = [word.strip("'\"") for word in listed.replace("=", " ").split()]
    paths = [unquote(urlsplit(word).path) for word in words if word.startswith(("/", "file:"))]
    return sorted({path for path in paths if not path.startswith("/etc/")})


def _carry_out(
    stage: Stage, keyword: str, text: str, checkout: Path, stages: dict[str, Stage]
) -> None:
    """Carry out one instruction."""
    known = {**stage.arguments, **stage.environ}
    if keyword == "RUN":
        stage.run(text)
    elif keyword == "COPY":
        _copy(stage, shlex.split(text), checkout, stages)
    elif keyword == "ARG":
        name, _, value = text.partition("=")
        stage.arguments[name] = value
    elif keyword == "ENV":
        for part in shlex.split(text):
            name, _, value = part.partition("=")
            stage.environ[name] = Template(value).substitute(known)
    elif keyword == "USER":
        stage.user = text
        stage.environ["HOME"] = _home(stage, text)
    elif keyword == "WORKDIR":
        stage.folder = text
    elif keyword == "CMD":
        stage.command = tuple(json.loads(text))
    else:
        assert keyword in _DESCRIPTIONS, f"an instruction without a script: {keyword}"


def _copy(stage: Stage, words: list[str], checkout: Path, stages: dict[str, Stage]) -> None:
    """Copy from the checkout, without what the image leaves out, or from another stage."""
    options = dict(word.lstrip("-").split("=") for word in words if word.startswith("--"))
    source, target = (word for word in words if not word.startswith("--"))
    assert set(options) <= {"from", "chown"}
    assert options.get("chown", "root:root") == "root:root"
    if "from" in options:
        origin, ignore = stages[options["from"]].inside(source), None
    else:
        origin, ignore = checkout / source, _ignored(checkout)
    shutil.copytree(origin, stage.inside(target), symlinks=True, ignore=ignore)


def _ignored(checkout: Path) -> Callable[[str, list[str]], set[str]]:
    """Return which names of a directory ``.dockerignore`` leaves out, as ``copytree`` asks."""
    lines = (checkout / ".dockerignore").read_text(encoding="utf-8").split()
    anywhere = [line.removeprefix("**/") for line in lines if line.startswith("**/")]
    at_top = [line for line in lines if not line.startswith("**/")]

    def ignore(folder: str, names: list[str]) -> set[str]:
        patterns = [*anywhere, *at_top] if Path(folder) == checkout else anywhere
        return {name for name in names for line in patterns if fnmatch.fnmatch(name, line)}

    return ignore


def _home(stage: Stage, user: str) -> str:
    """Return a user's home directory."""
    lines = stage.inside("etc/passwd").read_text(encoding="utf-8").splitlines()
    return next(line.split(":")[5] for line in lines if line.startswith(f"{user}:"))
