"""The late web of the scaling benchmarks, and its judgement of a crawl."""

from collections import deque
from itertools import islice
from pathlib import Path
from statistics import mean
from typing import cast

import pytest

from benchmarks.figures import Figure, Skipped
from benchmarks.scaling import connections
from benchmarks.scaling.big_host import Served, slowdown_of
from benchmarks.scaling.big_host import figures as of_big_host
from benchmarks.scaling.hosts import short
from benchmarks.scaling.lag import lags_ms, percentile
from benchmarks.scaling.seeds import Start
from benchmarks.scaling.seeds import figures as of_seeds
from benchmarks.scaling.web import (
    Account,
    Totals,
    Web,
    WebSize,
    latency_of,
    links_of,
    page_of,
    url_of,
)
from benchmarks.scaling.workers import Stage, figures, stretch_s

SIZE = WebSize(hosts=50, pages=8, links=10)


def test_a_page_links_to_other_pages_and_never_to_itself() -> None:
    for host, page in ((0, 0), (7, 3), (49, 7)):
        links = list(links_of(host, page, SIZE))
        assert len(set(links)) == len(links) == SIZE.links
        assert url_of(host, page) not in links
        assert page_of(host, page, SIZE).count(b"<a ") == SIZE.links


def test_all_pages_of_a_host_are_found_from_its_first() -> None:
    known, waiting = {url_of(3, 0)}, deque([0])
    while waiting:
        for url in links_of(3, waiting.popleft(), SIZE):
            if url.startswith("http://h3.test/") and url not in known:
                known.add(url)
                waiting.append(int(url.rpartition("/")[2]))
    assert len(known) == SIZE.pages


def test_links_of_the_pages_of_a_host_lead_to_many_hosts() -> None:
    hosts = {url.split("/")[2] for page in range(8) for url in links_of(3, page, SIZE)}
    assert len(hosts) > 30


def test_a_page_without_links_has_none() -> None:
    assert not list(islice(links_of(0, 0, WebSize(hosts=5)), 1))


def test_answers_take_different_times_around_the_average() -> None:
    size = WebSize(hosts=1000, latency_s=2)
    times = [latency_of(url_of(host, 0), size) for host in range(1000)]
    assert 1 <= min(times) < 1.1
    assert 2.9 < max(times) <= 3
    assert mean(times) == pytest.approx(2, rel=0.05)


def test_an_account_counts_pages_that_are_fetched_twice() -> None:
    account = Account(delay_s=0)
    for now_s, page in enumerate((0, 1, 0)):
        account.asked(7, page, now_s)
        account.answered(7, now_s + 0.5)
    totals = account.totals(9)
    assert (totals.answered, totals.pages, totals.repeated, totals.early) == (3, 2, 1, 0)
    assert totals.hosts == 1
    assert (totals.first_s, totals.at_s) == (0, 9)


@pytest.mark.parametrize(("asked_s", "early"), [(1.9, 1), (2.0, 0)])
def test_an_account_counts_pages_within_the_delay_of_their_host(asked_s: float, early: int) -> None:
    account = Account(delay_s=1)
    account.asked(7, 0, 0)
    account.answered(7, 1)
    account.asked(8, 0, 1)
    account.asked(7, 1, asked_s)
    assert account.totals(2).early == early


def test_an_account_counts_pages_that_are_fetched_beside_another_of_their_host() -> None:
    account = Account(delay_s=0)
    account.asked(7, 0, 0)
    account.asked(7, 1, 100)
    assert account.totals(100).early == 1


def test_an_account_knows_the_most_requests_that_waited_at_once() -> None:
    account = Account(delay_s=0)
    for change in (1, 1, 1, -1, -1, 1):
        account.waits(change)
    totals = account.totals(2)
    assert (totals.waiting, totals.waiting_most) == (2, 3)


def test_totals_are_read_as_they_were_written() -> None:
    totals = Totals(1.5, None, 3, 1, 2, 1, 0, 5, 7)
    assert Totals.from_json(totals.to_json()) == totals


def test_lags_are_those_of_a_part_of_the_crawl_and_whole_lines(tmp_path: Path) -> None:
    file = tmp_path / "lag"
    file.write_text("1.0 0.5\n2.0 0.003\n2.5 0.001\n3.0 0.9\n3.")
    assert lags_ms(file, 2, 3) == [1, 3]


def test_a_percentile_is_a_value_that_was_measured() -> None:
    ordered = [float(value) for value in range(100)]
    assert percentile(ordered, 0.5) == 50
    assert percentile(ordered, 0.99) == 99
    assert percentile([1.0], 0.99) == 1


def test_a_slowdown_is_the_share_of_the_rate_that_is_lost_in_the_median_turn() -> None:
    alone, half = Served(100, 1.0, 0.5), Served(100, 2.0, 1.0)
    assert slowdown_of([(alone, alone), (alone, half), (alone, half)]) == pytest.approx(0.5)
    assert slowdown_of([(alone, half), (alone, alone), (half, half)]) == 0


