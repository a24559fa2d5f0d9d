"""Baselines on a git branch of their own, written without a work tree.

A save makes a blob, a tree in an index of its own, and a commit; it then moves the branch only if
nobody moved it meanwhile, and otherwise begins again on the new tip. A remote branch is moved by a
push that must be a fast-forward, so that several CI jobs may save at once.
"""

from __future__ import annotations

import random
import re
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from tilescope.baselines.directory import replaced_by_copy
from tilescope.baselines.errors import BaselineMissing, PushRefused, StoreNotUsable
from tilescope.baselines.git import Git, GitFailed, check_branch, check_remote
from tilescope.baselines.key import BaselineKey, is_of_old_layout, parse_path

__all__ = ["GitBranchStore", "is_race"]

#: File at the top of the branch by which it is known to hold baselines and nothing else.
MARKER = "tilescope-baselines.txt"
_MARKER_TEXT = b"Reports stored by `tilescope baseline`, by model.\n"
_ATTEMPTS = 40
_LONGEST_REMARK = 300
_FILE_MODES = ("100644", "100755")
_IDENTITY = {
    f"GIT_{role}_{key}": value
    for role in ("AUTHOR", "COMMITTER")
    for key, value in (("NAME", "tilescope"), ("EMAIL", "tilescope@localhost"))
}


