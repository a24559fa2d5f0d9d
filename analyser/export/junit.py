"""Gates as test cases in JUnit's XML, which CI systems show as test results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from tilescope.analyser.export.plain_text import xml_text

if TYPE_CHECKING:
    from tilescope.analyser.gates import GateResult

__all__ = ["junit"]


def junit(results: Sequence[GateResult], sentences: Sequence[str], timestamp: str) -> str:
    """Return gates as JUnit XML; without a gate, one test case says what changed.

    Parameters
    ----------
    results
        Outcomes of gates: a test case each. Failed and missing ones fail; warned and acknowledged
        ones are skipped.
    sentences
        Explanation of the difference, the text of every failure.
    timestamp
        Of the suite, ISO 8601 without a time zone.
    """
    explanation = xml_text("\n".join(sentences))
    failures = sum(result.status in {"failed", "missing"} for result in results)
    skipped = sum(result.status in {"warned", "acknowledged"} for result in results)
    counts = {
        "tests": str(max(len(results), 1)),
        "failures": str(failures),
        "errors": "0",
        "time": "0",
    }
    root = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(
        root,
        "testsuite",
        {
            "name": "tilescope diff",
            **counts,
            "skipped": str(skipped),
            "timestamp": timestamp,
            "hostname": "localhost",
            "id": "0",
            "package": "tilescope",
        },
    )
    ElementTree.SubElement(suite, "properties")
    for result in results:
        _add_case(suite, result, explanation)
    if not results:
        _case(suite, "compare")
    ElementTree.SubElement(suite, "system-out").text = explanation
    ElementTree.SubElement(suite, "system-err").text = ""
    ElementTree.indent(root)
    # ASCII survives every terminal and pipe; other characters are references.
    text: bytes = ElementTree.tostring(root, encoding="us-ascii", xml_declaration=True)
    return text.decode() + "\n"


def _case(suite: ElementTree.Element, name: str) -> ElementTree.Element:
    """Add a test case."""
    facts = {"name": xml_text(name), "classname": "tilescope.diff", "time": "0"}
    return ElementTree.SubElement(suite, "testcase", facts)


def _add_case(suite: ElementTree.Element, result: GateResult, explanation: str) -> None:
    """Add the test case of a gate."""
    name = result.gate.text
    if result.name != name.rpartition(":")[0]:
        name = f"{name} [{result.name}]"
    case = _case(suite, name)
    message = xml_text(result.text)
    if result.status in {"failed", "missing"}:
        facts = {"message": message, "type": result.status}
        ElementTree.SubElement(case, "failure", facts).text = f"{message}\n{explanation}"
    elif result.status != "passed":
        ElementTree.SubElement(case, "skipped", {"message": message})
