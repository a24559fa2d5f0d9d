"""Compressed responses: what is compressed, how, and what is kept."""

from __future__ import annotations

import gzip
import json

import pytest
import zstandard
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from tilescope.webapp.compress import Compression

TEXT = " ".join(f"tile {i * i % 997} step {i}" for i in range(4_000))


@pytest.fixture
def calls() -> list[str]:
    return []


@pytest.fixture
def client(calls: list[str]) -> TestClient:
    def fixed(_request: Request) -> Response:
        calls.append("fixed")
        return PlainTextResponse(TEXT, headers={"Cache-Control": "private, max-age=31536000"})

    def small(_request: Request) -> Response:
        return PlainTextResponse("tile")

    def data(_request: Request) -> Response:
        return JSONResponse({"text": TEXT}, headers={"ETag": '"one"'})

    def picture(_request: Request) -> Response:
        return Response(TEXT.encode(), media_type="application/octet-stream")

    def missing(_request: Request) -> Response:
        return PlainTextResponse(TEXT, status_code=404)

    routes = [
        Route(f"/{handler.__name__}", handler) for handler in (fixed, small, data, picture, missing)
    ]
    return TestClient(Compression(Starlette(routes=routes)))


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [
        ("gzip, deflate, br, zstd", "zstd"),
        ("gzip;q=0.5", "gzip"),
        ("zstd;q=0, gzip", "gzip"),
        ("zstd;q=0.0", None),
        ("identity", None),
        ("", None),
    ],
)
def test_the_best_coding_that_is_accepted_is_used(
    client: TestClient, accepted: str, coding: str | None
) -> None:
    with client.stream("GET", "/data", headers={"Accept-Encoding": accepted}) as answer:
        assert answer.headers.get("content-encoding") == coding
        raw = b"".join(answer.iter_raw())
    if coding:
        assert answer.headers["vary"] == "Accept-Encoding"
        assert int(answer.headers["content-length"]) == len(raw) < len(TEXT) / 2
        assert answer.headers["etag"] == 'W/"one"'
    if coding == "zstd":
        raw = zstandard.ZstdDecompressor().decompress(raw, max_output_size=1 << 20)
    elif coding == "gzip":
        raw = gzip.decompress(raw)
    assert json.loads(raw) == {"text": TEXT}


@pytest.mark.parametrize("path", ["/small", "/picture", "/missing"])
def test_what_would_not_gain_is_left_alone(client: TestClient, path: str) -> None:
    answer = client.get(path, headers={"Accept-Encoding": "zstd"})
    assert "content-encoding" not in answer.headers


def test_files_with_fixed_addresses_are_compressed_once(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def take() -> bytes:
        with client.stream("GET", "/fixed?m=1", headers={"Accept-Encoding": "zstd"}) as answer:
            return b"".join(answer.iter_raw())

    first = take()
    plain = zstandard.ZstdDecompressor().decompress(first, max_output_size=1 << 20)
    assert plain == TEXT.encode()
    monkeypatch.setattr(zstandard, "ZstdCompressor", None)
    assert take() == first
