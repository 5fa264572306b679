"""Real pages for benchmarks, where they are. They are not part of the project.

CORPUS names the folder that has `articles/`; without it, `shared/data` beside the checkout is
tried, as by the tests.
"""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.crawl.shape import read_pages

_BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"


def article_pages() -> list[bytes]:
    """The HTML of all real pages; empty if there are none here."""
    folder = Path(os.environ.get("CORPUS", _BESIDE), "articles", "html")
    return [*read_pages(folder)] if any(folder.glob("*.html.gz")) else []
