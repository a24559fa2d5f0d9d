"""Page callbacks: run in a worker thread, with errors shown on the page."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Sequence
from typing import Any

from dash import Dash, Output, no_update
from dash.exceptions import PreventUpdate

from tilescope.webapp.components.markup import frozen
from tilescope.webapp.components.panels import error_panel
from tilescope.webapp.errors import describe_failure

__all__ = ["answer"]

_log = logging.getLogger(__name__)


def answer(
    app: Dash, error_slot: str, outputs: Sequence[Output], *inputs: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a callback whose errors appear in the component ``error_slot``.

    Dash runs plain functions on the server's event loop. This runs them in a thread, so that a
    slow request does not block others. The function returns a tuple with a value per output;
    static content is sent as data. There is no initial call: the view must be read from the
    URL first.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        async def respond(*arguments: Any) -> tuple[Any, ...]:
            try:
                values = await asyncio.to_thread(function, *arguments)
            except PreventUpdate:
                raise
            except Exception as error:
                status, failure = describe_failure(error)
                if status >= 500:
                    _log.exception("page callback failed")
                return (frozen(error_panel(failure)), *(no_update for _ in outputs))
            shown_content = (
                frozen(value) if output.component_property == "children" else value
                for output, value in zip(outputs, values, strict=True)
            )
            return ([], *shown_content)

        app.callback(Output(error_slot, "children"), *outputs, *inputs, prevent_initial_call=True)(
            respond
        )
        return function

    return register
