"""The catalogue of models: catalogue.toml as typed rows."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from tilescope.engine.errors import ModelNotAvailable

__all__ = ["Companion", "Model", "ModelInput", "WheelTags", "all_models", "find"]


@dataclass(frozen=True)
class ModelInput:
    """One input: its shape, and the half-open range of its values, if any.

    Without a range, values are drawn from a normal distribution.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Companion:
    """An additional file of a model, such as a stored input; ``saved_as`` is relative to it."""

    path: str
    saved_as: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True)
class WheelTags:
    """Tags that select a wheel of a package with one wheel per platform."""

    python: str
    abi: str
    platform: str


@dataclass(frozen=True)
class Model:
    """One model, its package, and the hashes that pin both.

    ``licence`` is None if the package states none; ``runs`` is true if the engine compiles and runs
    the model with correct results.
    """

    name: str
    description: str
    package: str
    version: str
    package_sha256: str
    licence: str | None
    opset: int
    path: str
    size_bytes: int
    sha256: str
    inputs: tuple[ModelInput, ...]
    companions: tuple[Companion, ...] = ()
    tags: WheelTags | None = None
    runs: bool = False

    @property
    def requirement(self) -> str:
        """Requirement specifier for pip."""
        return f"{self.package}=={self.version}"


@cache
def all_models() -> Mapping[str, Model]:
    """Return all models by name, the smallest complete models first."""
    text = resources.files(__package__).joinpath("catalogue.toml").read_text(encoding="utf-8")
    models = [_model(row) for row in tomllib.loads(text)["model"]]
    return {model.name: model for model in models}


def find(name: str) -> Model:
    """Return a model by name.

    Raises
    ------
    ModelNotAvailable
        The name is unknown; the message suggests the nearest one.
    """
    known = all_models()
    if name in known:
        return known[name]
    folded = {key.lower(): key for key in known}
    near = difflib.get_close_matches(name.lower()[:60], folded, n=1, cutoff=0.4)
    hint = f"did you mean '{folded[near[0]]}'? " if near else ""
    text = "".join(c if c.isprintable() else "?" for c in name[:60])
    raise ModelNotAvailable(
        f"unknown model '{text}': {hint}`tilescope models list` lists all models"
    )


def _model(row: dict[str, Any]) -> Model:
    fields = {key: value for key, value in row.items() if key not in {"input", "companion", "tags"}}
    fields.setdefault("licence", None)
    return Model(
        **fields,
        inputs=tuple(
            ModelInput(**{**entry, "shape": tuple(entry["shape"])}) for entry in row["input"]
        ),
        companions=tuple(Companion(**entry) for entry in row.get("companion", ())),
        tags=WheelTags(**row["tags"]) if "tags" in row else None,
    )
