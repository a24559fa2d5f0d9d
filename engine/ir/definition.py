"""What users state of an operator of their own: its name, its form, and its functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tilescope.engine.errors import BadModel

__all__ = ["TAKEN_DOMAINS", "Definition", "counts_text"]

#: Domains whose operators others define.
TAKEN_DOMAINS = {
    "": "ONNX's",
    "ai.onnx": "ONNX's",
    "ai.onnx.ml": "ONNX's",
    "ai.onnx.preview.training": "ONNX's",
    "ai.onnx.training": "ONNX's",
    "ai.graphcore": "PopART's",
    "com.microsoft": "onnxruntime's",
    "popsparse": "the engine's",
    "tilescope": "the engine's",
}

#: Types of attributes.
_KINDS = (bool, int, float, str)


@dataclass(frozen=True, eq=False, kw_only=True)
class Definition:
    """The form of an operator that a user states, and the functions as the user wrote them.

    Parameters
    ----------
    domain, name
        Of the operator.
    versions
        Versions of the domain that have a definition of it; ascending.
    n_inputs, n_outputs
        Least and most; the most is None where there is no limit.
    attributes
        Defaults by name; a type, such as ``float``, for one that a node has to state.
    functions
        By the argument that they were given as.
    settings
        What else it states.
    """

    domain: str
    name: str
    versions: tuple[int, ...]
    n_inputs: tuple[int, int | None]
    n_outputs: tuple[int, int | None]
    attributes: Mapping[str, Any]
    functions: Mapping[str, Callable[..., Any]]
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Domain and name."""
        return f"{self.domain}.{self.name}"

    @property
    def digest(self) -> str:
        """Digest of all of it, with all of the user's code that its functions use.

        Raises
        ------
        TypeError
            When they use an object without a digest.
        """
        from tilescope.engine.host.jit.user_code import user_digest

        form = (self.key, self.versions, self.n_inputs, self.n_outputs)
        return user_digest((form, self.attributes, self.functions, self.settings))

    @property
    def places(self) -> list[tuple[str, str, int]]:
        """Where its functions are written: role, file, line."""
        codes = {role: getattr(f, "__code__", None) for role, f in self.functions.items()}
        return [
            (role, code.co_filename, code.co_firstlineno)
            for role, code in codes.items()
            if code is not None
        ]

    def version(self, opset: int | None) -> int:
        """Return the version of the operator in a version of its domain; None is the newest.

        Raises
        ------
        BadModel
            When the domain's version has none.
        """
        if opset is None:
            return self.versions[-1]
        known = [version for version in self.versions if version <= opset]
        if not known:
            raise BadModel(
                f"Operator {self.key!r} is not in version {opset} of its domain: it is registered"
                f" for {', '.join(map(str, self.versions))}; give custom_operator versions="
            )
        return known[-1]

    def attributes_of(self, where: str, stated: Mapping[str, Any]) -> dict[str, Any]:
        """Return the attributes of a node with the defaults of those left out.

        Raises
        ------
        BadModel
            When one is unknown, missing, or of another type.
        """
        for name in stated:
            if name not in self.attributes:
                known = ", ".join(self.attributes) or "none"
                raise BadModel(f"{where}: unknown attribute {name!r} of {self.key}: it has {known}")
        values = {}
        for name, default in self.attributes.items():
            if name in stated:
                values[name] = _converted(where, name, stated[name], default)
            elif isinstance(default, type):
                raise BadModel(
                    f"{where}: attribute {name!r} of {self.key} is missing: expected a"
                    f" {default.__name__}"
                )
            else:
                values[name] = default
        return values

    def check_counts(self, where: str, n_inputs: int, n_outputs: int) -> None:
        """Refuse a node with another number of inputs, or more outputs.

        Raises
        ------
        BadModel
            When it has.
        """
        least, most = self.n_inputs
        if n_inputs < least or (most is not None and n_inputs > most):
            raise BadModel(
                f"{where}: {self.key} takes {counts_text(self.n_inputs, 'input')}, got {n_inputs}"
            )
        most = self.n_outputs[1]
        if most is not None and n_outputs > most:
            raise BadModel(
                f"{where}: {self.key} has {counts_text(self.n_outputs, 'output')}, got {n_outputs}"
            )


def counts_text(counts: tuple[int, int | None], noun: str) -> str:
    """Return a number of operands in words, such as ``1 to 3 inputs``."""
    least, most = counts
    if most is None:
        return f"{least} or more {noun}s"
    if least == most:
        return f"{least} {noun}{'s' * (least != 1)}"
    return f"{least} to {most} {noun}s"


def _converted(where: str, name: str, value: Any, default: Any) -> Any:
    """Return an attribute in the type of its default; a whole number is a float, too.

    Raises
    ------
    BadModel
        When it has another type.
    """
    if isinstance(default, tuple | list) or default is tuple:
        if not isinstance(value, tuple | list):
            raise BadModel(f"{where}: attribute {name!r} must be a list, got {value!r}")
        return tuple(value)
    kind = default if isinstance(default, type) else type(default)
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(f"{value:.7g}")  # a file holds floats of 32 bits
    if kind is bool and isinstance(value, int) and value in (0, 1):
        return bool(value)
    if kind in _KINDS and (not isinstance(value, kind) or (kind is int and value is True)):
        raise BadModel(f"{where}: attribute {name!r} must be a {kind.__name__}, got {value!r}")
    return value
