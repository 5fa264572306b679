"""The rules that a crawl is judged by, one function each: it yields a line per violation.

To add a rule, write a function of a Crawl and name it in RULES.

A page in a browser asks for its parts one after the other: a host's share of them is one contact,
which a document of the host itself may begin. Everything else waits for the host's delay.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Final, NamedTuple

from demo.access_log import Entry
from demo.control import HOSTILE_STATUS
from demo.robots_answer import MOVED, PATH
from demo.truth import Truth

TOLERANCE_S: Final = 0.005
# A client whose kept connection was lost asks again within this time, and no retry is as fast.
_AT_ONCE_S: Final = 0.5
# How often a fetched page may be opened: once more if the browser was lost.
_OPENED: Final = 2


@dataclass(frozen=True, slots=True)
class Crawl:
    """A crawl's requests, by start time; by host and by URL; and what is expected of it."""

    truth: Truth
    by_host: dict[str, list[Entry]]
    by_url: dict[str, list[Entry]]
    min_delay_s: float
    allow_repeats: int
    # How often the server was started: what recovers after some failures fails again after each.
    server_runs: int = 1
    # How often a crawl was killed: what was in flight then is fetched again.
    faults: int = 0
    # A host rests so many times as long as its fetches usually take, up to so many seconds.
    delay_factor: float = 0.0
    delay_max_s: float = 60.0


def missing(crawl: Crawl) -> Iterator[str]:
    """A URL that must be fetched was not, or never showed its final status."""
    for url in sorted(crawl.truth.must_fetch):
        seen = {entry.status for entry in crawl.by_url.get(url, ())}
        final = crawl.truth.statuses[url]
        if not seen & {final, 304}:
            got = ", ".join(str(status) for status in sorted(seen)) or "nothing"
            yield f"{url} never answered {final} (got {got})"


def forbidden(crawl: Crawl) -> Iterator[str]:
    """A URL was fetched that robots.txt or nofollow keeps crawlers from."""
    for url in sorted(crawl.truth.must_not_fetch & crawl.by_url.keys()):
        yield f"{url} fetched {len(crawl.by_url[url])} times"


def unknown(crawl: Crawl) -> Iterator[str]:
    """A URL was fetched that no correct crawl comes across."""
    truth = crawl.truth
    for url in sorted(crawl.by_url.keys() - truth.must_fetch - truth.must_not_fetch):
        if url not in truth.parts and not truth.may(url):
            yield f"{url} fetched {len(crawl.by_url[url])} times"


def repeated(crawl: Crawl) -> Iterator[str]:
    """A URL was fetched again without need. `allow_repeats` of them in all are forgiven.

    Each fetch of a document needs its parts again. What a hostile host answers is none of its
    pages, so these are fetched again.
    """
    forgiven = crawl.allow_repeats
    for url, entries in sorted(crawl.by_url.items()):
        if url.endswith(PATH):
            continue
        times = sum(entry.status not in (304, HOSTILE_STATUS) for entry in entries) - _sent_again(
            entries
        )
        documents = crawl.truth.parts.get(url)
        if documents is None:
            due = 1 + crawl.faults + crawl.server_runs * crawl.truth.extra_fetches.get(url, 0)
        else:
            due = _OPENED * sum(len(crawl.by_url.get(document, ())) for document in documents)
        excess = times - due
        if excess > 0 and excess > forgiven:
            yield f"{url} fetched {times} times, {due} expected"
        forgiven = max(0, forgiven - max(0, excess))


def _is_sent_again(last: Entry, entry: Entry) -> bool:
    """Say whether a request may be the last one, which a kept connection lost, once more.

    Clients send it again at once on a new connection, as one contact (RFC 9110, 9.2.2).
    """
    is_at_once = entry.start_s - last.end_s < _AT_ONCE_S
    return is_at_once and last.outcome == "reset" and last.url == entry.url


def _sent_again(entries: list[Entry]) -> int:
    """Count the requests for a URL that are the one before once more; none is so twice."""
    count, is_again = 0, False
    for last, entry in pairwise(entries):
        is_again = not is_again and _is_sent_again(last, entry)
        count += is_again
    return count


def _follows_rules(last: Entry, entry: Entry) -> bool:
    """Say whether a request follows the redirect of robots.txt.

    A redirected robots.txt is one exchange: until its end the crawler knows no rules and no
    crawl-delay, and the host waits for the very next request (RFC 9309, 2.3.1.2).
    """
    return last.target == PATH and 300 <= last.status < 400 and entry.target in {PATH, MOVED}


class _Contact(NamedTuple):
    """Requests to a host that are parts of one page, perhaps after its document."""

    # The documents that have all of them.
    documents: frozenset[str]
    urls: frozenset[str]

    @classmethod
    def begun(cls, truth: Truth, url: str) -> "_Contact":
        """Return the contact that a request begins."""
        return cls(truth.parts.get(url, frozenset([url])), frozenset([url]))

    def with_part(self, truth: Truth, url: str) -> "_Contact | None":
        """Return the contact with one more part of the page; None if the URL is not such a part."""
        documents = self.documents & truth.parts.get(url, frozenset())
        if not documents or url in self.urls:
            return None
        return _Contact(documents, self.urls | {url})


