"""How a page's callback answers: in a worker thread, and with a sentence when it cannot."""

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

    Dash runs plain functions on the server's event loop; here they run in a thread, so that one
    slow question delays no other. The function returns a tuple with a value per output; content
    that only shows is sent as data. It is first called when an input changes, for before the view
    is read from the address there is nothing to ask.
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
                    _log.exception("a page could not be answered")
                return (error_panel(failure), *(no_update for _ in outputs))
            shown = (
                frozen(value) if output.component_property == "children" else value
                for output, value in zip(outputs, values, strict=True)
            )
            return ([], *shown)

        app.callback(Output(error_slot, "children"), *outputs, *inputs, prevent_initial_call=True)(
            respond
        )
        return function

    return register
