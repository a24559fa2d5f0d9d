"""The base of groups of options: named values with types, which freeze once a model uses them."""

from __future__ import annotations

import copy
from difflib import get_close_matches
from typing import Any, Self

__all__ = ["OptionsDict"]


class OptionsDict:
    """Values that are read as attributes, and keep the type of their default.

    Parameters
    ----------
    **default_values
        The values, by name.
    """

    def __init__(self, **default_values: Any) -> None:
        self.__dict__["_is_frozen"] = False
        self.__dict__["_values"] = default_values

    def set(self, **kwargs: Any) -> None:
        """Set values that exist.

        Raises
        ------
        AssertionError
            When the option is unknown, or the value has another type.
        AttributeError
            When the options are frozen.
        """
        self.checkIsFrozen()
        for option, value in kwargs.items():
            assert self.exists(option), self._unknown("option", option)
            expected = type(self._values[option])
            assert isinstance(value, expected), (
                f"Unexpected type {type(value)} for option {option}. Expected {expected}"
            )
            self._values[option] = value

    def createOrSet(self, **kwargs: Any) -> None:
        """Set values, also those that have no default.

        Raises
        ------
        AssertionError, AttributeError
            As for `set`.
        """
        self.checkIsFrozen()
        for option, value in kwargs.items():
            if self.exists(option):
                self.set(**{option: value})
            else:
                self._values[option] = value

    def exists(self, option: str) -> bool:
        """Whether an option has a value."""
        return option in self._values

    def deleteIfExists(self, option: str) -> None:
        """Remove the value of an option, if it has one."""
        self._values.pop(option, None)

    def checkIsFrozen(self, option: str | None = None) -> None:
        """Refuse a change once the options are in use.

        Raises
        ------
        AttributeError
            When the options are frozen.
        """
        if option != "_is_frozen" and self.__dict__.get("_is_frozen"):
            raise AttributeError("Can't modify frozen Options")

    def update(self, other: dict[str, Any]) -> dict[str, Any]:
        """Add the values to a dictionary, and return it.

        Raises
        ------
        AssertionError
            When it has one of them.
        """
        shared = set(self._values).intersection(other)
        assert not shared, f"Options {', '.join(sorted(shared))} stand in two groups"
        other.update(self._values)
        return other

    def toDict(self) -> dict[str, Any]:
        """Return the values by name."""
        return self.update({})

    def __call__(self, option: str) -> Any:
        """Return the value of an option."""
        return getattr(self, option)

    def __setattr__(self, option: str, value: Any) -> None:
        self.checkIsFrozen(option)
        if option == "__class__":
            object.__setattr__(self, option, value)
            return
        if not option.startswith("_"):
            self.set(**{option: value})
            return
        if "_values" in self.__dict__ and option not in self.__dict__:
            raise AttributeError(self._unknown("private attribute", option))
        self.__dict__[option] = value

    def __getattr__(self, option: str) -> Any:
        values = self.__dict__.get("_values", {})
        if option in values:
            return values[option]
        raise AttributeError(self._unknown("attribute", option))

    def __deepcopy__(self, memory: dict[int, Any]) -> Self:
        other = type(self).__new__(type(self))
        memory[id(self)] = other
        for key, value in self.__dict__.items():
            other.__dict__[key] = False if key == "_is_frozen" else copy.deepcopy(value, memory)
        return other

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return repr(self) == repr(other)

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        hidden = ("_values", "_is_frozen", "_states_strategy")
        others = {key: v for key, v in self.__dict__.items() if key not in hidden}
        shown = ", ".join(f"{key}={value!r}" for key, value in {**self._values, **others}.items())
        return f"{type(self).__name__}({shown})"

    def _freeze(self) -> None:
        self._set_frozen(True)

    def _unfreeze(self) -> None:
        self._set_frozen(False)

    def _set_frozen(self, is_frozen: bool) -> None:
        for value in (self, *self.__dict__.values()):
            state = getattr(value, "__dict__", {})
            if "_is_frozen" in state:
                state["_is_frozen"] = is_frozen

    def _unknown(self, what: str, name: str) -> str:
        methods = [key for key in dir(type(self)) if not key.startswith("_")]
        close = get_close_matches(name, [*self.__dict__.get("_values", {}), *methods], 3)
        hint = f" Did you mean {' or '.join(close)}?" if close else ""
        return f"Invalid {what} {name}.{hint}"
