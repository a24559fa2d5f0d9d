"""Test files in processes of their own, forked from one that has imported the module."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest
from tests.popart_suite import outcomes

import popart  # noqa: F401 # what every forked process begins with

__all__ = ["run_files"]


def run_files(
    targets: Mapping[Path, str], folder: Path, scratch: Path, jobs: int, words: str
) -> None:
    """Run every file in a process of its own, as PopART's own build does.

    Files change what a process shares: seeds, levels of loggers, the environment.

    Parameters
    ----------
    targets
        What the files of tests run on, by their paths.
    folder
        PopART's tests/integration, whose modules the tests import.
    scratch
        Directory for what tests write.
    jobs
        Processes at a time.
    words
        Names of tests to select; all if empty.
    """
    context = multiprocessing.get_context("fork")
    run = partial(_run, folder=folder, scratch=scratch, words=words)
    with context.Pool(jobs, maxtasksperchild=1) as pool:
        for _ in pool.imap_unordered(run, targets.items(), chunksize=1):
            pass


def _run(entry: tuple[Path, str], folder: Path, scratch: Path, words: str) -> int:
    file, target = entry
    # Of this process, not of Python alone: programs that a test starts read and write them, too.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    os.chdir(scratch)
    sys.path[:0] = [str(file.parent), str(folder)]
    arguments = ["-q", "--no-header", "--no-summary", "-p", "no:cacheprovider", "-p", "no:dash"]
    # A plugin that refuses what PopART's own files put on Python's path.
    arguments += ["-p", "no:hypothesispytest"]
    arguments += ["--rootdir", str(folder), "-c", os.devnull, "--import-mode", "importlib"]
    arguments += ["-o", "addopts=", "--tb", "no", *(["-k", words] if words else []), str(file)]
    if (folder.parent / "conftest.py").exists():
        arguments += ["--device-type", target]
    else:
        os.environ["TEST_TARGET"] = target
    return int(pytest.main(arguments, plugins=[outcomes]))
