"""The project's documentation as pages of the server, with a search over all of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

__all__ = ["Document", "Documentation", "Finding"]

_PACKAGE = Path(__file__).resolve().parent
#: In an installation beside this file, in a checkout beside the package.
_FOLDERS = (_PACKAGE / "docs", _PACKAGE.parent / "docs")
#: Images that pages show, by their ending.
_IMAGES = {".png": "image/png", ".svg": "image/svg+xml"}
_SNIPPET_CHARACTERS = 90
_INDEX = "index.md"


@dataclass(frozen=True)
class Document:
    """A page: its title and its body as HTML."""

    title: str
    body: str


@dataclass(frozen=True)
class Finding:
    """A section that holds all words of a search, with the text around the first."""

    path: str
    anchor: str
    title: str
    section: str
    snippet: str


@dataclass(frozen=True)
class _Section:
    path: str
    title: str
    anchor: str
    heading: str
    text: str


class Documentation:
    """The Markdown files of a folder, read on first use.

    Parameters
    ----------
    folder : Path or None
        The folder; None for that of this installation.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or next(
            (folder_ for folder_ in _FOLDERS if folder_.is_dir()), _FOLDERS[0]
        )

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """Paths of all pages below the folder, the index first."""
        pages = [file.relative_to(self._folder).as_posix() for file in self._folder.rglob("*.md")]
        return tuple(sorted(pages, key=lambda path: (path != _INDEX, path)))

    @cached_property
    def image_names(self) -> frozenset[str]:
        """Names of all files in the folder's ``images``."""
        return frozenset(file.name for file in (self._folder / "images").glob("*.*"))

    def page(self, path: str) -> Document | None:
        """Return a page, None if it does not exist; the empty path is the index."""
        path = path or _INDEX
        if path not in self.paths:
            return None
        tokens = _parser().parse(self._text(path))
        title = _anchor_headings(tokens)
        _wrap_tables(tokens)
        return Document(title or path, _parser().renderer.render(tokens, _parser().options, {}))

    def image(self, path: str) -> tuple[bytes, str] | None:
        """Return an image and its media type, None if the folder has no such image."""
        kind = _IMAGES.get(Path(path).suffix)
        if kind is None or path not in self.image_names:
            return None
        return (self._folder / "images" / path).read_bytes(), kind

    def search(self, text: str, limit: int = 40) -> tuple[Finding, ...]:
        """Return the first sections that hold all words of a text, whatever their case."""
        words = text.lower().split()
        if not words:
            return ()
        findings = []
        for section in self._sections:
            lowered = f"{section.heading} {section.text}".lower()
            if all(word in lowered for word in words):
                findings.append(
                    (lowered.count(words[0]) + 20 * (words[0] in section.heading.lower()), section)
                )
        findings.sort(key=lambda finding: -finding[0])
        return tuple(
            Finding(
                finding.path,
                finding.anchor,
                finding.title,
                finding.heading,
                _snippet(finding.text, words[0]),
            )
            for _, finding in findings[:limit]
        )

    def _text(self, path: str) -> str:
        return (self._folder / path).read_text(encoding="utf-8")

    @cached_property
    def _sections(self) -> tuple[_Section, ...]:
        """All pages cut at their headings."""
        sections = []
        for path in self.paths:
            title = ""
            n_seen: dict[str, int] = {}
            for heading, text in _cut(self._text(path)):
                title = title or heading
                sections.append(_Section(path, title, _slug(heading, n_seen), heading, text))
        return tuple(sections)


def _parser() -> MarkdownIt:
    """Return the parser; pages hold no HTML of their own."""
    return MarkdownIt("commonmark", {"html": False}).enable("table")


def _cut(text: str) -> list[tuple[str, str]]:
    """Return headings and the texts below them; headings inside code are text."""
    parts: list[tuple[str, list[str]]] = []
    is_code = False
    for line in text.splitlines():
        is_code ^= line.startswith("```")
        heading = None if is_code else re.match(r"#{1,4} +(.+)", line)
        if heading:
            parts.append((_plain(heading[1]), []))
        elif parts:
            parts[-1][1].append(line)
    return [(heading, _plain(" ".join(lines))) for heading, lines in parts]


def _plain(text: str) -> str:
    """Return a text without the marks of links and code."""
    text = re.sub(r"<!--.*?-->", "", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"\s+", " ", re.sub(r"[`|*]|-{3,}:?", " ", text)).strip()


def _snippet(text: str, word: str) -> str:
    """Return the text around the first occurrence of a word."""
    offset = max(text.lower().find(word) - _SNIPPET_CHARACTERS // 2, 0)
    part = text[offset : offset + 2 * _SNIPPET_CHARACTERS]
    return ("… " if offset else "") + part + (" …" if offset + len(part) < len(text) else "")


def _slug(heading: str, n_seen: dict[str, int]) -> str:
    """Return the anchor of a heading, as code hosts make it."""
    slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
    n_seen[slug] = n_seen.get(slug, 0) + 1
    return slug if n_seen[slug] == 1 else f"{slug}-{n_seen[slug] - 1}"


def _anchor_headings(tokens: list[Token]) -> str:
    """Give headings their anchors; returns the text of the first."""
    title = ""
    n_seen: dict[str, int] = {}
    for index, token in enumerate(tokens):
        if token.type == "heading_open":
            text = _plain(tokens[index + 1].content)
            title = title or text
            token.attrSet("id", _slug(text, n_seen))
    return title


def _wrap_tables(tokens: list[Token]) -> None:
    """Let wide tables scroll by themselves."""
    for token in tokens:
        if token.type == "table_open":
            token.attrSet("class", "facts")
