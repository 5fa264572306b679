"""Who the crawler is for site owners: the name that rules have for it, and whom to write to."""

import logging

import pytest
from scrapy.exceptions import IgnoreRequest

from crawler import settings as ours
from crawler.errors import ConfigurationError
from tests.unit.middlewares.robots_worlds import ALLOWED, World, answer

BROWSER = "Mozilla/5.0 (X11; Linux x86_64; +https://example.com/bot)"


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.levelno == logging.WARNING]


def test_the_default_user_agent_gets_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    World(answer())
    (text,) = warnings_in(caplog)
    assert "-s USER_AGENT=" in text
    caplog.clear()
    World(answer(), USER_AGENT="mybot/1.0")
    assert not warnings_in(caplog)


@pytest.mark.parametrize("user_agent", ["mybot/1.0", ours.USER_AGENT, ""])
def test_a_contact_may_be_required(user_agent: str) -> None:
    with pytest.raises(ConfigurationError, match="must be your own and have a URL"):
        World(answer(), REQUIRE_CONTACT=True, USER_AGENT=user_agent)
    World(answer(), REQUIRE_CONTACT=True, USER_AGENT="mybot/1.0 (me@example.net)")


@pytest.mark.parametrize(
    ("user_agent", "for_robots"),
    [
        ("MJ12bot/1.0 (+https://example.com/bot)", None),
        ("Mozilla/5.0 (compatible; mj12bot/1.0; +https://example.com/bot)", None),
        ("other/1.0", "mj12bot"),
        # As Scrapy takes it.
        ("other/1.0", "MJ12bot/1.0"),
    ],
)
async def test_the_group_of_this_crawler_is_obeyed(user_agent: str, for_robots: str | None) -> None:
    rules = answer(body=b"User-agent: MJ12bot\nDisallow: /\n\nUser-agent: *\nAllow: /\n")
    world = World(rules, USER_AGENT=user_agent, ROBOTSTXT_USER_AGENT=for_robots)
    await world.meets(ALLOWED)
    with pytest.raises(IgnoreRequest):
        await world.meets(ALLOWED)


def test_a_name_that_no_robots_txt_can_mean_is_told(caplog: pytest.LogCaptureFixture) -> None:
    World(answer(), USER_AGENT=BROWSER)
    (text,) = warnings_in(caplog)
    assert "its name is 'Mozilla'. Set USER_AGENT" in text
    caplog.clear()
    World(answer(), USER_AGENT=BROWSER, ROBOTSTXT_USER_AGENT="mybot")
    assert not warnings_in(caplog)
