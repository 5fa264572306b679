"""GET and PATCH /hosts, DELETE of a host's queue."""

from typing import Any

import pytest

from crawler.scheduling.options import MAX_HOST_DELAYS, CrawlOptions
from tests.integration.admin.api import Api, entry


@pytest.fixture
async def hosts(api: Api) -> Api:
    """a.test has three URLs, b.test two, c.test one; one of each is in flight."""
    urls = [
        f"http://{host}.test/{n}"
        for host, count in (("a", 3), ("b", 2), ("c", 1))
        for n in range(count)
    ]
    await api.frontier.add([entry(url) for url in urls])
    leases = await api.claim()
    assert {lease.entry.host for lease in leases} == {"a.test", "b.test", "c.test"}
    return api


async def names(api: Api, query: str) -> list[str]:
    return [host["host"] for host in (await api.json("GET", f"/hosts?{query}"))["hosts"]]


async def test_hosts_are_paged_sorted_and_filtered(hosts: Api) -> None:
    assert await names(hosts, "sort=waiting") == ["a.test", "b.test", "c.test"]
    assert await names(hosts, "sort=waiting&limit=1&offset=1") == ["b.test"]
    assert await names(hosts, "sort=host&search=B.") == ["b.test"]
    assert await names(hosts, "sort=host&state=blocked") == []
    await hosts.json("PATCH", "/hosts/c.test", {"excluded": True})
    found = await hosts.json("GET", "/hosts?sort=host&state=excluded")
    assert ([host["host"] for host in found["hosts"]], found["total"]) == (["c.test"], 1)
    assert found["complete"]


@pytest.mark.parametrize(
    "query", ["sort=nothing", "state=odd", "limit=0", "limit=501", "offset=-1", "offset=x"]
)
async def test_what_cannot_be_listed_is_a_problem(api: Api, query: str) -> None:
    problem = await api.json("GET", f"/hosts?{query}", status=422)
    assert problem["errors"][0]["where"].startswith("query.")


async def test_one_host_is_shown(hosts: Api) -> None:
    found = await hosts.json("GET", "/hosts/A.test")
    assert (found["host"], found["state"]) == ("a.test", "in_flight")
    assert (found["waiting"], found["in_flight"]) == (2, 1)
    assert found["budget"] is found["queue"] is found["blocked_until"] is found["delay_s"] is None


async def test_a_host_that_was_never_met_is_not_found(api: Api) -> None:
    problem = await api.json("GET", "/hosts/never.test", status=404)
    assert "has not met the host 'never.test'" in problem["detail"]
    assert not await api.redis.exists("{web:0}:host:never.test")


@pytest.mark.parametrize("order", [{"budget": 1}, {"excluded": True}, {"delay_s": 3}])
async def test_orders_may_be_given_before_a_host_is_met(api: Api, order: dict[str, Any]) -> None:
    given = await api.json("PATCH", "/hosts/later.test", order)
    assert given == await api.json("GET", "/hosts/later.test")
    assert {name: given[name] for name in order} == order


async def test_urls_that_wait_in_front_queues_can_be_purged(api: Api) -> None:
    await api.json("POST", "/seed/urls", ["http://later.test/1", "http://later.test/2"])
    await api.json("DELETE", "/hosts/later.test/queue")
    assert await api.claim() == []


async def test_what_is_no_host_is_a_problem(api: Api) -> None:
    problem = await api.json("GET", "/hosts/a%20b", status=422)
    assert problem["detail"] == "'a b' is no host; write it as www.example.com."


async def test_orders_hold_until_they_are_taken_back(hosts: Api) -> None:
    orders = {
        "delay_s": 2.5,
        "blocked_until": "2100-01-01T00:00:00Z",
        "queue": 5,
        "budget": 10,
        "parallelism": 2,
    }
    found = await hosts.json("PATCH", "/hosts/a.test", orders)
    assert {name: found[name] for name in orders} == orders
    assert found["state"] == "blocked"
    assert await hosts.json("GET", "/hosts/a.test") == found
    assert dict((await options(hosts)).host_delays) == {"a.test": 2.5}
    found = await hosts.json("PATCH", "/hosts/a.test", dict.fromkeys(orders))
    assert {name: found[name] for name in orders} == dict.fromkeys(orders)
    assert not (await options(hosts)).host_delays


async def options(api: Api) -> CrawlOptions:
    return CrawlOptions().changed((await api.json("GET", "/status"))["options"])


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"queue": 0},
        {"queue": 6},
        {"budget": 0},
        {"parallelism": 101},
        {"delay_s": -1},
        {"blocked_until": "tomorrow"},
        {"blocked_until": "2100-01-01T00:00:00"},
        {"unknown": 1},
    ],
)
async def test_a_wrong_order_changes_nothing(hosts: Api, body: Any) -> None:
    before = await hosts.json("GET", "/hosts/a.test")
    await hosts.json("PATCH", "/hosts/a.test", body, status=422)
    assert await hosts.json("GET", "/hosts/a.test") == before


async def test_delays_of_hosts_are_bounded(hosts: Api) -> None:
    await hosts.redis.hset(
        "{web}:options", mapping={f"host_delay:h{n}.test": "1" for n in range(MAX_HOST_DELAYS)}
    )
    problem = await hosts.json("PATCH", "/hosts/a.test", {"delay_s": 1}, status=422)
    assert "1,000 hosts have a delay of their own" in problem["detail"]


async def test_a_purged_queue_is_empty_and_fills_again(hosts: Api) -> None:
    assert (await hosts.json("DELETE", "/hosts/a.test/queue"))["dropped"] == 2
    assert (await hosts.json("GET", "/hosts/a.test"))["waiting"] == 0
    assert (await hosts.json("GET", "/status"))["dropped"]["purged"] == 2
    found = await hosts.json("POST", "/seed/urls", ["http://a.test/later"])
    assert found["added"] == 1
