"""Pages with the same or nearly the same content at different URLs.

All copies link to exactly the same absolute URLs, so it does not matter for what must be fetched
which copy a crawl sees first, nor whether it follows the links of a duplicate.
"""

from collections.abc import Iterator
from dataclasses import replace

from demo.features.site import Site
from demo.frames import KINDS
from demo.node import Node

# Long articles, so that a changed word moves few SimHash bits.
NEAR_PARAGRAPHS = 60
# Frames with more notices than the articles in them have text.
_HEAVY = 10
_FRAMED_PARAGRAPHS = 3


def exact_duplicates(site: Site) -> Iterator[Node]:
    """Two articles with three copies each on this host; `mirrored` puts one more elsewhere."""
    for letter in "ab":
        for copy in (1, 2, 3):
            name = f"exact:{site.seed}:{site.number}:{letter}"
            yield site.page(f"/copy/{letter}-{copy}", text=name, exact_group=name)


def mirrored(site: Site, other_host: str) -> Iterator[Node]:
    """The first copy of each exact duplicate again, byte for byte, on another host."""
    for node in exact_duplicates(site):
        if node.path.endswith("-1"):
            yield replace(node, host=other_host, path=f"/mirror{node.path}")


def near_duplicates(site: Site) -> Iterator[Node]:
    """Two articles in five versions each, and four others that only their frame makes alike.

    As written, two with a changed word, one in other elements, one among the notices of a site.
    """
    for letter in "ab":
        for variant in range(5):
            name = f"near:{site.seed}:{site.number}:{letter}"
            yield site.page(
                f"/version/{letter}-{variant}",
                text=name,
                variant=variant,
                paragraphs=NEAR_PARAGRAPHS,
                near_group=name,
                frame=f"semantic:{site.host}:{_HEAVY}" if variant == 4 else "",
            )
    for number, kind in enumerate(KINDS * 2):
        yield site.page(
            f"/framed/{number}",
            paragraphs=_FRAMED_PARAGRAPHS,
            frame=f"{kind}:{site.host}:{_HEAVY}",
        )


def canonicals(site: Site) -> Iterator[Node]:
    """Articles with a print view and a paged view that name the article as canonical."""
    for number in range(3):
        article = f"/article/{number}"
        name = f"canonical:{site.seed}:{site.number}:{number}"
        for path in (article, f"{article}?view=print", f"{article}?page=1"):
            yield site.page(path, text=name, canonical=site.url(article), exact_group=name)
