"""The zoo of hostile documents, spread over four hosts."""

from collections.abc import Iterator
from typing import Final

from demo.features.site import Site
from demo.hostile_files import ZOO, Hostile
from demo.node import Behaviour, Node

# Every so many of the hosts that have features have all files together: the last one those that
# take long to read, the others a share of the quick ones.
_SHARES: Final = 4


def path_of(file: Hostile) -> str:
    """Return the path of a file. It shows no ending, by which crawlers would skip it."""
    return f"/documents/{file.name.replace('.', '-')}"


def documents(site: Site) -> Iterator[Node]:
    """A share of the files, with their right types."""
    share = site.number // 4 % _SHARES
    quick = [file for file in ZOO if not file.is_slow]
    slow = [file for file in ZOO if file.is_slow]
    for file in slow if share == _SHARES - 1 else quick[share :: _SHARES - 1]:
        yield Node(
            site.host,
            path_of(file),
            Behaviour.FILE,
            body=file.make(),
            content_type=file.media_type,
        )