class GitBranchStore:
    """Reports on a branch of a repository.

    Parameters
    ----------
    directory
        A directory of the repository.
    branch
        The branch; it begins without history with the first report.
    remote
        Remote that holds the branch; the branch is local if None.
    is_from_file
        Whether a file names the remote: see `check_remote`.

    Raises
    ------
    StoreNotUsable
        When there is no repository, the branch is checked out, or a name is not one of a branch or
        of a remote.
    """

    def __init__(
        self, directory: Path, branch: str, remote: str | None = None, *, is_from_file: bool = False
    ) -> None:
        self._git, self._branch, self.remote = Git(directory), branch, remote
        self._ref = f"refs/heads/{branch}"
        problem = self._git.problem("rev-parse", "--git-dir")
        if "dubious ownership" in problem:
            raise StoreNotUsable(
                f"the repository of {directory} belongs to another user; git uses it after:"
                " git config --global --add safe.directory DIRECTORY"
            )
        if problem:
            raise StoreNotUsable(
                f"{directory} is not in a git repository; a store git:BRANCH needs one"
            )
        check_branch(self._git, branch)
        try:
            if remote is not None:
                self.remote = check_remote(self._git, remote, is_from_file=is_from_file)
            trees = self._git.run("worktree", "list", "--porcelain").decode("utf-8", "replace")
        except GitFailed as error:
            raise self._not_usable(error) from None
        if f"branch {self._ref}" in trees.splitlines():
            raise StoreNotUsable(
                f"branch {branch} is checked out; choose one for baselines only,"
                " such as git:tilescope-baselines"
            )

    def save(self, key: BaselineKey, report: Path) -> None:
        """Store a report under a key.

        Raises
        ------
        StoreNotUsable
            When the branch holds other files, or cannot be moved.
        """
        try:
            blob = self._git.word("hash-object", "-w", "--no-filters", "--", str(report.resolve()))
            marker = self._git.word("hash-object", "-w", "--stdin", stdin=_MARKER_TEXT)
            problem = ""
            for attempt in range(_ATTEMPTS):
                tip = self._tip()
                entries = {key.path: blob, MARKER: marker}
                commit = self._commit(tip, entries, f"baseline: save {key}")
                problem = "" if commit is None else self._move(tip, commit)
                if not problem:
                    return
                time.sleep(random.uniform(0, 0.05 * (attempt + 1)))
        except GitFailed as error:
            raise self._not_usable(error) from None
        raise StoreNotUsable(f"branch {self._branch} keeps moving, save again later: {problem}")

    def get(self, key: BaselineKey, target: Path) -> None:
        """Write the report of a key to a file.

        Raises
        ------
        BaselineMissing
            When nothing is stored under the key.
        StoreNotUsable
            When the branch holds other files, or a file cannot be written.
        """
        try:
            tip = self._tip()
            blob = f"{tip}:{key.path}"
            if not tip or self._git.problem("cat-file", "-e", blob):
                where = f"{self.remote}/{self._branch}" if self.remote else self._branch
                paths = [path for path, _ in self._files(tip)]
                stored = [str(found) for found in map(parse_path, paths) if found is not None]
                n_old = sum(map(is_of_old_layout, paths))
                raise BaselineMissing(str(key), f"branch {where}", stored, n_old)
            content = self._git.run("cat-file", "blob", blob)
        except GitFailed as error:
            raise self._not_usable(error) from None
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile() as file:
                file.write(content)
                file.flush()
                replaced_by_copy(Path(file.name), target)
        except OSError as error:
            raise StoreNotUsable(f"cannot write {target}: {error.strerror}") from None

    def sizes(self) -> dict[BaselineKey, int]:
        """Return the size of every report, bytes.

        Raises
        ------
        StoreNotUsable
            When the branch holds other files, or cannot be read.
        """
        try:
            files = self._files(self._tip())
        except GitFailed as error:
            raise self._not_usable(error) from None
        keys = ((parse_path(path), size) for path, size in files)
        return {key: size for key, size in keys if key is not None}

    def _files(self, tip: str) -> list[tuple[str, int]]:
        """Return path and size of every file of a commit, bytes; none without a commit."""
        listed = self._git.run("ls-tree", "-r", "-l", "-z", tip) if tip else b""
        files = []
        for entry in listed.decode("utf-8", "replace").split("\0"):
            facts, _, path = entry.partition("\t")
            if facts.startswith(_FILE_MODES):
                files.append((path, int(facts.split()[3])))
        return files

    def _tip(self) -> str:
        """Return the last commit of the branch; empty if it does not exist yet."""
        ref = self._ref
        if self.remote is not None:
            ref = f"refs/tilescope/{self._branch}"
            listed = self._git.run("ls-remote", "--", self.remote, self._ref)
            if not listed.strip():
                return ""
            options = ("--quiet", "--no-tags", "--no-recurse-submodules")
            self._git.run("fetch", *options, "--", self.remote, f"+{self._ref}:{ref}")
        if self._git.problem("rev-parse", "--verify", "--quiet", ref):
            return ""
        tip = self._git.word("rev-parse", "--verify", ref)
        if self._git.problem("cat-file", "-e", f"{tip}:{MARKER}"):
            raise StoreNotUsable(
                f"branch {self._branch} holds other files; choose one for baselines only,"
                " such as git:tilescope-baselines"
            )
        return tip

    def _commit(self, tip: str, entries: Mapping[str, str], message: str) -> str | None:
        """Return a new commit with these blobs by path; None if the tip holds them already."""
        with tempfile.TemporaryDirectory() as folder:
            index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
            if tip:
                self._git.run("read-tree", tip, environ=index)
            lines = "".join(f"100644 {blob}\t{path}\0" for path, blob in entries.items())
            options = ("--add", "-z", "--index-info")
            self._git.run("update-index", *options, stdin=lines.encode(), environ=index)
            tree = self._git.word("write-tree", environ=index)
        if tip and tree == self._git.word("rev-parse", f"{tip}^{{tree}}"):
            return None
        parents = ("-p", tip) if tip else ()
        return self._git.word("commit-tree", tree, *parents, "-m", message, environ=_IDENTITY)

    def _move(self, tip: str, commit: str) -> str:
        """Move the branch from a tip to a commit; return the reason if it was moved meanwhile.

        Raises
        ------
        PushRefused
            When the remote does not take the branch, whoever moves it.
        StoreNotUsable
            When the branch cannot be moved for another reason that does not pass.
        """
        if self.remote is not None:
            options = ("--quiet", "--no-verify", "--no-follow-tags", "--recurse-submodules=no")
            target = f"{commit}:{self._ref}"
            problem = self._git.problem("push", *options, "--", self.remote, target)
            reason = _rejection(problem)
            if problem and (not is_race(reason) or _LASTING.search(problem)):
                remarks = _remarks(problem)
                raise PushRefused(
                    f"{self.remote} does not take branch {self._branch}:"
                    f" {reason or problem.splitlines()[-1]}{f' ({remarks})' if remarks else ''};"
                    " the job needs permission to push it"
                )
            return reason
        old = tip or "0" * len(commit)
        problem = self._git.problem("update-ref", self._ref, commit, old)
        reason = problem.splitlines()[-1] if problem else ""
        if problem and not is_race(reason):
            raise StoreNotUsable(f"cannot move {self._branch}: {reason}")
        return reason

    def _not_usable(self, error: GitFailed) -> StoreNotUsable:
        """Return git's failure as one sentence."""
        line = error.message.splitlines()[-1]
        return StoreNotUsable(f"git {error.command} for branch {self._branch}: {line}")


#: Reasons of git for not moving a branch that another process has moved, or is moving.
_RACES = re.compile(
    r"fetch first|non-fast-forward|stale info|incorrect old value|reference already exists"
    r"|failed to update ref|is at [0-9a-f]+ but expected|\.lock': File exists"
    r"|cannot lock ref"
)
#: Reasons that do not pass, whatever else git says.
_LASTING = re.compile(
    r"exists; cannot create|Permission denied|Read-only file system|No space left"
)


def is_race(reason: str) -> bool:
    """Return whether git's reason for not moving a branch passes if it is moved again."""
    return _RACES.search(reason) is not None and _LASTING.search(reason) is None


def _rejection(problem: str) -> str:
    """Return git's own reason for a rejected push, without what a hook of the server prints."""
    lines = re.findall(r"^ ! \[([a-z ]+)\] .*?\((.*)\)$", problem, re.MULTILINE)
    return lines[-1][1] if lines else ""


def _remarks(problem: str) -> str:
    """Return what the server says about a push, in one line."""
    lines = re.findall(r"^remote: +(\S.*?) *$", problem, re.MULTILINE)
    return "; ".join(line for line in lines if line.strip("-=*# "))[:_LONGEST_REMARK]
