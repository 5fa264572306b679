"""Count URLs and links together with the other processes of a fleet, for the scores of URLs.

Of each host: how many of its URLs were found, and how many links from other domains lead to it. Of
each URL: how many other domains link to it. A page that many others link to may have been found
early, deep in a site: it goes to a better queue when its links reach the next step of points.

Every two seconds a process adds its counts to those in Redis, and reads the sums. After a lost
reply the counts are sent again, so two seconds may count twice.
"""

from __future__ import annotations

import asyncio
import logging
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice

from crawler.frontier import Frontier
from crawler.frontier.entry import PAGE_QUEUES
from crawler.servers.redis.errors import RedisAway
from crawler.util.recent import ENTRY_BYTES, RecentDict, text_bytes
from crawler.util.tasks import end

logger = logging.getLogger(__name__)

# Hosts, or URLs, with counts that Redis does not have yet: those of some seconds, or of an outage.
_UNSENT_MAX = 20_000

# --- hosts ----------------------------------------------------------------------------------------

# URLs found, and links from other domains.
Counts = tuple[int, int]
# Both in one number: a tuple of its own for each host would take twice the memory, and the garbage
# collector would visit it.
_BITS = 40
_MASK = (1 << _BITS) - 1


class HostTally:
    """Counts of the hosts that were counted last; other hosts have none."""

    def __init__(self, max_bytes: int, unsent_max: int = _UNSENT_MAX) -> None:
        self._known = RecentDict[str, int](max_bytes, text_bytes)
        self._unsent: dict[str, int] = {}
        self._unsent_max = unsent_max

    def counts(self, host: str) -> Counts:
        """Return the counts of a host."""
        counts = self._known.get(host, 0)
        return counts >> _BITS, counts & _MASK

    def add(self, host: str, urls: int = 0, inbound: int = 0) -> Counts:
        """Add to the counts of a host, and return them."""
        more, unsent = urls << _BITS | inbound, self._unsent
        counts = self._known[host] = self._known.get(host, 0) + more
        waiting = unsent.get(host)
        if waiting is not None:
            unsent[host] = waiting + more
        elif len(unsent) < self._unsent_max:
            unsent[host] = more
        return counts >> _BITS, counts & _MASK

    def take_unsent(self, most: int) -> dict[str, Counts]:
        """Return and remove the counts to send, of at most so many hosts."""
        taken = {host: self._unsent.pop(host) for host in list(islice(self._unsent, most))}
        return {host: (counts >> _BITS, counts & _MASK) for host, counts in taken.items()}

    def put_back(self, counts: Mapping[str, Counts]) -> None:
        """Keep counts that could not be sent for the next time."""
        for host, (urls, inbound) in counts.items():
            self._unsent[host] = self._unsent.get(host, 0) + (urls << _BITS | inbound)

    def learn(self, totals: Mapping[str, Counts]) -> None:
        """Take over the fleet's counts of some hosts."""
        for host, (urls, inbound) in totals.items():
            self._known[host] = (urls << _BITS | inbound) + self._unsent.get(host, 0)


# --- URLs -----------------------------------------------------------------------------------------

# Links that are remembered, so that each domain counts once for a URL, and URLs whose links a
# process counts: 8 bytes each.
_REMEMBERED = 1 << 18
_COUNTED = 1 << 19
# Memory of the URLs with several links whose counts in the fleet are known: some 12,000.
_KNOWN_MAX_BYTES = 2_000_000
# Links to a URL that are counted.
LINKS_MAX = 255
# Number of links at which a process tells the fleet -> those that it has not told of yet. These are
# the steps at which a URL gets more points.
_TOLD = {2: 2, 8: 6, 32: 24, 128: 96}


@dataclass(slots=True)
class Linked:
    """URL with links that Redis has not counted yet; without `group_skip` its host is its group."""

    url: str
    group_skip: int
    # For the depth of the URL and by the page that links to it: the best of all such pages.
    points: int
    number: int = 0

    @property
    def group(self) -> str:
        """Politeness group of the URL."""
        start = self.url.index("//") + 2 + self.group_skip
        return self.url[start : self.url.index("/", start)]


