"""The recorder rejects codes missing from the vocabulary; it drops nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tilescope.engine import (
    Engine,
    Executable,
    Graph,
    compile_programs,
    load_machine,
    resolve_options,
)
from tilescope.engine.program import Sequence


def _record(executable: Executable, directory: Path) -> None:
    options = {"autoReport.all": True, "autoReport.directory": str(directory)}
    Engine(executable, resolve_options(code=options)).close()


def test_a_category_of_memory_that_is_not_in_the_vocabulary(tmp_path: Path) -> None:
    executable = compile_programs(Graph(load_machine("gc200", tiles_per_ipu=2)), [])
    memory = executable.memory
    categories = {**memory.categories, "scratch": np.zeros((3, 2), np.int64)}
    executable = replace(executable, memory=replace(memory, categories=categories))
    with pytest.raises(KeyError, match="unknown memory categories: scratch"):
        _record(executable, tmp_path)


def test_a_kind_of_program_that_is_not_in_the_vocabulary(tmp_path: Path) -> None:
    graph = Graph(load_machine("gc200", tiles_per_ipu=2))
    executable = compile_programs(graph, [Sequence("main")])
    node = replace(executable.roots[0], kind="Dance")
    with pytest.raises(KeyError, match="Dance"):
        _record(replace(executable, nodes=(node,)), tmp_path)
