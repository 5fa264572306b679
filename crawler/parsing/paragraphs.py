"""The text of a document, collected paragraph by paragraph up to a limit. Pure."""

import re
from collections.abc import Iterable, Sequence

from crawler.parsing.document import Document

MAX_HEADINGS, MAX_HEADING_CHARS = 500, 500
_LEVELS = 6
# What would be markup inside a line of Markdown.
_INLINE = re.compile(r"([\\`*_\[\]<])")
_CELL = re.compile(r"([\\`*_\[\]<|])")
# The same of two characters or more: entities, strikethrough.
_LONGER = re.compile(r"(&(?=#?\w+;)|~(?=~))")
# Lines without any, which are most.
_PLAIN = re.compile(r"[^\\`*_\[\]<&#>=~+\-\d][^\\`*_\[\]<&~]*")
# What would be markup at its beginning: headings, quotes, lists, rules.
_AT_START = re.compile(r"^(?:([#>=~]|[+-](?=[\s-]|$))|(\d{1,9})([.)])(?=\s|$))")


class Paragraphs:
    """Paragraphs, headings, list items and rows of tables, in the order of the document."""

    def __init__(self, max_chars: int) -> None:
        self._left = max_chars
        self._texts: list[str] = []
        # Blocks, each with the line break or the empty line before it.
        self._markdown: list[str] = []
        self._headings: list[str] = []
        self._is_table = False

    @property
    def is_full(self) -> bool:
        """Whether text was left out: the rest of the document need not be read."""
        return self._left < 0

    def add(self, text: str, *, level: int = 0, mark: str = "") -> None:
        """Add a paragraph. `level`: of a heading, from 1 on. `mark`: of a list item, "- "."""
        text = self._taken(text)
        if not text:
            return
        self._is_table = False
        self._texts.append(text)
        if level > 0:
            heading = heading_of(text, level)
            self._markdown.append(f"\n\n{heading}")
            if len(self._headings) < MAX_HEADINGS:
                self._headings.append(heading)
        else:
            self._markdown.append(f"\n\n{mark}{markdown_of(text)}")

    def add_lines(self, lines: Iterable[str]) -> None:
        """Add a paragraph that keeps its lines."""
        kept = [text for text in map(self._taken, lines) if text]
        self._texts += kept
        if kept:
            self._is_table = False
            self._markdown.append("\n\n" + "\n".join(map(markdown_of, kept)))

    def add_row(self, cells: Sequence[str]) -> None:
        """Add a row of a table; the first one is its head."""
        cells = [self._taken(cell) for cell in cells]
        if not any(cells):
            return
        self._texts.append(" ".join(filter(None, cells)))
        line = "| " + " | ".join(_escaped(cell, _CELL) for cell in cells) + " |"
        if self._is_table:
            self._markdown.append(f"\n{line}")
        else:
            self._markdown.append(f"\n\n{line}\n|{' --- |' * len(cells)}")
        self._is_table = True

    def end_table(self) -> None:
        """End a table: the next row is the head of another."""
        self._is_table = False

    def fill(self, document: Document) -> None:
        """Give a document this text."""
        document.text = " ".join(self._texts)
        document.main_text = "\n".join(self._texts)
        document.markdown = "".join(self._markdown).lstrip("\n")
        document.headings = self._headings
        if self.is_full:
            document.cut = document.cut or "text"

    def _taken(self, text: str) -> str:
        """Return a text with single blanks as far as there is room for it."""
        text = " ".join(text.split())
        room = self._left
        self._left -= len(text) + 1
        return text[: max(0, room)]


def heading_of(text: str, level: int) -> str:
    """Return a heading as a line of Markdown."""
    line = escaped_end(markdown_of(text[:MAX_HEADING_CHARS]))
    return f"{'#' * min(level, _LEVELS)} {line}"


def markdown_of(line: str) -> str:
    """Return a line of text as Markdown that shows the same."""
    return line if _PLAIN.fullmatch(line) else escaped_start(escaped(line))


def escaped(text: str) -> str:
    """Escape what would be markup inside a line of Markdown."""
    return _escaped(text, _INLINE)


def _escaped(text: str, marks: re.Pattern[str]) -> str:
    text = marks.sub(r"\\\1", text)
    # Seldom; looking for them in every text would take longer than the rest.
    return _LONGER.sub(r"\\\1", text) if "&" in text or "~~" in text else text


def escaped_end(heading: str) -> str:
    """Escape what would be markup at the end of a heading."""
    return f"{heading[:-1]}\\#" if heading.endswith("#") else heading


def escaped_start(line: str) -> str:
    """Escape what would be markup at the beginning of a line."""
    return _AT_START.sub(_escaped_start, line)


def _escaped_start(found: re.Match[str]) -> str:
    return f"\\{found[1]}" if found[1] else f"{found[2]}\\{found[3]}"
