"""What a User-Agent says of the crawler."""

import pytest

from crawler.robots.gate import has_contact, is_distinctive
from crawler.robots.rules import product_token


@pytest.mark.parametrize(
    ("user_agent", "token", "contact"),
    [
        ("mybot/1.0 (+https://example.com/bot)", "mybot", True),
        ("mybot/1.0 (bot@example.com)", "mybot", True),
        ("mybot (+mailto:bot@example.com)", "mybot", True),
        ("mybot/1.0", "mybot", False),
        ("mybot/1.0 (+https://)", "mybot", False),
        ("mybot @ home", "mybot", False),
        ("MJ12bot/v1.4.8 (http://mj12bot.com/)", "MJ12bot", True),
        ("my.bot-2 (+https://example.com)", "my.bot-2", True),
        (" mybot; +https://example.com", "mybot", True),
        ("mybot(+https://example.com)", "mybot", True),
        # As browsers and the crawlers that look like them.
        ("Mozilla/5.0 (compatible; mybot/1.0; +https://example.com/bot)", "mybot", True),
        ("Mozilla/5.0 (compatible;my.bot2)", "my.bot2", False),
        (
            "Mozilla/5.0 AppleWebKit/537 (KHTML; compatible; mybot/2.1; +https://a.test) Chrome/12",
            "mybot",
            True,
        ),
        ("Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/120.0", "Mozilla", False),
        ("Mozilla/5.0 (compatible; +https://example.com/bot)", "Mozilla", True),
        ("Mozilla/5.0 (compatible; https://example.com/bot)", "Mozilla", True),
        # What follows the name of one that does not is no name.
        ("mybot/1.0 (compatible; other/1.0)", "mybot", False),
        ("", "", False),
    ],
)
def test_name_and_contact(user_agent: str, token: str, contact: bool) -> None:
    assert product_token(user_agent) == token
    assert has_contact(user_agent) is contact


@pytest.mark.parametrize(
    ("token", "told"),
    [
        ("mybot", True),
        ("MJ12bot", True),
        ("360Spider", True),
        ("Mozilla", False),
        ("msie", False),
        ("1.0", False),
        ("*", False),
        ("", False),
    ],
)
def test_some_names_tell_no_crawler_apart(token: str, told: bool) -> None:
    assert is_distinctive(token) is told
