from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tilescope.engine.errors import ModelNotAvailable
from tilescope.engine.models import Companion, Model, ModelInput, cached, companion_paths, fetch

CONTENT = b"the bytes of a model"
STORED = b"an input"
ROOT = Path(__file__).parents[3]


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def build_wheel(folder: Path, files: dict[str, bytes]) -> Path:
    """Write a valid wheel: the files, metadata and a record of their hashes."""
    info = "tiny_model-1.0.dist-info"
    parts = {
        **files,
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = [
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(c).digest()).decode()},{len(c)}"
        for name, c in parts.items()
    ]
    wheel = folder / "tiny_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
        archive.writestr(f"{info}/RECORD", "\n".join([*rows, f"{info}/RECORD,,"]))
    return wheel


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that serves as pip's only package index."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", folder.as_uri())
    return folder


@pytest.fixture
def offer(index: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Model]:
    """Publish a package with a model on the index and in the catalogue, with overrides."""

    def make(**changes: object) -> Model:
        wheel = build_wheel(index, {"tiny/model.onnx": CONTENT, "tiny/data/in.pb": STORED})
        stored = Companion("tiny/data/in.pb", "data/in.pb", len(STORED), sha256(STORED))
        model = Model(
            name="tiny",
            description="A few bytes",
            package="tiny-model",
            version="1.0",
            package_sha256=sha256(wheel.read_bytes()),
            licence=None,
            opset=13,
            path="tiny/model.onnx",
            size_bytes=len(CONTENT),
            sha256=sha256(CONTENT),
            inputs=(ModelInput("x", "float32", (1,)),),
            companions=(stored,),
        )
        model = replace(model, **changes)  # type: ignore[arg-type]
        monkeypatch.setattr("tilescope.engine.models.catalogue.all_models", lambda: {"tiny": model})
        return model

    return make


def refusal(name: str = "tiny") -> str:
    with pytest.raises(ModelNotAvailable) as caught:
        fetch(name)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def files_below(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def test_a_model_arrives_whole_with_its_companions(
    cache: Path, offer: Callable[..., Model]
) -> None:
    offer()
    text: list[str] = []
    path = fetch("tiny", tell=text.append)
    assert path.read_bytes() == CONTENT
    assert companion_paths("tiny")["data/in.pb"].read_bytes() == STORED
    assert path.is_relative_to(cache)
    assert len(files_below(cache)) == 2
    assert text == ["fetching tiny from tiny-model==1.0"]


def test_a_second_fetch_needs_no_pip(
    cache: Path,
    offer: Callable[..., Model],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    offer()
    path = fetch("tiny")
    monkeypatch.setattr(sys, "executable", str(cache / "no-python-here"))
    assert fetch("tiny") == path


def test_a_damaged_file_in_the_cache_is_replaced(cache: Path, offer: Callable[..., Model]) -> None:
    offer()
    path = fetch("tiny")
    path.write_bytes(CONTENT[:-1] + b"?")
    assert cached("tiny") is None
    assert fetch("tiny").read_bytes() == CONTENT
    assert len(files_below(cache)) == 2


def test_a_lost_companion_is_brought_back(cache: Path, offer: Callable[..., Model]) -> None:
    offer()
    fetch("tiny")
    companion_paths("tiny")["data/in.pb"].unlink()
    fetch("tiny")
    assert companion_paths("tiny")["data/in.pb"].read_bytes() == STORED
    assert len(files_below(cache)) == 2


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"package_sha256": "0" * 64}, "sha256 differs"),
        ({"sha256": "0" * 64}, "sha256 differs"),
        ({"size_bytes": 3}, "sha256 differs"),
        ({"path": "tiny/other.onnx"}, "does not contain tiny/other.onnx"),
        ({"version": "2.0"}, "has no wheel of tiny-model==2.0"),
    ],
)
def test_what_is_not_the_pinned_file_leaves_nothing_behind(
    cache: Path, offer: Callable[..., Model], changes: dict[str, object], said: str
) -> None:
    offer(**changes)
    assert said in refusal()
    assert not cache.exists() or files_below(cache) == []


def test_a_missing_network_is_one_sentence(
    cache: Path, offer: Callable[..., Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    offer()
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    assert "the package index is not reachable" in refusal()
    assert not cache.exists()


def test_an_unwritable_cache_is_named(
    cache: Path, offer: Callable[..., Model], tmp_path: Path
) -> None:
    offer()
    cache.write_text("a file where the folder should be")
    message = refusal()
    assert str(cache) in message
    assert files_below(tmp_path) == ["cache", "index/tiny_model-1.0-py3-none-any.whl"]


def test_an_unknown_name_names_the_nearest(cache: Path) -> None:
    assert "did you mean 'mnist-8'?" in refusal("MNIST8")
    assert "tilescope models list" in refusal("nothing like it at all")
    assert "\x1b" not in refusal("\x1b[31mred")
    assert not cache.exists()


def test_two_processes_at_once_both_have_the_model(
    catalogue_model: Callable[[str], Path], cache: Path
) -> None:
    expected = catalogue_model("mnist-8").read_bytes()
    program = "from engine.models import fetch; print(fetch('mnist-8'))"
    running = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={**os.environ, "XDG_CACHE_HOME": str(cache)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    results = [(*process.communicate(timeout=120), process.returncode) for process in running]
    if any("is not reachable" in errors for _, errors, _ in results):
        pytest.skip("no network to fetch the model twice")
    assert [code for *_, code in results] == [0, 0], results
    paths = {Path(out.strip()) for out, *_ in results}
    assert [path.read_bytes() for path in paths] == [expected]
    assert len(files_below(cache)) == 3


def test_files_are_of_the_user_alone(cache: Path, offer: Callable[..., Model]) -> None:
    offer()
    before = os.umask(0)
    try:
        fetch("tiny")
    finally:
        os.umask(before)
    for path in (cache, *cache.rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600)


@pytest.mark.parametrize("is_fetched", [True, False])
def test_a_folder_of_others_is_not_used(
    cache: Path,
    offer: Callable[..., Model],
    caplog: pytest.LogCaptureFixture,
    is_fetched: bool,
) -> None:
    offer()
    folder = cache / "tilescope"
    if is_fetched:
        fetch("tiny")
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o777)
    text = refusal()
    assert text.startswith("tiny is not stored in ")
    assert f"{folder} may be written by other users; run `chmod go-w {folder}`" in text
    assert "set XDG_CACHE_HOME to another directory" in text
    assert cached("tiny") is None
    assert cached("tiny") is None
    assert len(caplog.messages) == 1


def test_an_entry_that_is_not_a_file_is_replaced(cache: Path, offer: Callable[..., Model]) -> None:
    offer()
    path = fetch("tiny")
    assert path.is_relative_to(cache)
    for make in (os.mkfifo, lambda path: path.symlink_to("/dev/zero")):
        path.unlink()
        make(path)
        assert cached("tiny") is None
        assert fetch("tiny").read_bytes() == CONTENT
        assert not path.is_symlink()


def test_pip_is_not_taken_from_the_working_directory(
    cache: Path, offer: Callable[..., Model], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer()
    for name in ("pip", "runpy", "json"):
        (tmp_path / f"{name}.py").write_text("open('ran', 'w')\n")
    monkeypatch.chdir(tmp_path)
    assert fetch("tiny").is_relative_to(cache)
    assert not (tmp_path / "ran").exists()
