"""Keys by which calls are aligned: what they do, where they stand, what they are called."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from tilescope.analyser.program.call_tree import Call

__all__ = ["LEVELS", "SCORES", "CallKeys", "whole"]


def whole(call: Call) -> Hashable:
    """Return all that a call is, apart from its name."""
    return (call.operation, call.attributes, call.shapes, call.weights)


def _structure(call: Call) -> Hashable:
    """Return what a call is for any batch and any weights."""
    return (call.operation, call.attributes)


class CallKeys:
    """Keys of a list of calls that stand beside each other; by name, computed when needed.

    Keys named ``…_before`` and ``…_after`` describe all that leads to a call, and all that it leads
    to, by a hash over the graph of operands; calls without operands are a chain.

    Parameters
    ----------
    calls
        In program order.
    """

    def __init__(self, calls: Sequence[Call]) -> None:
        self._calls = calls
        self._producers = _producers(calls)
        self._found: dict[str, Sequence[Hashable]] = {}

    def __getitem__(self, name: str) -> Sequence[Hashable]:
        """Return the keys of a name, one per call."""
        if name not in self._found:
            described, _, method = name.rpartition("_")
            if method == "place":
                sides = self[f"{described}_before"], self[f"{described}_after"]
                self._found[name] = list(zip(*sides, strict=True))
            elif method == "around":
                self._found[name] = _around(self[described])
            elif method == "before":
                self._found[name] = _before(self[described], self._producers)
            elif method == "after":
                self._found[name] = _after(self[described], self._producers)
            else:
                self._found[name] = list(map(_KEYS[name], self._calls))
        return self._found[name]


def _named(call: Call) -> Hashable:
    """Return all that a call is with its name; None for a name that was given by counting."""
    return None if call.own_name is None else (whole(call), call.name)


def _operation_name(call: Call) -> Hashable:
    """Return the operation with the name; None for a name that was given by counting."""
    return None if call.own_name is None else (call.operation, call.name)


def _weighted(call: Call) -> Hashable:
    """Return the operation with its weights; None without any."""
    return None if call.weights is None else (call.operation, call.weights)


_KEYS: dict[str, Callable[[Call], Hashable]] = {
    "whole": whole,
    "structure": _structure,
    "shaped": lambda call: (call.operation, call.attributes, call.shapes),
    "named": _named,
    "weighted": _weighted,
    "operation name": _operation_name,
    "operation": lambda call: call.operation,
    "attributes": lambda call: call.attributes,
    "shapes": lambda call: call.shapes,
    "weights": lambda call: call.weights,
    "name": lambda call: call.name,
    "text": lambda call: f"{whole(call)} {call.name}",
}
#: Keys that pair calls where they are unique, the strongest first.
LEVELS = (
    "whole_place",
    "whole_after",
    "whole_before",
    "named",
    "structure_place",
    "weighted",
    "structure_after",
    "structure_before",
    "whole",
    "operation name",
    "structure_around",
    "shaped",
)
#: What equal keys add to the likeness of two calls; without the first, they are never the same.
#: The last one splits gaps that are too large to compare all calls.
SCORES = (
    ("operation", 1),
    ("weights", 8),
    ("attributes", 4),
    ("shapes", 3),
    ("structure_around", 2),
    ("name", 2),
    ("structure", 0),
)


def _producers(calls: Sequence[Call]) -> list[list[int | None]]:
    """Return which call makes every operand of a call; None for one from elsewhere."""
    maker: dict[str, int] = {}
    producers: list[list[int | None]] = []
    for index, call in enumerate(calls):
        if call.inputs or call.outputs:
            producers.append([maker.get(operand[0]) for operand in call.inputs])
        else:
            producers.append([index - 1] if index else [])
        for operand in call.outputs:
            maker[operand[0]] = index
    return producers


def _before(keys: Sequence[Hashable], producers: Sequence[Sequence[int | None]]) -> list[Hashable]:
    """Return a hash of every call with all that leads to it."""
    predecessors: list[int] = []
    for key, makers in zip(keys, producers, strict=True):
        before = tuple([-1 if maker is None else predecessors[maker] for maker in makers])
        predecessors.append(hash((key, before)))
    return list(predecessors)


def _after(keys: Sequence[Hashable], producers: Sequence[Sequence[int | None]]) -> list[Hashable]:
    """Return a hash of every call with all that it leads to."""
    after: list[list[tuple[int, int]]] = [[] for _ in keys]
    keys_after: list[Hashable] = [0] * len(keys)
    for index in range(len(keys) - 1, -1, -1):
        keys_after[index] = reached = hash((keys[index], tuple(sorted(after[index]))))
        for position, maker in enumerate(producers[index]):
            if maker is not None:
                after[maker].append((reached, position))
    return keys_after


def _around(keys: Sequence[Hashable]) -> list[Hashable]:
    """Return every key with the keys before and after it."""
    return list(zip([None, *keys[:-1]], keys, [*keys[1:], None], strict=True))
