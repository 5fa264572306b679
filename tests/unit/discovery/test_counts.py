"""Counts of hosts and of links, as far as a process knows those of its fleet."""

from crawler.discovery.counts import LINKS_MAX, HostTally, LinkTally
from crawler.discovery.priority import HostFacts


def test_what_a_process_counts_it_knows_at_once() -> None:
    tally = HostTally(10_000)
    assert tally.counts("a.test") == HostFacts(urls=0, inbound=0)
    tally.add("a.test", urls=2)
    tally.add("a.test", inbound=1)
    assert tally.counts("a.test") == HostFacts(urls=2, inbound=1)


def test_the_fleets_counts_replace_its_own_except_for_what_is_not_sent() -> None:
    tally = HostTally(10_000)
    tally.add("a.test", urls=2)
    assert tally.take_unsent(5) == {"a.test": (2, 0)}
    tally.add("a.test", inbound=3)
    tally.learn({"a.test": (40, 7)})
    assert tally.counts("a.test") == HostFacts(urls=40, inbound=10)
    assert tally.take_unsent(5) == {"a.test": (0, 3)}
    assert tally.take_unsent(5) == {}


def test_what_was_not_heard_is_told_the_next_time() -> None:
    tally = HostTally(10_000)
    tally.add("a.test", urls=2)
    lost = tally.take_unsent(5)
    tally.add("a.test", urls=1)
    tally.put_back(lost)
    assert tally.take_unsent(5) == {"a.test": (3, 0)}


def test_hosts_are_told_some_at_a_time() -> None:
    tally = HostTally(10_000)
    for number in range(5):
        tally.add(f"h{number}.test", urls=1)
    assert [len(tally.take_unsent(2)) for _ in range(4)] == [2, 2, 1, 0]


def test_the_memory_is_bounded() -> None:
    tally = HostTally(3000, unsent_max=3)
    for number in range(100):
        tally.add(f"h{number}.test", urls=1)
    assert tally.counts("h0.test") == HostFacts(urls=0, inbound=0)
    assert tally.counts("h99.test") == HostFacts(urls=1, inbound=0)
    assert len(tally.take_unsent(1000)) == 3


URL = "http://www.a.test/page"


def link(tally: LinkTally, domain: str, id_: int = 1 << 40, points: int = 0) -> int:
    tally.add(id_, domain, URL, 4, points)
    return tally.count(id_)


def sent(tally: LinkTally) -> dict[int, int]:
    return {id_: linked.number for id_, linked in tally.take_unsent(1000).items()}


def test_each_domain_counts_once_for_a_url() -> None:
    tally = LinkTally()
    assert [link(tally, domain) for domain in ("b.test", "c.test", "b.test")] == [1, 2, 2]
    assert link(tally, "b.test", id_=2) == 1
    [linked] = tally.take_unsent(5).values()
    assert (linked.number, linked.group) == (2, "a.test")


def test_the_fleet_is_told_of_a_url_when_its_links_give_it_more_points() -> None:
    tally = LinkTally()
    told = []
    for number in range(300):
        link(tally, f"h{number}.test")
        told += sent(tally).values()
    assert told == [2, 6, 24, 96]
    assert tally.count(1 << 40) == LINKS_MAX


def test_the_best_of_the_pages_that_link_to_a_url_gives_its_points() -> None:
    tally = LinkTally()
    for number, points in enumerate((-30, -10, -30, -30, -30, -30, -30, -20)):
        link(tally, f"h{number}.test", points=points)
    assert next(iter(tally.take_unsent(5).values())).points == -10


def test_the_counts_of_the_fleet_are_known_if_they_are_larger() -> None:
    tally = LinkTally()
    tally.learn({1 << 40: 7})
    assert link(tally, "b.test") == 7
    assert tally.count(2) == 0


def test_links_that_were_not_heard_are_sent_the_next_time() -> None:
    tally = LinkTally()
    for domain in ("b.test", "c.test"):
        link(tally, domain)
    lost = tally.take_unsent(5)
    for number in range(6):
        link(tally, f"h{number}.test")
    tally.put_back(lost)
    assert sent(tally) == {1 << 40: 8}


def test_links_take_a_bounded_memory() -> None:
    tally = LinkTally(remembered=8, counted=64, unsent_max=3, known_max_bytes=800)
    for number in range(1000):
        for domain in ("b.test", "c.test"):
            link(tally, domain, id_=number << 20)
    tally.learn(dict.fromkeys(range(1000), 5))
    assert len(sent(tally)) == 3
    assert sum(tally.count(number) == 5 for number in range(1000)) < 10
