"""``tilescope diff``: compare a baseline with a candidate, and gate on the change."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from tilescope.completion import complete_metric
from tilescope.console import Column, comparing, print_line, print_table, print_text
from tilescope.parameters import AsJson, ConfigOption, TopOption, Units, UnitsOption, examples

if TYPE_CHECKING:
    from tilescope.analyser.breakdown import ChangeTable
    from tilescope.analyser.diff import Difference
    from tilescope.analyser.export import DiffDocument
    from tilescope.analyser.gates import Gate, GateResult
    from tilescope.configuration import Configuration

__all__ = ["register"]

EXIT_GATE_FAILED = 1
EXIT_METRIC_MISSING = 3


class Format(StrEnum):
    """Format of the output."""

    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"
    JUNIT = "junit"
    HTML = "html"
    SARIF = "sarif"


class By(StrEnum):
    """What to list changes by."""

    OPERATION = "operation"
    LAYER = "layer"
    PHASE = "phase"
    MICRO_BATCH = "micro-batch"
    BATCH = "batch"
    RUN = "run"
    VARIABLE = "variable"
    TILE = "tile"
    CATEGORY = "category"
    IPU = "ipu"
    STEP = "step"
    PATH = "path"


@dataclass(frozen=True)
class _Found:
    """A difference with its gates, ready for any format."""

    difference: Difference
    sentences: tuple[str, ...]
    tables: Mapping[str, tuple[ChangeTable, ...]]
    results: tuple[GateResult, ...]
    notes: tuple[str, ...]
    units: Units
    top: int

    def document(self) -> DiffDocument:
        """Return the difference as a document."""
        from tilescope.analyser.export import diff_document
        from tilescope.analyser.export.diff_document import Rows

        tables = [] if self.difference.is_identical else self.tables.values()
        return diff_document(
            self.difference,
            self.sentences,
            [table for listed in tables for table in listed],
            self.results,
            self.notes,
            Rows(self.units.style, self.top),
        )


def register(app: typer.Typer) -> None:
    """Add the command ``diff``."""

    @app.command(
        epilog=examples(
            "diff baseline candidate",
            "diff baseline candidate --fail-on 'cycles.total:+1%'",
        )
    )
    def diff(
        baseline: Annotated[
            Path, typer.Argument(metavar="BASELINE", help="Report to compare against.")
        ],
        candidate: Annotated[
            Path, typer.Argument(metavar="CANDIDATE", help="Report that may have changed.")
        ],
        as_json: AsJson = False,
        form: Annotated[
            Format, typer.Option("--format", help="Format of the output.")
        ] = Format.TEXT,
        write: Annotated[
            list[str] | None,
            typer.Option(
                "--write",
                metavar="FORMAT=FILE",
                help="Also write a format to a file, such as junit=gates.xml; repeatable.",
            ),
        ] = None,
        by: Annotated[
            list[By] | None,
            typer.Option(
                "--by",
                metavar="WHAT",
                help="List changes by operation, layer, phase, micro-batch, batch, run, variable,"
                " tile, category, ipu, step or path;"
                " repeatable. By default by step and variable.",
            ),
        ] = None,
        min_change: Annotated[
            str | None,
            typer.Option(
                metavar="AMOUNT",
                help="Smallest change listed in tables: 1%, 100c or 1KiB.",
                show_default=False,
            ),
        ] = None,
        fail_on: Annotated[
            list[str] | None,
            typer.Option(
                "--fail-on",
                autocompletion=complete_metric,
                metavar="METRIC[@SELECTOR]:LIMIT",
                help="Exit with 1 if a figure exceeds a limit, such as cycles.total:+1%,"
                " cycles.compute@ipu1:+100c or memory.max_tile:+1KiB; repeatable.",
            ),
        ] = None,
        warn_on: Annotated[
            list[str] | None,
            typer.Option(
                "--warn-on",
                autocompletion=complete_metric,
                metavar="METRIC[@SELECTOR]:LIMIT",
                help="Warn if a figure exceeds a limit; repeatable.",
            ),
        ] = None,
        config: ConfigOption = None,
        github: Annotated[
            bool,
            typer.Option(
                "--github",
                help="In GitHub Actions: annotate gates, and append Markdown to the step summary.",
            ),
        ] = False,
        units: UnitsOption = Units.BINARY,
        top: TopOption = 10,
    ) -> None:
        """Compare a baseline report with a candidate report.

        Exit codes: 0 no gate failed, 1 a gate failed, 2 invalid usage or input, 3 a gated figure is
        missing.
        """
        from tilescope.configuration import read

        if as_json and form is not Format.TEXT:
            raise typer.BadParameter("--json and --format are mutually exclusive")
        files = _files(write or [])
        gates = [*_gates(fail_on, "fail"), *_gates(warn_on, "warn")]
        settings = read(config)
        comparison = _compare(
            (baseline, candidate),
            (*settings.gates, *gates),
            settings,
            [breakdown.value for breakdown in by or ()],
            min_change,
            (units, top),
        )
        render = _renderers(comparison, settings, candidate)
        chosen = Format.JSON if as_json else form
        if chosen is Format.TEXT:
            _print(comparison.document())
        else:
            print_text(render[chosen]())
        for name, path in files:
            _write(path, render[name](), "w")
        if github:
            _tell_github(comparison, files)
        _exit(comparison)


def _gates(texts: Sequence[str] | None, level: str) -> list[Gate]:
    """Return gates of the command line."""
    from tilescope.analyser.gates import parse_gate

    return [parse_gate(text, "warn" if level == "warn" else "fail") for text in texts or ()]


def _files(texts: Sequence[str]) -> list[tuple[Format, Path]]:
    """Parse ``FORMAT=FILE``."""
    allowed = [format_ for format_ in Format if format_ is not Format.TEXT]
    files = []
    for text in texts:
        name, equals, path = text.partition("=")
        if not equals or not path or name not in allowed:
            raise typer.BadParameter(
                f"expected FORMAT=FILE for --write, with a format of {', '.join(allowed)},"
                f" got {text}"
            )
        files.append((Format(name), Path(path)))
    return files


def _compare(
    paths: tuple[Path, Path],
    gates: Sequence[Gate],
    settings: Configuration,
    listed_by: Sequence[str],
    min_change: str | None,
    style: tuple[Units, int],
) -> _Found:
    """Compare two reports and evaluate gates."""
    from tilescope.analyser.breakdown import (
        BREAKDOWNS,
        change_tables,
        metric_table,
        parse_min_change,
        without_small,
    )
    from tilescope.analyser.diff import compare, explain
    from tilescope.analyser.gates import evaluate

    smallest = None if min_change is None else parse_min_change(min_change)
    breakdowns = [name for name in BREAKDOWNS if name in (listed_by or ("step", "variable"))]
    today = datetime.now(UTC).date()
    with comparing(*paths, is_decisive=bool(gates)) as (baseline, candidate):
        difference = compare(baseline, candidate)
        tables: dict[str, tuple[ChangeTable, ...]] = {"metric": (metric_table(difference),)}
        tables |= {
            name: change_tables(name, difference, baseline, candidate) for name in breakdowns
        }
        results = evaluate(
            gates,
            difference,
            baseline,
            candidate,
            acknowledgements=settings.acknowledgements,
            today=today,
        )
        sentences = explain(difference)
    notes = [
        f"The acknowledgement of {item.text} expired on {item.until.isoformat()}: {item.reason}"
        for item in settings.acknowledgements
        if item.has_expired(today)
    ]
    small = {
        name: tuple(without_small(table, smallest) for table in listed)
        for name, listed in tables.items()
    }
    return _Found(difference, sentences, small, results, tuple(notes), *style)


def _renderers(
    comparison: _Found, settings: Configuration, candidate: Path
) -> dict[Format, Callable[[], str]]:
    """Return the function that renders every format but text."""
    from tilescope.analyser import export

    def as_json() -> str:
        answer = export.json_document(
            comparison.difference,
            comparison.sentences,
            comparison.tables,
            comparison.results,
            comparison.notes,
        )
        return json.dumps(answer, indent=2, allow_nan=False) + "\n"

    def as_junit() -> str:
        path = Path(comparison.difference.candidate.path)
        written = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        timestamp = written.strftime("%Y-%m-%dT%H:%M:%S")
        return export.junit(comparison.results, comparison.sentences, timestamp)

    def as_sarif() -> str:
        def place(gate: Gate) -> tuple[str, int]:
            return _place(gate, settings, candidate)

        return export.sarif(comparison.results, comparison.sentences, _version(), place)

    return {
        Format.MARKDOWN: lambda: export.markdown(comparison.document()),
        Format.JSON: as_json,
        Format.JUNIT: as_junit,
        Format.HTML: lambda: export.html_page(comparison.document()),
        Format.SARIF: as_sarif,
    }


def _place(gate: Gate, settings: Configuration, candidate: Path) -> tuple[str, int]:
    """Return file and line to show a gate at: where it is written, else the candidate."""
    from tilescope.configuration import line_of

    is_in_file = bool(gate.origin) and settings.path is not None
    path = settings.path if is_in_file and settings.path is not None else candidate
    line = line_of(path, gate.text) if is_in_file else 1
    try:
        relative = path.resolve().relative_to(Path.cwd())
    except ValueError:
        relative = Path(path.name)
    return quote(relative.as_posix()), line


def _tell_github(comparison: _Found, files: Sequence[tuple[Format, Path]]) -> None:
    """Print annotations, and append the difference to the step summary if there is one."""
    from tilescope.analyser.export import MOST_SUMMARY_BYTES, step_summary, workflow_commands

    for line in workflow_commands(comparison.results, comparison.notes):
        print_line(line)
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        path = Path(summary)
        held = path.stat().st_size if path.is_file() else 0
        text = step_summary(comparison.document(), MOST_SUMMARY_BYTES - held, _complete(files))
        _write(path, text, "a")


def _complete(files: Sequence[tuple[Format, Path]]) -> str:
    """Return where a reader of a step summary finds the whole comparison, as Markdown."""
    address = "{GITHUB_SERVER_URL}/{GITHUB_REPOSITORY}/actions/runs/{GITHUB_RUN_ID}"
    try:
        run = f"[this run]({address.format_map(os.environ)})"
    except KeyError:
        run = "this run"
    path = next((path for form, path in files if form in {Format.HTML, Format.MARKDOWN}), None)
    if path is None:
        return f"Write it to a file with `--write html=FILE`, and upload that with {run}."
    name = path.as_posix().replace("`", "'")
    return f"The whole comparison is in `{name}`; it is an artifact of {run} if the job uploads it."


def _write(path: Path, text: str, mode: str) -> None:
    """Write or append a text; a file that cannot be written is invalid usage."""
    try:
        with path.open(mode, encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise typer.BadParameter(f"cannot write {path}: {error.strerror}") from None


def _version() -> str:
    """Return the version of TileScope; 0 in a checkout that is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("tilescope")
    except PackageNotFoundError:
        return "0"


def _exit(comparison: _Found) -> None:
    """Exit with the code that the gates ask for."""
    statuses = {result.status for result in comparison.results}
    if "failed" in statuses:
        raise typer.Exit(EXIT_GATE_FAILED)
    if "missing" in statuses:
        raise typer.Exit(EXIT_METRIC_MISSING)


def _print(document: DiffDocument) -> None:
    """Print sentences, then tables of the changes, then gates."""
    print_line(f"Baseline  {document.baseline}")
    print_line(f"Candidate {document.candidate}")
    print_line()
    for sentence in document.sentences:
        print_line(sentence)
    for table in document.tables:
        print_line()
        columns = [Column(column.title, column.is_number) for column in table.columns]
        print_table(columns, table.rows)
        if table.n_omitted:
            print_line(f"… {table.n_omitted:,} more; --top N shows more, --format json all")
    if document.gates or document.notes:
        print_line()
    for status, text in document.gates:
        print_line(f"{status}: {text}")
    for note in document.notes:
        print_line(f"note: {note}")
