"""Find all elements of a page that are read, in one walk: a search for each kind takes longer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from selectolax.lexbor import LexborHTMLParser, LexborNode, create_tag

# By their names, each in page order; none of a name is an empty list.
Elements = defaultdict[str, list[LexborNode]]


class Finder:
    """Finds the elements of certain names, all of them HTML's own."""

    def __init__(self, names: Iterable[str]) -> None:
        # The parser's number of each: to read a number is cheaper than a name.
        self._names = {create_tag(name).tag_id: name for name in names}

    def find(self, tree: LexborHTMLParser) -> Elements:
        """The elements of a page."""
        names = self._names
        found: Elements = defaultdict(list)
        root = tree.root
        if root is not None:
            for node in root.traverse():
                tag = node.tag_id
                if tag in names:
                    found[names[tag]].append(node)
        return found
