"""The operators that this process has registered, besides those of the engine."""

from __future__ import annotations

from tilescope.engine.errors import BadModel
from tilescope.engine.ir.definition import Definition
from tilescope.engine.ir.operation import Operator

__all__ = ["REGISTERED", "forget_operator", "register", "registered_digest"]

#: By `Operator.key`.
REGISTERED: dict[str, Operator] = {}


def register(operator: Operator) -> None:
    """Let models use an operator of the user's own.

    Parameters
    ----------
    operator
        With its definition. One that is defined as it was before takes the place of that.

    Raises
    ------
    BadModel
        When the name is registered with another definition.
    """
    known = REGISTERED.get(operator.key)
    if known is not None and not _is_same(known.definition, operator.definition):
        raise BadModel(
            f"Operator {operator.key!r} is registered already, with another definition: give this"
            f" one another name, or first call engine.forget_operator({operator.key!r})"
        )
    REGISTERED[operator.key] = operator


def forget_operator(key: str) -> None:
    """Take back the registration of an operator.

    Parameters
    ----------
    key
        Domain and name, such as ``custom.ops.Cube``.

    Raises
    ------
    BadModel
        When there is none.
    """
    if REGISTERED.pop(key, None) is None:
        known = ", ".join(REGISTERED) or "none"
        raise BadModel(f"Operator {key!r} is not registered; registered operators: {known}")


def registered_digest() -> str:
    """Return a digest of all registered operators as they are now; empty without any.

    Raises
    ------
    TypeError
        When a function of one uses an object without a digest.
    """
    definitions = [operator.definition for operator in REGISTERED.values()]
    digests = sorted(definition.digest for definition in definitions if definition is not None)
    return "-".join(digests)


def _is_same(before: Definition | None, now: Definition | None) -> bool:
    """Return whether two definitions are equal: by their digests, or by where they are written."""
    if before is None or now is None:
        return False
    try:
        return before.digest == now.digest
    except TypeError:
        return before.places == now.places
