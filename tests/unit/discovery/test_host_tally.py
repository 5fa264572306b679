"""Counts of hosts, as far as a process knows those of its fleet."""

from crawler.discovery.follow import HostTally
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
