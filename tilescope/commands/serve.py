"""``tilescope serve``: serve reports to a browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilescope.parameters import examples

if TYPE_CHECKING:
    from tilescope.webapp.help import Fidelity

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command ``serve``."""

    @app.command(
        epilog=examples(
            "serve",
            "serve report --port 0",
            "serve reports/ --host 0.0.0.0 --allow-host lab.example.org",
        )
    )
    def serve(
        paths: Annotated[
            list[Path] | None,
            typer.Argument(
                help="Reports or directories of reports; default ./report, else this directory.",
                show_default=False,
            ),
        ] = None,
        port: Annotated[
            int, typer.Option(min=0, max=65535, help="Port; 0 selects a free one.")
        ] = 8050,
        host: Annotated[
            str, typer.Option(help="Address to listen on; a non-loopback address causes a warning.")
        ] = "127.0.0.1",
        allow_host: Annotated[
            list[str] | None,
            typer.Option(
                help="Additional host name accepted from browsers; repeatable.",
                show_default=False,
            ),
        ] = None,
        new_token: Annotated[
            bool,
            typer.Option("--new-token", help="Make a new token; links with the earlier one end."),
        ] = False,
    ) -> None:
        """Serve reports to a browser on this computer; the printed link holds a token."""
        # The web app is slow to import and optional: import it here only.
        from tilescope.corpus_trust import packaged_trust
        from tilescope.webapp.serve import Address, serve_reports

        serve_reports(
            paths or [],
            address=Address(host, port, allow_host or []),
            fidelity=_fidelity(),
            trust=packaged_trust(),
            new_token=new_token,
        )


def _fidelity() -> Fidelity:
    """Return the fidelity table for the pages, which must not import the engine."""
    from tilescope.engine.fidelity import packaged_corpus, packaged_rows
    from tilescope.engine.fidelity.corpus_text import KIND_COLUMNS
    from tilescope.engine.fidelity.statement import COLUMNS, statement
    from tilescope.webapp.help import Fidelity

    text = statement(packaged_rows(), packaged_corpus())
    return Fidelity(columns=COLUMNS, corpus_columns=KIND_COLUMNS, **vars(text))
