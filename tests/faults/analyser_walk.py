"""Calls of every public function of the analyser whose arguments a report alone can supply."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable, Iterator
from functools import cache, partial
from importlib import import_module
from typing import Any

from tilescope import analyser
from tilescope.reports import Report
from tilescope.reports.schema import compute_set, debug_context, program, run, step, target

__all__ = ["calls", "entry_points"]

#: Arguments by name of the parameter, where a report does not decide them.
_FIXED: dict[str, Any] = {
    "layer": "library",
    "text": "conv",
    "what": "total",
    "name": "layer1/conv",
    "how": "step",
    "order": "hardware",
    "breakdown": "category",
    "track": 0,
    "level": 0,
    "cycle": 100,
    "start": 0,
    "end": 1 << 20,
    "width_px": 300,
    "side": 0,
    "one": None,
    "other": None,
}
#: Parameters that number rows of a table: a row that the report has is passed.
_ROWS = {
    "step_id": step,
    "step": step,
    "program_id": program,
    "context_id": debug_context,
    "compute_set_id": compute_set,
    "run_id": run,
}
_TILES = ("tile", "tile_id", "first_tile")
#: Checks of arguments, and what needs another answer first.
_SKIPPED = ("require", "require_below", "require_known", "pattern", "pattern_totals")


@cache
def entry_points() -> dict[str, Callable[..., Any]]:
    """Return the public functions of the analyser that take a report first, by name."""
    functions: dict[str, Callable[..., Any]] = {}
    for module_info in pkgutil.walk_packages(analyser.__path__, "tilescope.analyser."):
        module = import_module(module_info.name)
        for name in getattr(module, "__all__", ()):
            function = getattr(module, name)
            if not inspect.isfunction(function) or function.__module__ != module.__name__:
                continue
            parameters = list(inspect.signature(function).parameters.values())
            if parameters and parameters[0].annotation == "Report" and name not in _SKIPPED:
                functions[f"{module_info.name}.{name}"] = function
    return functions


def calls(report: Report, other: Report) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the calls of all entry points for which a report has arguments."""
    counts = {name: report.n_rows(table) for name, table in _ROWS.items()}
    ((n_ipus, tiles_per_ipu),) = report.rows(target, "n_ipus", "tiles_per_ipu")
    ids: dict[str, Any] = {name: n // 2 for name, n in counts.items() if n}
    ids |= dict.fromkeys(_TILES, n_ipus * tiles_per_ipu // 2)
    ids |= {"end_tile": n_ipus * tiles_per_ipu, "ipu_id": n_ipus - 1, "candidate": other}
    arguments = _FIXED | ids
    for name, function in entry_points().items():
        required = [
            parameter.name
            for parameter in list(inspect.signature(function).parameters.values())[1:]
            if parameter.default is parameter.empty
        ]
        if all(key in arguments for key in required):
            values = [arguments[key] for key in required]
            yield name, partial(_answer, function, report, values)


def _answer(function: Callable[..., Any], report: Report, values: list[Any]) -> Any:
    """Return the answer of a function; what yields its entries yields them now."""
    answer = function(report, *values)
    return list(answer) if inspect.isgenerator(answer) else answer
