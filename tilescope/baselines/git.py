"""Git, run so that no value becomes an option, a program or a transport that runs one.

Branches and remotes come from files and command lines that others may have written. They are
checked here, stand behind ``--`` where git takes options, and never pass through a shell.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tilescope.baselines.errors import StoreNotUsable

__all__ = ["Git", "GitFailed", "check_branch", "check_remote"]

_TIMEOUT_S = 300
_LONGEST_BRANCH = 200
_LONGEST_REMOTE = 1_000

#: Transports that run no program that the address names.
_TRANSPORTS = ("file", "git", "http", "https", "ssh")
#: Addresses on other computers; no user, host or path begins with a dash.
_URL = re.compile(r"(?:git|https?|ssh)://(?:[\w.+~%][^\s@/]*@)?[\w\[][^\s@/]*(?:/\S*)?", re.ASCII)
_SSH_ADDRESS = re.compile(r"(?:[\w.+~][\w.+~-]*@)?[\w.][\w.-]*:(?![:-]|//)\S+", re.ASCII)
_PSEUDO_REF = re.compile(r"@|[A-Z_]*HEAD|[0-9a-f]{40}|[0-9a-f]{64}")

#: Variables that name another repository, or a part of one, as git sets them for its hooks.
_OF_A_REPOSITORY = {
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_NAMESPACE",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_QUARANTINE_PATH",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
}
_SETTINGS = {
    # Hooks, the monitor of the work tree and upkeep are programs that a save has no need of. A
    # bare repository among the files of a checkout brings a configuration that others wrote.
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "safe.bareRepository": "explicit",
}


class GitFailed(Exception):
    """A git command failed.

    Parameters
    ----------
    command
        Its name, such as ``fetch``.
    message
        Its message; ``failed`` if there was none.
    """

    def __init__(self, command: str, message: str) -> None:
        super().__init__(f"git {command}: {message.splitlines()[-1]}")
        self.command, self.message = command, message


class Git:
    """Runs git in a repository.

    Parameters
    ----------
    directory
        A directory of the repository.

    Raises
    ------
    StoreNotUsable
        When git is not installed.
    """

    def __init__(self, directory: Path) -> None:
        # A relative entry of PATH would be looked up in the repository.
        folders = [folder for folder in os.get_exec_path() if os.path.isabs(folder)]
        program = shutil.which("git", path=os.pathsep.join(folders))
        if program is None:
            raise StoreNotUsable("git is not installed; a store git:BRANCH needs it")
        options = [text for item in _SETTINGS.items() for text in ("-c", "=".join(item))]
        self._command = [program, "--no-pager", *options]
        self._directory = directory

    def run(
        self, *arguments: str, stdin: bytes = b"", environ: Mapping[str, str] | None = None
    ) -> bytes:
        """Run a git command and return what it prints.

        Parameters
        ----------
        *arguments
            Name of the command, options, ``--``, and what others may have written.
        stdin
            Its standard input.
        environ
            Further variables of its environment.

        Raises
        ------
        GitFailed
            When the command fails.
        StoreNotUsable
            When it takes too long, or cannot be run.
        """
        try:
            completed = subprocess.run(
                [*self._command, *arguments],
                cwd=self._directory,
                input=stdin,
                env={**_environ(), **(environ or {})},
                capture_output=True,
                check=False,
                timeout=_TIMEOUT_S,
            )
        except subprocess.TimeoutExpired:
            raise StoreNotUsable(f"git {arguments[0]} took more than {_TIMEOUT_S} s") from None
        except OSError as error:
            raise StoreNotUsable(f"cannot run git {arguments[0]}: {error.strerror}") from None
        if completed.returncode:
            message = completed.stderr.decode("utf-8", "replace").strip()
            raise GitFailed(arguments[0], message or "failed")
        return completed.stdout

    def word(
        self, *arguments: str, stdin: bytes = b"", environ: Mapping[str, str] | None = None
    ) -> str:
        """Run a git command and return the one word that it prints.

        Parameters
        ----------
        *arguments
            Those of `run`.
        stdin
            Its standard input.
        environ
            Further variables of its environment.

        Raises
        ------
        GitFailed
            When the command fails.
        StoreNotUsable
            When it takes too long, or cannot be run.
        """
        return self.run(*arguments, stdin=stdin, environ=environ).decode().strip()

    def problem(self, *arguments: str) -> str:
        """Run a git command and return its message if it fails; empty if it succeeds.

        Parameters
        ----------
        *arguments
            Those of `run`.

        Raises
        ------
        StoreNotUsable
            When it takes too long, or cannot be run.
        """
        try:
            self.run(*arguments)
        except GitFailed as error:
            return error.message
        return ""


def check_branch(git: Git, branch: str) -> None:
    """Check the name of a branch.

    Parameters
    ----------
    git
        The repository.
    branch
        The name, without ``refs/heads/``.

    Raises
    ------
    StoreNotUsable
        When it is not the name of a branch, or stands for something else, such as HEAD.
    """
    is_plain = branch.isprintable() and len(branch) <= _LONGEST_BRANCH
    if (
        not is_plain
        or branch.startswith(("-", "refs/"))
        or _PSEUDO_REF.fullmatch(branch)
        or git.problem("check-ref-format", f"refs/heads/{branch}")
    ):
        raise StoreNotUsable(
            f"{branch[:_LONGEST_BRANCH]!r} is not a valid name of a branch;"
            " name one such as git:tilescope-baselines"
        )


def check_remote(git: Git, remote: str, *, is_from_file: bool) -> str:
    """Return a remote as git takes it.

    Parameters
    ----------
    git
        The repository.
    remote
        Name of a remote of the repository, an address, or a directory.
    is_from_file
        Whether a file names it, such as ``tilescope.toml``: it must not be a directory, whose hooks
        would run as it receives a branch.

    Raises
    ------
    StoreNotUsable
        When it is something else, such as an address ``ext::``.
    """
    if remote.isprintable() and len(remote) <= _LONGEST_REMOTE and not remote.startswith("-"):
        if remote in git.run("remote").decode("utf-8", "replace").splitlines():
            return remote
        if _URL.fullmatch(remote) or _SSH_ADDRESS.fullmatch(remote):
            return remote
        if not is_from_file:
            if remote.startswith("file:///"):
                return remote
            if remote and Path(remote).is_dir():
                return str(Path(remote).absolute())  # begins with a slash: it is nothing else
    expected = "the name of a remote of this repository, or an address ssh://, https:// or git://"
    raise StoreNotUsable(
        f"{remote[:_LONGEST_REMOTE]!r} is not a valid remote; expected {expected}"
        f"{'' if is_from_file else ', or a directory such as /srv/baselines.git'};"
        " list those of the repository with: git remote"
    )


def _environ() -> dict[str, str]:
    """Return the environment of git: that of this process, for its own repository."""
    environ = {name: text for name, text in os.environ.items() if name not in _OF_A_REPOSITORY}
    allowed = environ.get("GIT_ALLOW_PROTOCOL")
    transports = [name for name in _TRANSPORTS if allowed is None or name in allowed.split(":")]
    return {
        **environ,
        "GIT_ALLOW_PROTOCOL": ":".join(transports),
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
    }
