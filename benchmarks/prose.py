"""Real prose for benchmarks: the documentation of what is installed here, paragraph by paragraph.

It is read in a fixed order, and a paragraph that several documents have is taken once. So on one
machine it is always the same.
"""

from __future__ import annotations

import ast
import re
import sysconfig
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

_EMPTY_LINE = re.compile(r"\n\s*\n")
_WORD = re.compile(r"\w+")
# Documents that repeat what others say.
_LEGAL = re.compile(
    r"licen[cs]e|copying|notice|authors|record|entry_points|top_level", re.IGNORECASE
)
_TEXTS = frozenset({".md", ".rst", ".txt"})
_WORDS, _WORDS_MAX = 12, 250
# Letters and blanks, of all characters: the rest are tables, code and lists of names.
_PLAIN = 0.9
_FILE_CHARS = 2_000_000


def paragraphs(count: int) -> list[list[str]]:
    """Return at least so many paragraphs, those of a document in their order; fewer if there are.

    The texts of packages come first, then docstrings.
    """
    found: list[list[str]] = []
    seen: set[str] = set()
    left = count
    for document in _documents():
        kept = []
        for piece in _EMPTY_LINE.split(document):
            paragraph = " ".join(piece.split())
            words = _WORD.findall(paragraph.lower())
            key = " ".join(words)
            if _WORDS <= len(words) <= _WORDS_MAX and key not in seen and _is_prose(paragraph):
                seen.add(key)
                kept.append(paragraph)
        if kept:
            found.append(kept)
            left -= len(kept)
            if left <= 0:
                break
    return found


def _is_prose(paragraph: str) -> bool:
    plain = sum(char.isalpha() or char == " " for char in paragraph)
    return plain >= _PLAIN * len(paragraph)


def _documents() -> Iterator[str]:
    packages, library = (Path(sysconfig.get_path(name)) for name in ("purelib", "stdlib"))
    folders = sorted({packages, library})
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.suffix in _TEXTS and not _LEGAL.search(str(path.relative_to(folder))):
                yield _text(path)
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            if "test" not in str(path.relative_to(folder)):
                yield from _docstrings(_text(path))


def _docstrings(source: str) -> Iterator[str]:
    """Return the texts of a module as one document, so that articles are about one thing."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    texts = [ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, kinds)]
    yield "\n\n".join(cleandoc(text) for text in texts if text)


def _text(path: Path) -> str:
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.read(_FILE_CHARS)
