"""Options that are passed on to PopART by their names there."""

from __future__ import annotations

import copy
from typing import Any, Self

__all__ = ["PopartOptions"]


class PopartOptions:
    """Options of PopART by name: ``Options._Popart``.

    Attributes
    ----------
    options
        The values that are set, by name; a group's have its name and a dot in front.
    """

    def __init__(self) -> None:
        self._is_frozen = False
        self.options: dict[str, Any] = {}
        self.set("instrumentWithHardwareCycleCounter", False)
        self.set("rearrangeAnchorsOnHost", False)

    def set(self, key: str, value: Any) -> Self:
        """Set an option.

        Raises
        ------
        AttributeError
            When the options are frozen.
        """
        self.checkIsFrozen()
        self.options[key] = value
        return self

    def setEngineOptions(self, engine_options: dict[str, str]) -> Self:
        """Set Poplar's engine options."""
        return self.set("engineOptions", engine_options)

    def setPatterns(self, patterns: dict[str, bool], level: int = 2) -> Self:
        """Set which of PopART's patterns rewrite the graph, and how many by default.

        Raises
        ------
        AssertionError
            When the level is not an integer, or the patterns are not a dictionary.
        """
        assert isinstance(level, int), f"level is {level!r}: expected an integer"
        assert isinstance(patterns, dict), f"patterns are {patterns!r}: expected a dictionary"
        return self.set("patterns_level", level).set("patterns", patterns)

    def checkIsFrozen(self, option: str | None = None) -> None:
        """Refuse a change once the options are in use.

        Raises
        ------
        AttributeError
            When the options are frozen.
        """
        if option != "_is_frozen" and self._is_frozen:
            raise AttributeError("Can't modify frozen Options")

    def __deepcopy__(self, memory: dict[int, Any]) -> PopartOptions:
        other = PopartOptions()
        memory[id(self)] = other
        other.options = copy.deepcopy(self.options, memory)
        return other

    def __repr__(self) -> str:
        shown = ", ".join(f"{key}={value!r}" for key, value in self.options.items())
        return f"{type(self).__name__}({shown})"
