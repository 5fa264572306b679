"""Which blocks of text belong to the frame of a host's pages: those that many of them have. Pure.

Learnt from pages that are no duplicates: copies of an article must not make it a frame. The memory
is this process's own and bounded; what the first pages of a host have in common is not known yet.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress

# Hosts remembered; with the blocks of each, 25 MB at most.
_HOSTS_KEPT = 1_000
_BLOCKS_KEPT = 256
# Blocks of a page that are learnt, half from its beginning and half from its end.
_BLOCKS_LEARNT = 128
# Shorter texts may stand in any sentence.
_MIN_WORDS = 5
# A block belongs to the frame if so many pages have it, and one in so many.
_PAGES = 3
_ONE_IN = 4
# Pages after which all counts are halved, so that a host may change its frame.
_HALVED_AFTER = 64


class Boilerplate:
    """The frames of the hosts that were seen last."""

    def __init__(self) -> None:
        self._hosts: OrderedDict[str, _Frame] = OrderedDict()

    def without(self, host: str, blocks: Sequence[str]) -> Sequence[str]:
        """The blocks of a page that are its own."""
        frame = self._hosts.get(host)
        if frame is None or frame.pages < _PAGES:
            return blocks
        with suppress(KeyError):
            # Forgotten meanwhile: long texts are looked at in threads.
            self._hosts.move_to_end(host)
        counts, least = frame.counts, max(_PAGES, frame.pages / _ONE_IN)
        return [block for block in blocks if counts.get(hash(block), 0) < least]

    def learn(self, host: str, blocks: Sequence[str]) -> None:
        """A page with these blocks is no duplicate."""
        frame = self._hosts.get(host)
        if frame is None:
            frame = self._hosts[host] = _Frame()
            if len(self._hosts) > _HOSTS_KEPT:
                self._hosts.popitem(last=False)
        frame.learn(blocks)


class _Frame:
    """How many of a host's pages have a block; by the hash of its text."""

    __slots__ = ("counts", "pages")

    def __init__(self) -> None:
        self.pages = 0
        self.counts: dict[int, int] = {}

    def learn(self, blocks: Sequence[str]) -> None:
        if len(blocks) > _BLOCKS_LEARNT:
            half = _BLOCKS_LEARNT // 2
            blocks = [*blocks[:half], *blocks[-half:]]
        counts = self.counts
        for hashed in {hash(block) for block in blocks if _has_words(block)}:
            counts[hashed] = counts.get(hashed, 0) + 1
        self.pages += 1
        if self.pages >= _HALVED_AFTER:
            self.pages //= 2
            self.counts = {hashed: count // 2 for hashed, count in counts.items() if count > 1}
        if len(self.counts) > _BLOCKS_KEPT:
            # Those that most pages have, of equal ones the newest.
            order = sorted(self.counts.items(), key=lambda item: item[1])
            self.counts = dict(order[-_BLOCKS_LEARNT:])


def _has_words(block: str) -> bool:
    """Has it so many words? Counting the blanks of a long text would take ten times as long."""
    return len(block.split(" ", _MIN_WORDS - 1)) == _MIN_WORDS
