"""The decisions of the gate; tests/unit/middlewares/test_robots.py has what follows from them."""

from crawler.robots.gate import Allowed, Denied, PutOff
from tests.support.schedulers import lease_of
from tests.unit.middlewares.robots_worlds import ALLOWED, FORBIDDEN, World, answer


async def test_a_url_with_a_lease_is_put_off_until_the_rules_are_known() -> None:
    gate = World(answer()).robots.gate
    assert await gate.check(ALLOWED, lease_of(ALLOWED)) == PutOff(7_000)
    allowed = await gate.check(ALLOWED, lease_of(ALLOWED))
    assert isinstance(allowed, Allowed)
    assert allowed.crawl_delay_s == 7.0
    denied = await gate.check(FORBIDDEN, lease_of(FORBIDDEN))
    assert isinstance(denied, Denied)
    assert (denied.text, denied.cached) == (f"robots.txt forbids {FORBIDDEN}", allowed.cached)


async def test_a_direct_request_waits_for_the_rules_and_is_never_put_off() -> None:
    gate = World(answer()).robots.gate
    assert isinstance(await gate.check(ALLOWED, None), Allowed)
    assert isinstance(await gate.check(FORBIDDEN, None), Denied)


async def test_without_an_answer_a_lease_is_put_off_and_a_direct_request_is_denied() -> None:
    gate = World(answer(503)).robots.gate
    assert isinstance(await gate.check(ALLOWED, lease_of(ALLOWED)), PutOff)
    denied = await gate.check(ALLOWED, None)
    assert denied == Denied("No robots.txt rules from http://h.test (status 503)")


async def test_a_url_that_no_host_serves_has_no_rules() -> None:
    world = World(answer())
    allowed = await world.robots.gate.check("data:,x", None)
    assert allowed == Allowed(cached=None)
    assert allowed.crawl_delay_s == 0.0
    assert world.asked == []
