"""Real pages for benchmarks, where they are. They are not part of the project.

CORPUS names the folder that has `articles/`; without it, `shared/data` beside the checkout is
tried, as by the tests.
"""

from __future__ import annotations

import gzip
import json
import os
from dataclasses import dataclass
from pathlib import Path

from benchmarks.crawl.shape import read_pages

_BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"


@dataclass(frozen=True, slots=True)
class Article:
    """Real page with an article, and the article's text as a person took it from the page."""

    url: str
    html: bytes
    text: str


def article_pages() -> list[bytes]:
    """The HTML of all real pages; empty if there are none here."""
    folder = _folder() / "html"
    return [*read_pages(folder)] if any(folder.glob("*.html.gz")) else []


def articles() -> list[Article]:
    """All real pages with the texts of their articles; empty if there are none here."""
    folder = _folder()
    truth = folder / "ground-truth.json"
    if not truth.is_file():
        return []
    return [
        Article(
            url=known["url"],
            html=gzip.decompress((folder / "html" / f"{name}.html.gz").read_bytes()),
            text=known["articleBody"],
        )
        for name, known in sorted(json.loads(truth.read_text(encoding="utf-8")).items())
    ]


def _folder() -> Path:
    return Path(os.environ.get("CORPUS", _BESIDE), "articles")
