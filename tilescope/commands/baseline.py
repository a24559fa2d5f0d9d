"""``tilescope baseline``: store reports to compare against, and get them back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from tilescope.console import Column, print_json, print_line, print_table, progress, reading
from tilescope.parameters import AsJson, ConfigOption, ReportPath, examples

if TYPE_CHECKING:
    from tilescope.baselines import BaselineKey, BaselineStore

__all__ = ["register"]

DEFAULT_STORE = "baselines"

StoreOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="STORE",
        help="A directory, or git:BRANCH for a branch of this repository; default: that of"
        " tilescope.toml, else ./baselines.",
        show_default=False,
    ),
]
RemoteOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--remote",
        metavar="REMOTE",
        help="Git remote to fetch the branch from and push it to; by default it stays local.",
        show_default=False,
    ),
]
NameOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--name",
        help="Name to store it under; default: the path of the model in its repository.",
        show_default=False,
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command ``baseline``."""
    group = typer.Typer(
        no_args_is_help=True,
        help="Store reports to compare against, by model.",
    )
    app.add_typer(group, name="baseline")

    @group.command(epilog=examples("baseline save report --store git:tilescope-baselines"))
    def save(
        path: ReportPath,
        store: StoreOption = None,
        remote: RemoteOption = None,
        name: NameOption = None,
        config: ConfigOption = None,
    ) -> None:
        """Store a report as the baseline of its model."""
        where, (key, report) = _store(store, remote, config), _key(path, name, is_saved=True)
        with progress(f"Saving {key}"):
            where.save(key, report)
        print_line(f"Saved {key}")

    @group.command(epilog=examples("baseline get report && tilescope diff baseline report"))
    def get(
        path: ReportPath,
        output: Annotated[
            Path, typer.Option("--output", metavar="DIR", help="Directory for the baseline.")
        ] = Path("baseline"),
        allow_missing: Annotated[
            bool,
            typer.Option(
                "--allow-missing", help="Exit with 0 if nothing is stored: declares a first run."
            ),
        ] = False,
        store: StoreOption = None,
        remote: RemoteOption = None,
        name: NameOption = None,
        config: ConfigOption = None,
    ) -> None:
        """Get the baseline of the same model as a report; machine and options may differ."""
        from tilescope.baselines import BaselineMissing
        from tilescope.reports.schema import REPORT_NAME

        where, (key, _) = _store(store, remote, config), _key(path, name)
        try:
            with progress(f"Getting {key}"):
                where.get(key, output / REPORT_NAME)
        except BaselineMissing as error:
            if not allow_missing:
                raise
            text = str(error)
            print_line(f"{text[:1].upper()}{text[1:]}.")
        else:
            print_line(f"Baseline {key}: {output / REPORT_NAME}")

    @group.command("list", epilog=examples("baseline list --store git:tilescope-baselines"))
    def list_baselines(
        as_json: AsJson = False,
        store: StoreOption = None,
        remote: RemoteOption = None,
        config: ConfigOption = None,
    ) -> None:
        """List the stored baselines."""
        from tilescope.analyser.quantities import format_bytes

        sizes = _store(store, remote, config).sizes()
        if as_json:
            rows = [{"model": key.model, "bytes": size} for key, size in sizes.items()]
            print_json({"baselines": rows})
            return
        columns = [Column("Model"), Column("Size", True)]
        print_table(columns, [(key.model, format_bytes(size)) for key, size in sizes.items()])


def _store(text: str | None, remote: str | None, config: Path | None) -> BaselineStore:
    """Return the store of the command line, else of the configuration, else the default one."""
    from tilescope.baselines import open_store
    from tilescope.configuration import read

    settings = read(config)
    if text is not None:
        return open_store(text, remote)
    if remote is not None:
        return open_store(settings.store or DEFAULT_STORE, remote)
    return open_store(settings.store or DEFAULT_STORE, settings.remote, is_from_file=True)


def _key(path: Path, name: str | None, *, is_saved: bool = False) -> tuple[BaselineKey, Path]:
    """Return the key and the file of a report; one that is saved must be complete."""
    from tilescope.baselines import key_of
    from tilescope.reports import require_complete

    with reading(path) as report:
        if is_saved:
            require_complete(report)
        return key_of(report, name), Path(report.path)
