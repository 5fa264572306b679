"""Measure the shape of real pages: `python -m benchmarks.crawl.shape DIR`.

Prints the means of pages of about the same size. The generator of the ground `web` has them as its
table (`markup.py`), and tests hold its pages against it.
"""

from __future__ import annotations

import gzip
import statistics
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from selectolax.lexbor import LexborHTMLParser, LexborNode

from benchmarks.command import Parser
from crawler.errors import CrawlerError

_KB = 1024
# Where one group of sizes ends and the next begins.
_GROUPS_KB = (0, 60, 90, 130, 180, 250, 10_000)


def read_pages(folder: Path) -> Iterator[bytes]:
    """Read the files of a folder, below it too, that end with .html or .html.gz, by name."""
    found = False
    for path in sorted(folder.rglob("*.html*")):
        if path.name.endswith((".html", ".html.gz")):
            found = True
            content = path.read_bytes()
            yield gzip.decompress(content) if path.suffix == ".gz" else content
    if not found:
        raise CrawlerError(f"{folder} has no files that end with .html or .html.gz.")


def measure(html: bytes) -> dict[str, float]:
    """Return how much of what a page has."""
    root = LexborHTMLParser(html).root
    assert root is not None
    found = dict.fromkeys(("tags", "attributes", "links", "scripts"), 0.0)
    in_bytes = {"attribute_kb": 0, "text_kb": 0, "script_kb": 0, "style_kb": 0}
    targets, depths = set(), []
    for node, depth in _nodes(root):
        if node.tag == "-text":
            around = node.parent.tag if node.parent is not None else ""
            kind = {"script": "script_kb", "style": "style_kb"}.get(around or "", "text_kb")
            text = node.text_content or ""
            in_bytes[kind] += len(text.encode()) if text.strip() else 0
        elif node.is_element_node:
            depths.append(depth)
            attributes = node.attributes
            found["attributes"] += len(attributes)
            for name, value in attributes.items():
                in_bytes["attribute_kb"] += len(f' {name}="{value or ""}"'.encode())
            found["scripts"] += node.tag == "script"
            if node.tag == "a" and attributes.get("href"):
                found["links"] += 1
                targets.add(attributes["href"])
    found["tags"] = len(depths)
    return {
        "kb": len(html) / _KB,
        **found,
        "distinct_links": len(targets),
        **{name: size / _KB for name, size in in_bytes.items()},
        "depth": statistics.mean(depths),
        "deepest": max(depths),
    }


def _nodes(root: LexborNode) -> Iterator[tuple[LexborNode, int]]:
    waiting = [(root, 1)]
    while waiting:
        node, depth = waiting.pop()
        yield node, depth
        waiting.extend((child, depth + 1) for child in node.iter(include_text=True))


def table(pages: list[dict[str, float]]) -> Iterator[str]:
    """Return the means of each group of sizes."""
    names = list(pages[0])
    yield "  ".join(["pages", *(name.rjust(8) for name in names)])
    for low, high in pairwise(_GROUPS_KB):
        group = [page for page in pages if low <= page["kb"] < high]
        if group:
            means = [statistics.mean(page[name] for page in group) for name in names]
            cells = [
                f"{mean:.1f}".rjust(max(8, len(name)))
                for name, mean in zip(names, means, strict=True)
            ]
            yield "  ".join([str(len(group)).rjust(5), *cells])


def main() -> int:
    """Print the table of a folder."""
    reader = Parser(prog="benchmarks.crawl.shape", description=__doc__)
    reader.add_argument("folder", type=Path, metavar="DIR")
    try:
        pages = [measure(html) for html in read_pages(reader.parse_args().folder)]
    except CrawlerError as error:
        reader.error(str(error))
    print("\n".join(table(pages)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