class LinkTally:
    """Links from other domains to URLs, as far as this process knows them.

    Most URLs have a single link, and some have very many. So a process tells the fleet of a URL
    when it has found 2, 8, 32 or 128 links to it.
    """

    def __init__(
        self,
        *,
        remembered: int = _REMEMBERED,
        counted: int = _COUNTED,
        unsent_max: int = _UNSENT_MAX,
        known_max_bytes: int = _KNOWN_MAX_BYTES,
    ) -> None:
        # Hash of a link and its domain, and a URL with the number of its links in its last byte:
        # each at its place, until another one takes the place.
        self._links = array("q", bytes(8 * remembered))
        self._counts = array("Q", bytes(8 * counted))
        self._unsent: dict[int, Linked] = {}
        self._unsent_max = unsent_max
        self._known = RecentDict[int, int](known_max_bytes, lambda _id, _number: ENTRY_BYTES)

    def count(self, id_: int) -> int:
        """Return the known links of a URL."""
        counted = self._counts[id_ % len(self._counts)]
        own = counted & LINKS_MAX if counted ^ id_ <= LINKS_MAX else 0
        return max(own, self._known.get(id_, 0))

    def add(self, id_: int, domain: str, url: str, group_skip: int, points: int) -> None:
        """Count a link to a URL, unless the domain has one already."""
        # This runs for every link to another domain.
        link = hash((id_, domain))
        place = link % len(self._links)
        if self._links[place] == link:
            return
        self._links[place] = link
        place = id_ % len(self._counts)
        counted = self._counts[place]
        if counted ^ id_ > LINKS_MAX:
            self._counts[place] = id_ & ~LINKS_MAX | 1
            return
        number = (counted & LINKS_MAX) + 1
        if number <= LINKS_MAX:
            self._counts[place] = counted + 1
            if number in _TOLD:
                self._tell(id_, _TOLD[number], Linked(url, group_skip, points))

    def _tell(self, id_: int, number: int, linked: Linked) -> None:
        waiting = self._unsent.get(id_)
        if waiting is not None:
            linked.points = max(linked.points, waiting.points)
            number += waiting.number
        elif len(self._unsent) >= self._unsent_max:
            return
        linked.number = min(number, LINKS_MAX)
        self._unsent[id_] = linked

    def take_unsent(self, most: int) -> dict[int, Linked]:
        """Return and remove the links to send, to at most so many URLs."""
        return {id_: self._unsent.pop(id_) for id_ in list(islice(self._unsent, most))}

    def put_back(self, links: Mapping[int, Linked]) -> None:
        """Keep links that could not be sent for the next time."""
        for id_, linked in links.items():
            newer = self._unsent.get(id_)
            if newer is not None:
                linked.number = min(linked.number + newer.number, LINKS_MAX)
            self._unsent[id_] = linked

    def learn(self, totals: Mapping[int, int]) -> None:
        """Take over the fleet's counts of some URLs."""
        for id_, number in totals.items():
            self._known[id_] = number


# --- the fleet ------------------------------------------------------------------------------------

_EVERY_S = 2.0
# Hosts sent at a time; the others wait for the next time. URLs that are sent in one turn of the
# event loop.
_HOSTS_MAX = 10_000
_URLS_MAX = 1000


class CountSync:
    """Task that keeps the counts of a process and of the fleet in step, and lifts URLs by them."""

    def __init__(
        self,
        hosts: HostTally,
        frontier: Frontier,
        *,
        links: LinkTally | None = None,
        sketch_bytes: int = 0,
        queue_of_linked: Callable[[Linked, int], int | None] = lambda _linked, _number: None,
    ) -> None:
        """`queue_of_linked` returns the queue that a URL's number of links gives it, or None."""
        self._hosts = hosts
        self._links = links
        self._frontier = frontier
        self._sketch_bytes = sketch_bytes
        self._queue_of_linked = queue_of_linked
        self._task: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Start the task."""
        self._task = asyncio.get_running_loop().create_task(self._sync_forever())

    async def close(self) -> None:
        """Stop the task, and send what is left."""
        if self._task is not None:
            await end(self._task)
            await self.sync()

    async def sync(self) -> None:
        """Send the counts once; if Redis is away, they are sent the next time."""
        await self._sync_hosts()
        if self._links is not None:
            while unsent := self._links.take_unsent(_URLS_MAX):
                if not await self._sync_links(self._links, unsent):
                    return

    async def _sync_hosts(self) -> None:
        unsent = self._hosts.take_unsent(_HOSTS_MAX)
        if not unsent:
            return
        try:
            self._hosts.learn(await self._frontier.count_hosts(unsent))
        except RedisAway as error:
            self._hosts.put_back(unsent)
            logger.debug("The counts of hosts wait: %s", error)

    async def _sync_links(self, links: LinkTally, unsent: dict[int, Linked]) -> bool:
        """Send the links to some URLs, and lift those that have more points by them now."""
        new = {id_: (linked.group, linked.number) for id_, linked in unsent.items()}
        try:
            totals = await self._frontier.count_links(new, self._sketch_bytes)
        except RedisAway as error:
            links.put_back(unsent)
            logger.debug("The counts of links wait: %s", error)
            return False
        links.learn(totals)
        queues = ((id_, self._queue_of_linked(unsent[id_], totals[id_])) for id_ in totals)
        wanted = [
            (id_, new[id_][0], queue)
            for id_, queue in queues
            if queue is not None and queue < PAGE_QUEUES
        ]
        try:
            await self._frontier.lift(wanted)
        except RedisAway as error:
            # They may be lifted at the next step.
            logger.debug("%d URLs are not lifted: %s", len(wanted), error)
        return True

    async def _sync_forever(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_S)
            try:
                await self.sync()
            except Exception:
                # Priorities are not worth stopping for.
                logger.exception("The counts of links could not be sent; trying again")
