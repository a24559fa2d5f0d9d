"""Engines whose smallest launches are shared by several threads."""

from __future__ import annotations

import pytest

from tilescope.engine.execute import threads

__all__ = ["share_all"]


def share_all(monkeypatch: pytest.MonkeyPatch, n_threads: int) -> None:
    """Let new engines cut every launch into parts, and run them on some threads."""
    monkeypatch.setattr(threads, "_LEAST_PART", 1)
    monkeypatch.setattr(threads, "_WAKE_ABOVE", 0)
    monkeypatch.setattr(threads, "_LEAST_STAGE", 0)
    monkeypatch.setattr(
        "tilescope.engine.execute.device.thread_pool", lambda: threads.Threads(n_threads)
    )
