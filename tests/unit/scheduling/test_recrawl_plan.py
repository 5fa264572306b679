"""How the visits of all pages are planned within a budget."""

from __future__ import annotations

import pytest

from crawler.scheduling.change_rate import ChangeRate
from crawler.scheduling.recrawl_plan import (
    Budget,
    Counted,
    HostSums,
    RecrawlPlan,
    class_of,
    class_of_interval,
    rate_of,
)

DAY = 86_400.0
SLOW, FAST = ChangeRate(0.3, 100 * DAY), ChangeRate(20, 40 * DAY)
A_DAY = Budget(1000, 86_400)


def plan(budget: Budget = A_DAY) -> RecrawlPlan:
    return RecrawlPlan(budget, min_s=3600, max_s=30 * DAY)


def rates_of(made: RecrawlPlan, classes: dict[int, int]) -> float:
    return sum(count / made.interval_s(number) for number, count in classes.items())


@pytest.mark.parametrize(
    ("text", "per_s"),
    [("budget:3600/h", 1), ("budget:86400/d", 1), ("budget:604800/w", 1), ("budget:7/w", 7 / 7e5)],
)
def test_a_budget_is_read(text: str, per_s: float) -> None:
    found = Budget.parsed(text)
    assert found is not None
    assert found.per_s == pytest.approx(per_s, rel=0.2)


@pytest.mark.parametrize(
    "text", ["budget:", "budget:0/d", "budget:10", "budget:1/m", "budget:-1/d"]
)
def test_what_is_no_budget_is_refused(text: str) -> None:
    assert Budget.parsed(text) is None


@pytest.mark.parametrize("rate", [SLOW, FAST, ChangeRate(0.01, 1), ChangeRate(80, 1e12)])
@pytest.mark.parametrize("rank", [0, 1])
def test_a_class_stands_for_rates_that_are_close(rate: ChangeRate, rank: int) -> None:
    number = class_of(rate, rank)
    assert number >= 0
    assert class_of(rate_of(number), rank) == number
    if rate in (SLOW, FAST):
        assert rate_of(number).shape == pytest.approx(rate.shape, rel=0.1)
        assert rate_of(number).time_s == pytest.approx(rate.time_s, rel=0.1)


