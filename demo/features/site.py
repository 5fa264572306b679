"""What a feature needs to know about the host it adds nodes to."""

from dataclasses import dataclass

from demo.node import Link, Node


@dataclass(frozen=True, slots=True)
class Site:
    """A host under construction. `pages` are URLs of its ordinary pages, the home page first."""

    number: int
    host: str
    seed: int
    pages: tuple[str, ...]
    elsewhere: str

    def links(self, *more: Link) -> tuple[Link, ...]:
        """Return the links of an ordinary special page: the first pages of its host, and more."""
        return tuple(Link(url) for url in self.pages[:20]) + more

    def page(self, path: str, **fields: object) -> Node:
        """Return a node of this host that has its own article and ordinary links."""
        values: dict[str, object] = {
            "links": self.links(),
            "text": f"{self.seed}:{self.host}{path}",
            **fields,
        }
        return Node(self.host, path, **values)  # type: ignore[arg-type]

    def url(self, path: str) -> str:
        """Return the URL of a path on this host."""
        return f"http://{self.host}{path}"
