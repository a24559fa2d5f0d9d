"""``tilescope recover``: take the sound runs out of a damaged or unfinished report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tilescope.console import print_json, print_line
from tilescope.parameters import AsJson, examples

__all__ = ["register"]

#: Names of lost runs that are listed.
_MOST_NAMES = 10


def register(app: typer.Typer) -> None:
    """Add the command ``recover``."""

    @app.command(
        epilog=examples(
            "recover report/profile_1a2b3c4d.pop",
            "recover broken.pop --output rescued",
        )
    )
    def recover(
        file: Annotated[
            Path, typer.Argument(help="A damaged or unfinished report.", show_default=False)
        ],
        output: Annotated[
            Path | None,
            typer.Option(
                help="Directory of the new report; default: 'recovered' beside the file.",
                show_default=False,
            ),
        ] = None,
        as_json: AsJson = False,
    ) -> None:
        """Take the sound runs out of a damaged or unfinished report, into a new one.

        The file stays as it is. The new report has the state 'ended early', so that gates refuse
        it. The compilation has to be sound.
        """
        from tilescope.reports.recover import recover_report

        directory = output or file.parent / "recovered"
        if directory.resolve() == file.parent.resolve():
            raise typer.BadParameter(
                "--output is the directory of the report itself; choose another one"
            )
        recovery = recover_report(file, directory)
        if as_json:
            print_json(
                {
                    "path": str(file),
                    "recovered_path": str(recovery.path),
                    "n_runs": recovery.n_runs,
                    "lost_runs": list(recovery.lost),
                }
            )
            return
        print_line(f"Recovered runs: {recovery.n_runs:,}")
        if recovery.lost:
            names = ", ".join(recovery.lost[:_MOST_NAMES])
            remainder = f" and {len(recovery.lost) - _MOST_NAMES:,} more"
            print_line(f"Lost runs: {names}{remainder if len(recovery.lost) > _MOST_NAMES else ''}")
        print_line(f"Report: {recovery.path}", is_whole=True)
