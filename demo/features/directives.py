"""Pages that tell crawlers what not to do: meta robots and rel=nofollow."""

from collections.abc import Iterator

from demo.features.site import Site
from demo.node import Link, Node


def meta_robots(site: Site) -> Iterator[Node]:
    """One page per meta robots value; each links to a page that nothing else links to."""
    for value in ("noindex", "nofollow", "noindex, nofollow", "none", "index, follow"):
        name = value.replace(", ", "-")
        beyond = f"/beyond/{name}"
        links = site.links(Link(site.url(beyond)))
        yield site.page(f"/meta/{name}", meta_robots=value, links=links)
        yield site.page(beyond, linked="")


def nofollow_links(site: Site) -> Iterator[Node]:
    """Pages reached by rel=nofollow links only, and one that is reached by both kinds."""
    yield site.page("/sponsored/1", linked="nofollow")
    yield site.page("/sponsored/2", linked="nofollow")
    yield site.page("/sponsored/both", linked="nofollow")
    links = site.links(
        Link(site.url("/sponsored/both")), Link(site.url("/sponsored/3"), nofollow=True)
    )
    yield site.page("/partners", links=links)
    yield site.page("/sponsored/3", linked="")