class _Pair(NamedTuple):
    """A request, and the one to the same host that ended last before it."""

    last: Entry
    entry: Entry
    # Whether they belong to one page.
    is_one_contact: bool


def _neighbours(crawl: Crawl) -> Iterator[_Pair]:
    """Yield each request with the one to the same host that ended last before it."""
    for host, entries in crawl.by_host.items():
        due_s = max(crawl.min_delay_s, crawl.truth.crawl_delays_s.get(host, 0.0))
        last, is_again = entries[0], False
        contact = _Contact.begun(crawl.truth, last.url)
        for entry in islice(entries, 1, None):
            is_soon = entry.start_s - last.end_s < due_s
            is_again = is_soon and not is_again and _is_sent_again(last, entry)
            if not is_again:
                longer = contact.with_part(crawl.truth, entry.url)
                # Whatever waited for its turn may be the beginning of another page.
                is_due = entry.start_s - last.end_s >= due_s - TOLERANCE_S
                if longer is None or is_due or last.outcome == "aborted":
                    contact = _Contact.begun(crawl.truth, entry.url)
                else:
                    contact = longer
                if not _follows_rules(last, entry):
                    yield _Pair(last, entry, longer is not None)
            if entry.end_s >= last.end_s:
                last = entry


def overlap(crawl: Crawl) -> Iterator[str]:
    """Two requests to one host ran at the same time."""
    for last, entry, _ in _neighbours(crawl):
        if entry.start_s < last.end_s:
            shared_s = last.end_s - entry.start_s
            yield f"{entry.url} began {shared_s:.3f} s before {last.url} ended"


def _sooner(crawl: Crawl, due: Callable[[_Pair], float]) -> Iterator[str]:
    """Yield the requests that came sooner after the last answer than is due."""
    for pair in _neighbours(crawl):
        last, entry, _ = pair
        gap_s, due_s = entry.start_s - last.end_s, due(pair)
        if gap_s < due_s - TOLERANCE_S:
            yield f"{entry.url} began {gap_s:.3f} s after {last.url}, {due_s:g} s is due"


def too_soon(crawl: Crawl) -> Iterator[str]:
    """A request to a host came sooner after the last answer than any may.

    Of an answer that the crawler broke off the host hears late on a busy machine.
    """

    def due_s(pair: _Pair) -> float:
        is_forgiven = pair.is_one_contact or pair.last.outcome == "aborted"
        return 0.0 if is_forgiven else crawl.min_delay_s

    return _sooner(crawl, due_s)


def crawl_delay(crawl: Crawl) -> Iterator[str]:
    """A request came sooner than the host's robots.txt asks for."""
    delays_s = crawl.truth.crawl_delays_s

    def due_s(pair: _Pair) -> float:
        return 0.0 if pair.is_one_contact else delays_s.get(pair.entry.host, 0.0)

    return _sooner(crawl, due_s)


def retry_after(crawl: Crawl) -> Iterator[str]:
    """A request came sooner than the last answer's Retry-After asks for."""
    return _sooner(crawl, lambda pair: pair.last.retry_after_s)


def adaptive(crawl: Crawl) -> Iterator[str]:
    """A request came sooner than the time of the host's last answer asks for.

    Crawlers take a mean that leans to the slow fetches, each process its own. After an answer that
    took d it is at least the half-way from the host's fastest answer to d, whatever came before.
    Answers that the crawler broke off are passed over: only it knows when.
    """
    fastest_s = {
        host: min(entry.end_s - entry.start_s for entry in entries)
        for host, entries in crawl.by_host.items()
    }

    def due_s(pair: _Pair) -> float:
        last, entry, is_one_contact = pair
        if is_one_contact or last.outcome != "ok":
            return 0.0
        usual_s = (fastest_s[entry.host] + last.end_s - last.start_s) / 2
        return min(crawl.delay_max_s, crawl.delay_factor * usual_s)

    return _sooner(crawl, due_s)


def robots_first(crawl: Crawl) -> Iterator[str]:
    """A page, or a part of one, was fetched from a host before its robots.txt had answered."""
    for entries in crawl.by_host.values():
        answered_s = min(
            (entry.end_s for entry in entries if entry.target == PATH), default=float("inf")
        )
        for entry in entries:
            if entry.target != PATH and entry.start_s < answered_s:
                yield f"{entry.url} came before http://{entry.host}{PATH} had answered"


RULES: Final[dict[str, Callable[[Crawl], Iterator[str]]]] = {
    "missing": missing,
    "forbidden": forbidden,
    "unknown": unknown,
    "repeated": repeated,
    "overlap": overlap,
    "too_soon": too_soon,
    "crawl_delay": crawl_delay,
    "retry_after": retry_after,
    "adaptive": adaptive,
    "robots_first": robots_first,
}
