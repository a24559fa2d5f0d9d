"""The frame of every page as HTML from the server: header, menu, dialogs, and data for the scripts.

The frame stands before any script has run. Inside it, the home page and the documentation are HTML
too; the other pages are mounted by Dash on their first visit (:mod:`tilescope.webapp.slots`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from types import ModuleType
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.datastructures import QueryParams

from tilescope.analyser.quantities import bytes_style
from tilescope.analyser.shown_text import shown_lines
from tilescope.webapp.api.reports import MOST_REPORTS, listing
from tilescope.webapp.browser import asset_url
from tilescope.webapp.documentation import Document, Finding
from tilescope.webapp.library import Library

__all__ = ["Frame", "note_address"]

#: Scripts and styles of the frame; the home page loads no others.
_SCRIPTS = ("search.js", "shown_text.js", "stamps.js", "frame.js", "palette.js", "home.js")
_STYLES = ("app.css", "frame.css")

_chosen: ContextVar[tuple[str, ...]] = ContextVar("chosen", default=())


def note_address(query: bytes) -> None:
    """Note which reports the current request is about: the menus of its page list them.

    Parameters
    ----------
    query
        The query of its address.
    """
    parameters = QueryParams(query)
    _chosen.set(tuple(filter(None, map(parameters.get, ("report", "with")))))


class Frame:
    """Renders the frame around the home page and around the app.

    Parameters
    ----------
    library : Library
        The reports in the menus.
    pages : Sequence[ModuleType]
        The pages in the order of the menu.
    """

    def __init__(self, library: Library, pages: Sequence[ModuleType]) -> None:
        self._library = library
        self._pages = [
            {
                "name": page.PATH.strip("/"),
                "path": page.PATH,
                "title": page.TITLE,
                "icon": page.ICON,
            }
            for page in pages
        ]
        self._templates = Environment(
            loader=PackageLoader("tilescope.webapp"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            finalize=_shown,
        )
        self._templates.globals |= {"asset": asset_url, "icon": _icon, "button": _button}

    def home(self, **values: Any) -> str:
        """Return the home page; ``values`` are those of its template."""
        return self._plain("Reports", "/", self._filled("home.html", **values))

    def document(self, document: Document) -> str:
        """Return a page of the documentation."""
        content = self._filled("document.html", body=Markup(document.body))
        return self._plain(document.title, "/docs/", content)

    def documents(self, index: Document, text: str, findings: Sequence[Finding]) -> str:
        """Return the index of the documentation, or what a search in it found."""
        content = self._filled(
            "documents.html", body=Markup(index.body), text=text, findings=findings
        )
        return self._plain("Documentation", "/docs/", content)

    def missing(self) -> str:
        """Return the page that says that the documentation has no such page."""
        content = Markup(
            '<p class="empty-state">Page not found. <a class="page-link" href="/docs/">'
            "List of all pages</a></p>"
        )
        return self._plain("Page not found", "/docs/", content)

    def _filled(self, template: str, **values: Any) -> Markup:
        return Markup(self._templates.get_template(template).render(**values))

    def _plain(self, title: str, here: str, content: Markup) -> str:
        """Return a page that needs no Dash."""
        styles = Markup("\n").join(
            Markup('<link rel="stylesheet" href="{}">').format(asset_url(name)) for name in _STYLES
        )
        scripts = Markup("\n").join(
            Markup('<script src="{}" defer></script>').format(asset_url(name)) for name in _SCRIPTS
        )
        return self._render(content, here, f"{title} – TileScope", styles, scripts)

    def app(self, parts: Mapping[str, str]) -> str:
        """Return the document of the app.

        Parameters
        ----------
        parts
            What Dash adds to its index page: ``css``, ``app_entry``, ``config``, ``scripts`` and
            ``renderer``.
        """
        entry = Markup(parts["app_entry"])
        content = self._filled("app.html", entry=entry)
        scripts = Markup(parts["config"] + parts["scripts"] + parts["renderer"])
        return self._render(content, "", "TileScope", Markup(parts["css"]), scripts)

    def _render(
        self,
        content: Markup,
        here: str,
        title: str,
        styles: Markup,
        scripts: Markup,
    ) -> str:
        reports = [
            {key: _shown(value) for key, value in report.items()}
            for report in listing(self._library, _chosen.get())
        ]
        is_app = not here
        return self._templates.get_template("frame.html").render(
            content=content,
            is_app=is_app,
            here=here,
            title=title,
            styles=styles,
            scripts=scripts,
            pages=self._pages,
            reports=reports,
            data={
                "pages": self._pages,
                "reports": reports,
                "isCut": len(self._library.found()) > MOST_REPORTS,
                "isApp": is_app,
            },
            units=bytes_style(),
        )


def _shown(value: Any) -> Any:
    """Return what stands in a template: a text without characters that disguise others."""
    is_plain = isinstance(value, str) and not isinstance(value, Markup)
    return shown_lines(value) if is_plain else value


def _icon(name: str) -> Markup:
    """Return a decorative icon in the colour of the text."""
    url = escape(f"url(/assets/icons/{name}.svg)")
    style = f"mask-image: {url}; -webkit-mask-image: {url}"
    return Markup('<span class="icon" style="{}"></span>').format(Markup(style))


def _button(element_id: str, picture: str, label: str) -> Markup:
    """Return an icon button with a tooltip and an accessible name."""
    return Markup(
        '<button id="{}" type="button" class="icon-button" title="{}" aria-label="{}">{}</button>'
    ).format(element_id, label, label, _icon(picture))
