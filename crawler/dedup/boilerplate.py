"""Find the blocks of text that many pages of a host share. Pure.

Only pages that are no duplicates are learnt: copies of an article must not make it boilerplate. The
memory belongs to this process and is bounded. The first pages of a host are compared with all of
their text.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress

# Hosts that are remembered; with their blocks they take 25 MB at most.
_HOSTS_KEPT = 1_000
_BLOCKS_KEPT = 256
# Blocks of a page that are learnt: half from its beginning, half from its end.
_BLOCKS_LEARNT = 128
# Shorter texts may be part of any sentence.
_MIN_WORDS = 5
# A block is boilerplate if at least three pages have it, and one page in four.
_PAGES = 3
_ONE_IN = 4
# Pages after which all counts are halved, so that a host may change its boilerplate.
_HALVED_AFTER = 64


class Boilerplate:
    """Blocks that pages share, for the hosts that were seen last."""

    def __init__(self) -> None:
        self._hosts: OrderedDict[str, _BlockCounts] = OrderedDict()

    def without(self, host: str, blocks: Sequence[str]) -> Sequence[str]:
        """Remove the boilerplate from the blocks of a page."""
        known = self._hosts.get(host)
        if known is None or known.pages < _PAGES:
            return blocks
        with suppress(KeyError):
            # Another thread may have removed the host: long texts are compared in threads.
            self._hosts.move_to_end(host)
        counts, least = known.counts, max(_PAGES, known.pages / _ONE_IN)
        return [block for block in blocks if counts.get(hash(block), 0) < least]

    def learn(self, host: str, blocks: Sequence[str]) -> None:
        """Learn the blocks of a page that is no duplicate."""
        known = self._hosts.get(host)
        if known is None:
            known = self._hosts[host] = _BlockCounts()
            if len(self._hosts) > _HOSTS_KEPT:
                self._hosts.popitem(last=False)
        known.learn(blocks)


class _BlockCounts:
    """Number of a host's pages that have a block, by the hash of its text."""

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
            # Keep the blocks that most pages have; of equal ones the newest.
            order = sorted(self.counts.items(), key=lambda item: item[1])
            self.counts = dict(order[-_BLOCKS_LEARNT:])


def _has_words(block: str) -> bool:
    """Whether a block has enough words. Counting all blanks would take ten times as long."""
    return len(block.split(" ", _MIN_WORDS - 1)) == _MIN_WORDS
