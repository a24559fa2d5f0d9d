"""One library of generated reports and one app, shared by all HTTP tests."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient
from tests.generated_report import generate_report
from tests.training_report import training_report

from tilescope.corpus_trust import packaged_trust
from tilescope.reports import ReportWriter
from tilescope.webapp.app import create_app
from tilescope.webapp.library import Library

TOKEN = "token-of-these-tests-0123456789abcdef"


@pytest.fixture(scope="session")
def reports_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with small complete reports, one of a training, one of a killed run."""
    root = tmp_path_factory.mktemp("reports")
    generate_report(root / "baseline", n_tiles=64, n_steps=120, n_variables=60, seed=1)
    generate_report(root / "candidate", n_tiles=64, n_steps=140, n_variables=60, seed=2)
    generate_report(root / "pair", n_tiles=16, n_ipus=2, n_steps=60, n_variables=30, seed=3)
    shutil.copytree(training_report(), root / "training")
    (root / "killed").mkdir()
    writer = ReportWriter.create(root / "killed")
    writer.commit("created")
    writer.abandon()
    return root


@pytest.fixture(scope="session")
def library(reports_dir: Path) -> Iterator[Library]:
    """Return the library of these reports."""
    library = Library([reports_dir], trust=packaged_trust())
    yield library
    library.close()


@pytest.fixture(scope="session")
def app(library: Library) -> FastAPI:
    """Return the app, the only one of the process."""
    return create_app(library, token=TOKEN, allowed_hosts=["testserver", "localhost", "::1"])


@pytest.fixture(scope="session")
def client(app: FastAPI) -> Iterator[TestClient]:
    """Return a client that has the cookie; Dash needs the app's lifespan."""
    with TestClient(app, follow_redirects=False) as client:
        client.get("/", params={"token": TOKEN})
        yield client


@pytest.fixture
def stranger(app: FastAPI, client: TestClient) -> TestClient:
    """Return a client without the cookie; the app's lifespan is that of ``client``."""
    assert client.cookies
    return TestClient(app, follow_redirects=False)


@pytest.fixture(scope="session")
def ids(library: Library) -> dict[str, str]:
    """Return the ids of the reports by directory name."""
    return {entry.path.parent.name: entry.report_id for entry in library.found()}