@pytest.mark.parametrize("pages", [100, 10_000, 1_000_000])
def test_intervals_spend_the_budget(pages: int) -> None:
    classes = {class_of(SLOW): pages * 9 // 10, class_of(FAST): pages // 10}
    made = plan(Budget(pages // 10, 86_400))
    wanted = 1.1 * made.budget.per_s
    made.prices = made.priced(classes, per_s=wanted)
    assert rates_of(made, classes) == pytest.approx(wanted, rel=0.05)


def test_pages_that_change_more_are_visited_more_if_that_is_worth_it() -> None:
    classes = {class_of(SLOW): 900, class_of(FAST): 100}
    rich, poor = plan(Budget(1000, 86_400)), plan(Budget(10, 86_400))
    for made in (rich, poor):
        made.prices = made.priced(classes, per_s=made.budget.per_s)
    assert rich.interval_s(class_of(FAST)) < rich.interval_s(class_of(SLOW)) / 2
    # Too fast for ten visits a day of 1,000 pages.
    assert poor.interval_s(class_of(FAST)) == poor.prices.most_s
    assert poor.prices.most_s > 30 * DAY


def test_a_feed_is_worth_more_visits_than_a_page() -> None:
    classes = {class_of(SLOW): 900, class_of(FAST, 1): 1, class_of(FAST): 100}
    made = plan(Budget(100, 86_400))
    made.prices = made.priced(classes, per_s=made.budget.per_s)
    assert made.interval_s(class_of(FAST, 1)) < made.interval_s(class_of(FAST)) / 2


def test_what_comes_at_an_interval_of_its_own_leaves_less_for_the_others() -> None:
    classes = {class_of(SLOW): 1000}
    hourly = {**classes, class_of_interval(3600): 20}
    found = []
    for counts in (classes, hourly):
        made = plan()
        made.prices = made.priced(counts, per_s=1.1 * made.budget.per_s)
        found.append(made.interval_s(class_of(SLOW)))
        assert rates_of(made, counts) == pytest.approx(1.1 * made.budget.per_s, rel=0.05)
    assert found[1] > 1.3 * found[0]


def test_prices_make_up_for_intervals_that_follow_late() -> None:
    classes = {class_of(SLOW): 10_000}
    made = plan()
    intervals = []
    for per_s in (2 * made.budget.per_s, made.budget.per_s, made.budget.per_s / 2):
        made.prices = made.priced(classes, per_s=per_s)
        intervals.append(made.interval_s(class_of(SLOW)))
    assert intervals[0] > intervals[1] > intervals[2]


def test_pages_that_are_not_counted_yet_are_planned_for() -> None:
    made = plan()
    alone = made.priced({class_of(SLOW): 100}, per_s=0)
    with_others = made.priced({class_of(SLOW): 100}, per_s=0, least=10_000, most=20_000)
    assert with_others.price > alone.price


def test_pages_come_back_within_ten_years_however_small_the_budget() -> None:
    made = plan(Budget(1, 604_800))
    made.prices = made.priced({class_of(SLOW): 10**9}, per_s=1.0)
    assert made.interval_s(class_of(SLOW)) <= 3650 * DAY


def test_counts_below_zero_do_no_harm() -> None:
    made = plan()
    made.learn({"h.test": HostSums(-8, -1.0, -9.0)})
    assert made.before("h.test").mean > 0
    assert made.priced({class_of(SLOW): -3}, per_s=-1.0) == made.prices
    assert made.priced({}, per_s=0) == made.prices
    assert made.priced({class_of(SLOW): 5, class_of(FAST): -2}, per_s=-1.0).planned_per_s <= 0


def test_new_pages_are_believed_to_change_as_their_host_does() -> None:
    made = plan()
    news, archive = "news.test", "archive.test"
    for _ in range(50):
        made.moved(news, None, Counted(class_of(FAST), 86_400))
        made.moved(archive, None, Counted(class_of(ChangeRate(0.3, 1000 * DAY)), 86_400))
    unsent = made.take_unsent()
    assert unsent.per_s == pytest.approx(100 / DAY)
    made.prices = made.priced(unsent.classes, per_s=unsent.per_s)
    assert made.before(news).mean > 10 * made.before("new.test").mean / 5
    assert made.before(archive).mean < made.before("new.test").mean / 2
    # The rate of the host counts, and how alike its pages are.
    assert made.before(news).mean == pytest.approx(FAST.mean, rel=0.3)
    assert made.before(news).shape > 2 * made.before("new.test").shape


def test_a_page_that_is_not_visited_again_does_not_count() -> None:
    made = plan()
    counted = Counted(class_of(FAST), 600)
    made.moved("h.test", None, counted)
    made.moved("h.test", counted, Counted(class_of(SLOW), 1200))
    made.moved("h.test", Counted(class_of(SLOW), 1200), None)
    unsent = made.take_unsent()
    assert not any(unsent.classes.values())
    assert unsent.per_s == pytest.approx(0)
    assert tuple(unsent.hosts["h.test"]) == pytest.approx((0, 0, 0), abs=1e-9)


def test_what_could_not_be_sent_is_sent_the_next_time() -> None:
    made = plan()
    made.moved("h.test", None, Counted(class_of(FAST), 600))
    unsent = made.take_unsent()
    made.moved("h.test", None, Counted(class_of(FAST), 600))
    made.put_back(unsent)
    again = made.take_unsent()
    assert again.classes == {class_of(FAST): 2}
    assert again.hosts["h.test"].pages == 2
    assert again.per_s == pytest.approx(2 / 600)


def test_the_fleet_knows_more_of_a_host_than_a_process() -> None:
    made = plan()
    made.learn({"h.test": HostSums(100, 100 * FAST.mean, 100 * FAST.log_mean)})
    assert made.before("h.test").mean == pytest.approx(FAST.mean, rel=0.2)


def test_another_budget_keeps_what_is_known() -> None:
    first, second = plan(), plan(Budget(5, 3600))
    first.moved("h.test", None, Counted(class_of(FAST), 600))
    second.go_on(first)
    assert second.take_unsent().classes == {class_of(FAST): 1}
    assert second.before("h.test") == first.before("h.test")
