"""``tilescope serve``: show reports in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tilescope.webapp.help import Fidelity

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command ``serve``."""

    @app.command()
    def serve(
        paths: Annotated[
            list[Path] | None,
            typer.Argument(
                help="Reports or directories that hold some; ./report, else this directory.",
                show_default=False,
            ),
        ] = None,
        port: Annotated[
            int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")
        ] = 8050,
        host: Annotated[
            str, typer.Option(help="Address to listen on; others than this machine's own warn.")
        ] = "127.0.0.1",
        allow_host: Annotated[
            list[str] | None,
            typer.Option(
                help="A further host name under which browsers may ask; repeat for several.",
                show_default=False,
            ),
        ] = None,
    ) -> None:
        """Show reports in the browser, on this machine, behind a link with a token."""
        # The web app is heavy and may not be installed: load it only here.
        from tilescope.webapp.serve import serve_reports

        serve_reports(
            paths or [], host=host, port=port, allow_hosts=allow_host or [], fidelity=_fidelity()
        )


def _fidelity() -> Fidelity:
    """Return how far to trust the numbers: the pages may not ask the simulator themselves."""
    from tilescope.engine.fidelity import packaged_rows
    from tilescope.engine.fidelity.statement import COLUMNS, statement
    from tilescope.webapp.help import Fidelity

    return Fidelity(columns=COLUMNS, **vars(statement(packaged_rows())))