def test_what_a_big_host_costs_at_first_is_told_too() -> None:
    alone, half = Served(100, 1.0, 0.5), Served(100, 2.0, 1.0)
    found = {each.name: each.value for each in of_big_host([(alone, half), (alone, alone)])}
    assert found["scaling.big_host_first_turn_ms"] == 500
    assert found["scaling.big_host_others_per_s"] == pytest.approx(200 / 3)
    assert found["scaling.big_host_others_alone_per_s"] == 100


def test_a_big_host_that_starves_the_others_misses_its_target() -> None:
    # Each lease costs Redis the same, but beside the big host there are fewer.
    turns = [(Served(100, 1.0, 0.5), Served(90, 1.0, 0.45))] * 3
    found = {each.name: each for each in of_big_host(turns)}
    assert found["scaling.big_host_slowdown"].value == pytest.approx(0)
    assert found["scaling.big_host_leases_lost"].value == pytest.approx(0.1)
    assert found["scaling.big_host_leases_lost"].met is False
    same = {each.name: each for each in of_big_host([(Served(100, 1.0, 0.5),) * 2])}
    assert same["scaling.big_host_leases_lost"].met


@pytest.mark.parametrize(("hosts", "text"), [(1000, "1k"), (100_000, "100k"), (1_000_000, "1m")])
def test_numbers_of_hosts_are_short_in_the_names_of_figures(hosts: int, text: str) -> None:
    assert short(hosts) == text


def test_a_speedup_is_relative_to_the_first_stage() -> None:
    stages = [Stage(1, 100, 10.0, 0.2, 0.05, 550), Stage(4, 420, 10.5, 1.26, 0.21, 2100)]
    totals = Totals(0, 0, 520, 50, 520, 0, 1, 0, 0)
    found = {figure.name: figure for figure in figures(stages, totals)}
    assert found["scaling.workers_4.pages_per_s"].value == 40
    assert found["scaling.workers_4.speedup"].value == 4
    assert found["scaling.workers_4.redis_ms_per_page"].value == pytest.approx(0.5)
    assert found["scaling.workers_4.redis_calls_per_page"].value == 5
    assert found["scaling.workers_1.cpu_ms_per_page"].value == pytest.approx(2)
    assert found["scaling.workers.violations"].met is False
    assert found["scaling.workers.repeated_pages"].met


def test_few_workers_are_measured_for_longer() -> None:
    assert [stretch_s(workers, 12.0, 300) for workers in (1, 2, 5, 20)] == [37.5, 18.75, 12, 12]


class Waiting:
    """A web whose number of waiting requests changes."""

    def __init__(self, *numbers: int) -> None:
        self._numbers = iter(numbers)

    def totals(self) -> Totals:
        return Totals(0, 0, 0, 0, 0, 0, 0, next(self._numbers), 5000)


def test_fetches_at_once_are_the_fewest_of_the_stretch(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = iter((0.0, 0.0, 1.0, 2.0, 3.0))
    monkeypatch.setattr(connections.time, "monotonic", lambda: next(now_s))
    monkeypatch.setattr(connections.time, "sleep", lambda _: None)
    web = cast(Web, Waiting(5000, 4990, 4100, 4999))
    assert connections._fewest_waiting(web, 3.0) == 4100


def test_a_moment_with_too_few_fetches_misses_the_target() -> None:
    small = connections.Stretch(90, 1000, 4.0, 1.0, 150.0, [0.5], 0)
    found = {}
    for fewest in (4899, 4900):
        large = connections.Stretch(fewest, 1000, 4.0, 1.2, 250.0, [0.5], 0)
        for each in connections.figures(small, large, 5000):
            found[each.name, fewest] = each
    at_once = "scaling.connections.at_once"
    assert found[at_once, 4899].met is False
    assert found[at_once, 4900].met
    cost = found["scaling.connections.cpu_ms_per_page", 4900]
    assert (cost.peer, cost.ratio) == ("250 fetches", pytest.approx(1.2))


def test_seeds_that_are_added_before_the_first_fetch_have_no_lag() -> None:
    one = Start(1.0, 0.9, 1, 150.0, [0.5], [0.5])
    quick = Start(1.2, 1.1, 1, 160.0, [], [0.5])
    *found, last = of_seeds(one, quick, 1000)
    assert last == Skipped(
        "scaling.seeds.lag_p99_ms", "all seeds were added before the first fetch"
    )
    assert found[-1].name == "scaling.seeds.peak_mb_more"
    slow = Start(1.2, 11.2, 500, 160.0, [1.0, 60.0], [0.5])
    values = {each.name: each for each in of_seeds(one, slow, 1000)}
    added, lag = (values[f"scaling.seeds.{name}"] for name in ("added_per_s", "lag_p99_ms"))
    assert isinstance(added, Figure)
    assert added.value == pytest.approx(100)
    assert isinstance(lag, Figure)
    assert lag.met is False
