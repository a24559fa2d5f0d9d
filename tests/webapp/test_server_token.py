"""The token of a server: the user's own, kept from one start to the next."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tilescope.webapp.server_token import server_token


def test_it_outlives_a_restart_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    position = tmp_path / "state" / "serve-token"
    token = server_token(position)
    assert len(token) == 32
    assert server_token(position) == token
    assert position.stat().st_mode & 0o777 == 0o600


def test_a_new_one_replaces_it(tmp_path: Path) -> None:
    position = tmp_path / "serve-token"
    token = server_token(position)
    peer = server_token(position, is_new=True)
    assert peer != token
    assert server_token(position) == peer
    assert [path.name for path in tmp_path.iterdir()] == ["serve-token"]


@pytest.mark.parametrize("content", ["", "short", "x" * 33, "x" * 10_000, "é" * 32, "a b" * 11])
def test_what_is_no_token_is_replaced(tmp_path: Path, content: str) -> None:
    position = tmp_path / "serve-token"
    position.write_text(content, "utf-8")
    position.chmod(0o600)
    token = server_token(position)
    assert token != content
    assert server_token(position) == token


def test_a_file_that_others_can_read_is_not_trusted(tmp_path: Path) -> None:
    position = tmp_path / "serve-token"
    token = server_token(position)
    position.chmod(0o644)
    assert server_token(position) != token
    assert position.stat().st_mode & 0o777 == 0o600


def test_a_link_to_another_file_is_not_followed(tmp_path: Path) -> None:
    peer = tmp_path / "other"
    token = server_token(peer)
    (tmp_path / "serve-token").symlink_to(peer)
    assert server_token(tmp_path / "serve-token") != token
    assert server_token(peer) == token


def test_where_it_cannot_be_kept_every_server_has_its_own(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    position = tmp_path / "file" / "serve-token"
    assert server_token(position) != server_token(position)
    assert os.listdir(tmp_path) == ["file"]
