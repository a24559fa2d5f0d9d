"""A report as far as it is the same for every run of a program: a file that later ones begin as."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["ArrayState", "ReportTemplate", "StoreState", "TableState"]


@dataclass(frozen=True)
class TableState:
    """Where the numbers of a table's rows go on: the next one, and the last."""

    next_id: int
    last_id: int | None


@dataclass(frozen=True)
class ArrayState:
    """How a packed array goes on.

    Parameters
    ----------
    array_id, n_columns, n_rows
        Its number, width and length.
    pattern_digests : ndarray of uint8, shape (n_patterns, 16)
        Digests of the rows that were added as patterns, in the order of `pattern_rows`.
    pattern_rows : ndarray of int64, shape (n_patterns,)
        Their rows.
    """

    array_id: int
    n_columns: int
    n_rows: int
    pattern_digests: np.ndarray
    pattern_rows: np.ndarray


@dataclass(frozen=True)
class StoreState:
    """What a writer knows of its file after a commit that does not grow.

    Parameters
    ----------
    tables, arrays
        By name.
    chunk_digests : ndarray of uint8, shape (n_chunks, 32)
        Of the values of the chunks in the file, in ascending order, and of their packed bytes.
    milestone
        The row of the last milestone.
    n_row_blocks
        Blocks of rows.
    machine
        IPUs, and tiles of one; None before they are known.
    """

    tables: Mapping[str, TableState]
    arrays: Mapping[str, ArrayState]
    chunk_digests: np.ndarray
    milestone: tuple[Any, ...]
    n_row_blocks: int
    machine: tuple[int, int] | None


@dataclass(frozen=True)
class ReportTemplate:
    """The beginning of a report.

    Parameters
    ----------
    content
        The file after the commit.
    state
        What its writer knows.
    beside
        Content of the files that are written beside the finished report, by name.
    """

    content: bytes
    state: StoreState
    beside: Mapping[str, bytes] = field(default_factory=dict)
