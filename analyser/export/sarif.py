"""Failed gates as results in SARIF 2.1.0, which code hosts show beside the source."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tilescope.analyser.gates.gate import OPERATION_FIGURES
from tilescope.analyser.summary.metrics import METRICS

if TYPE_CHECKING:
    from tilescope.analyser.gates import Gate, GateResult

__all__ = ["sarif"]

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {"failed": "error", "missing": "error", "warned": "warning", "acknowledged": "note"}


def sarif(
    results: Sequence[GateResult],
    sentences: Sequence[str],
    version: str,
    location_of: Callable[[Gate], tuple[str, int]],
) -> str:
    """Return failed, missing, warned and acknowledged gates as SARIF.

    Parameters
    ----------
    results
        Outcomes of gates.
    sentences
        Explanation of the difference; the first three follow every message.
    version
        Of TileScope.
    location_of
        Returns the file, relative to the repository, and the line to show a gate at; code hosts
        refuse results without one.
    """
    listed = [result for result in results if result.status in _LEVELS]
    names = list(dict.fromkeys(result.metric for result in listed))
    run: dict[str, object] = {
        "tool": {
            "driver": {
                "name": "TileScope",
                "semanticVersion": version,
                "rules": [_rule(name) for name in names],
            }
        },
        "columnKind": "unicodeCodePoints",
        "results": [
            _result(result, names.index(result.metric), sentences[:3], location_of(result.gate))
            for result in listed
        ],
    }
    answer = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(answer, indent=2, allow_nan=False) + "\n"


def _rule(name: str) -> dict[str, object]:
    """Return a gated figure as a rule."""
    if name in METRICS:
        text = METRICS[name].definition
    else:
        words = name.rpartition(".")[2].replace("_", " ")
        text = f"{words.capitalize()} of one operation" if name in OPERATION_FIGURES else name
    return {
        "id": name,
        "shortDescription": {"text": f"Change of {name}"},
        "fullDescription": {"text": text},
        "defaultConfiguration": {"level": "error"},
    }


def _result(
    result: GateResult, rule_index: int, sentences: Sequence[str], location_of: tuple[str, int]
) -> dict[str, object]:
    """Return a gate's outcome as a result."""
    uri, line = location_of
    identity = hashlib.sha256(f"{result.gate.text}\0{result.name}".encode()).hexdigest()
    answer: dict[str, object] = {
        "ruleId": result.metric,
        "ruleIndex": rule_index,
        "level": _LEVELS[result.status],
        "message": {"text": " ".join((result.text, *sentences))},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": uri},
                    "region": {"startLine": line},
                }
            }
        ],
        "partialFingerprints": {"gate/v1": identity},
    }
    accepted = result.acknowledged_by
    if accepted is not None:
        answer["suppressions"] = [{"kind": "external", "justification": accepted.reason}]
    return answer
