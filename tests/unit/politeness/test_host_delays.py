"""How settings and rules for single hosts become delays."""

import pytest

from crawler.errors import ConfigurationError
from crawler.politeness.host_delays import Fetch, HostDelays
from tests.support.crawlers import project_crawler


async def test_a_host_may_have_a_delay_and_a_rate_of_its_own() -> None:
    rules = {".slow.test": {"delay": 9}, "rated.test": {"per_minute": 6}}
    host_delays = HostDelays.of(project_crawler(DELAY_FACTOR=0, DELAY_MIN=1, HOST_RULES=rules))
    assert (await host_delays.after("a.slow.test", Fetch(2.0, 200))).ms == 9_000
    assert (await host_delays.after("rated.test", Fetch(2.0, 200))).ms == 8_000
    assert (await host_delays.after("other.test", Fetch(2.0, 200))).ms == 1_000


async def test_all_hosts_may_have_a_rate() -> None:
    host_delays = HostDelays.of(project_crawler(DELAY_FACTOR=0, DELAY_MIN=1, HOST_MAX_PER_MINUTE=6))
    assert (await host_delays.after("h.test", Fetch(2.0, 200))).ms == 8_000


async def test_with_several_fetches_at_a_time_a_rate_keeps_starts_apart() -> None:
    crawler = project_crawler(
        DELAY_FACTOR=0, DELAY_MIN=1, HOST_MAX_PER_MINUTE=6, HOST_PARALLELISM=2
    )
    assert (await HostDelays.of(crawler).after("h.test", Fetch(2.0, 200))).ms == 10_000


async def test_a_rate_keeps_starts_apart_where_one_host_may_have_several() -> None:
    rules = {"wide.test": {"parallelism": 2}}
    crawler = project_crawler(DELAY_FACTOR=0, DELAY_MIN=1, HOST_MAX_PER_MINUTE=6, HOST_RULES=rules)
    assert (await HostDelays.of(crawler).after("wide.test", Fetch(2.0, 200))).ms == 10_000
    assert (await HostDelays.of(crawler).after("other.test", Fetch(2.0, 200))).ms == 8_000


async def test_the_usual_time_of_a_host_counts_not_one_fetch() -> None:
    host_delays = HostDelays.of(project_crawler(DELAY_FACTOR=5, DELAY_MIN=1, DELAY_MAX=60))
    assert (await host_delays.after("h.test", Fetch(4.0, 200))).ms == 20_000
    assert (await host_delays.after("h.test", Fetch(0.0, 200))).ms == 15_000
    # An error page that comes fast shortens nothing.
    assert (await host_delays.after("h.test", Fetch(0.0, 404))).ms == 15_000
    assert (await host_delays.after("other.test", Fetch(0.0, 200))).ms == 1_000


async def test_a_delay_that_was_ordered_goes_before_the_rules() -> None:
    rules = {"h.test": {"delay": 3}}
    host_delays = HostDelays.of(project_crawler(DELAY_FACTOR=0, DELAY_MIN=1, HOST_RULES=rules))
    assert (await host_delays.after("h.test", Fetch(0.1, 200))).ms == 3_000
    host_delays.delays = {"h.test": 9.5}
    assert (await host_delays.after("h.test", Fetch(0.1, 200))).ms == 9_500
    assert (await host_delays.after("other.test", Fetch(0.1, 200))).ms == 1_000


def test_a_crawl_has_one_memory_of_its_hosts() -> None:
    crawler = project_crawler()
    assert HostDelays.of(crawler) is HostDelays.of(crawler)
    assert HostDelays.of(project_crawler()) is not HostDelays.of(crawler)


def test_a_mistake_in_a_rule_is_told_with_the_settings_name() -> None:
    with pytest.raises(ConfigurationError, match=r"HOST_RULES: delay of 'h\.test' is -1; give sec"):
        HostDelays.of(project_crawler(HOST_RULES={"h.test": {"delay": -1}}))
