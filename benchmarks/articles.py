"""Real pages for benchmarks, where they are. They are not part of the project.

CORPUS names the folder that has `articles/`; without it, `shared/data` beside the checkout is
tried, as by the tests.
"""

from __future__ import annotations

import gzip
import os
from pathlib import Path

_BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"


def article_pages() -> list[bytes]:
    """The HTML of all real pages; empty if there are none here."""
    folder = Path(os.environ.get("CORPUS", _BESIDE), "articles", "html")
    return [gzip.decompress(path.read_bytes()) for path in sorted(folder.glob("*.html.gz"))]
