"""Shell completion of arguments: names that are known without slow imports.

A report that does not open completes nothing; a shell must never see an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

__all__ = [
    "complete_category",
    "complete_machine",
    "complete_map",
    "complete_metric",
    "complete_model",
    "complete_plan",
    "complete_variable",
]

#: Completions shown at once.
_MOST = 200


def complete_category(incomplete: str) -> list[str]:
    """Return the categories of variables that begin with a text."""
    from tilescope.reports.schema.vocabulary import MEMORY_CATEGORIES

    names = (category.name for category in MEMORY_CATEGORIES if category.is_variable)
    return _beginning(names, incomplete)


def complete_map(incomplete: str) -> list[str]:
    """Return what a map of tiles may show."""
    from tilescope.reports.schema.vocabulary import MEMORY_CATEGORIES

    names = ["total", "gaps", *(category.name for category in MEMORY_CATEGORIES), "variable:"]
    return _beginning(names, incomplete)


def complete_machine(incomplete: str) -> list[str]:
    """Return the machine presets that begin with a text."""
    from tilescope.engine.machine import machine_names

    return _beginning(machine_names(), incomplete)


def complete_metric(incomplete: str) -> list[str]:
    """Return the metrics that begin with a text."""
    from tilescope.analyser.summary.metrics import METRICS

    return _beginning(METRICS, incomplete)


def complete_model(incomplete: str) -> list[str]:
    """Return the models of the catalogue that begin with a text."""
    from tilescope.engine.models import all_models

    return _beginning(all_models(), incomplete)


def complete_plan(ctx: Any, incomplete: str) -> list[str]:
    """Return the plans of the report on the command line that begin with a text."""
    from tilescope.analyser.program.plans import plans

    return _of_report(ctx, incomplete, lambda report: (plan.name for plan in plans(report)))


def complete_variable(ctx: Any, incomplete: str) -> list[str]:
    """Return the variables of the report on the command line that begin with a text."""
    from tilescope.analyser.memory.lowered_variables import variable_columns

    return _of_report(
        ctx, incomplete, lambda report: (str(name) for name in variable_columns(report)["name"])
    )


def _of_report(ctx: Any, incomplete: str, names: Callable[[Any], Iterable[str]]) -> list[str]:
    """Return names of the report on the command line that begin with a text."""
    from tilescope import analyser

    words = [ctx.params.get("path"), *ctx.args]
    path = next((word for word in words if word), None)
    if path is None:
        return []
    try:
        with analyser.open(path) as report:
            return _beginning(names(report), incomplete)
    except Exception:
        return []


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    """Return the first names that begin with a text, each once."""
    matches = dict.fromkeys(name for name in names if name.startswith(incomplete))
    return list(matches)[:_MOST]
