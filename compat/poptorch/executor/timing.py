"""When a call gave its inputs and took its outputs, in the time of the simulated device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["CallTimes", "latency"]

_EVENTS = ("input", "input_complete", "output", "output_complete")


@dataclass
class CallTimes:
    """The times of the last call, in seconds since the model's first.

    Parameters
    ----------
    now_s
        End of the last call.
    counters
        By event, a list of tensors, each with a list of times of its batches.
    """

    now_s: float = 0.0
    counters: dict[str, list[list[float]]] = field(default_factory=dict)

    def add(self, n_inputs: int, n_outputs: int, n_batches: tuple[int, int], call_s: float) -> None:
        """Note a call.

        Parameters
        ----------
        n_inputs, n_outputs
            Tensors that it took and returned.
        n_batches
            Batches of an input, and of an output.
        call_s
            How long it took.
        """
        start, taken, returned = self.now_s, n_batches[0], n_batches[1]
        given = [start + call_s * number / taken for number in range(taken)]
        done = [start + call_s * (number + 1) / returned for number in range(returned)]
        self.counters = {
            "input": [given] * n_inputs,
            "input_complete": [given] * n_inputs,
            "output": [done] * n_outputs,
            "output_complete": [done] * n_outputs,
        }
        self.now_s = start + call_s

    def read(self) -> dict[str, list[list[float]]]:
        """Return the times by event; empty lists before the first call."""
        return {event: self.counters.get(event) or [[]] for event in _EVENTS}


def latency(
    counters: Mapping[str, list[list[float]]], first: str, last: str
) -> tuple[float, float, float]:
    """Return the shortest, longest and mean time from an event to a later one, in seconds.

    Parameters
    ----------
    counters
        As `CallTimes.read` returns them.
    first, last
        The events: of tensors given, the first counts, and of others the last.
    """
    begin = min if first in ("input", "output") else max
    starts = [begin(times) for times in zip(*counters[first], strict=True)]
    ends = [max(times) for times in zip(*counters[last], strict=True)]
    if not ends:
        return 0.0, 0.0, 0.0
    n_joined = len(starts) // len(ends)
    joined = [min(starts[n * n_joined : (n + 1) * n_joined]) for n in range(len(ends))]
    lengths = [end - start for start, end in zip(joined, ends, strict=True)]
    return min(lengths), max(lengths), sum(lengths) / len(lengths)
