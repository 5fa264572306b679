"""Real pages and robots.txt files that corpus tests read. They are not part of the project.

CORPUS names the folder that has `robots.tar.gz` and `articles/`; without it, `shared/data` beside
the checkout is tried. Tests that find no corpus are skipped and say where they looked.
"""

import gzip
import json
import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

_BESIDE = Path(__file__).resolve().parents[3] / "shared" / "data"


def corpus_path(name: str) -> Path:
    """Return the path of a part of the corpus, or skip the test that asks for it."""
    path = Path(os.environ.get("CORPUS", _BESIDE)) / name
    if not path.exists():
        pytest.skip(f"there is no {path}; set CORPUS to the folder that has {name}")
    return path


def robots_files() -> list[tuple[str, bytes]]:
    """Return the site and the bytes of each robots.txt."""
    with tarfile.open(corpus_path("robots.tar.gz")) as tar:
        return [
            (member.name.removeprefix("./"), file.read())
            for member in tar
            if (file := tar.extractfile(member)) is not None
        ]


@dataclass(frozen=True)
class Article:
    """A real page, and the text of its article as a person marked it."""

    url: str
    body: bytes
    text: str


def articles() -> Iterator[Article]:
    """Yield the real pages."""
    folder = corpus_path("articles")
    truth = json.loads((folder / "ground-truth.json").read_text(encoding="utf-8"))
    for name, facts in sorted(truth.items()):
        body = gzip.decompress((folder / "html" / f"{name}.html.gz").read_bytes())
        yield Article(facts["url"], body, facts["articleBody"])
