"""What a User-Agent says of the crawler."""

import pytest

from crawler.policy.user_agent import has_contact, product_token


@pytest.mark.parametrize(
    ("user_agent", "token", "contact"),
    [
        ("mybot/1.0 (+https://example.com/bot)", "mybot", True),
        ("mybot/1.0 (bot@example.com)", "mybot", True),
        ("mybot (+mailto:bot@example.com)", "mybot", True),
        ("mybot/1.0", "mybot", False),
        ("mybot/1.0 (+https://)", "mybot", False),
        ("mybot @ home", "mybot", False),
        ("", "", False),
    ],
)
def test_name_and_contact(user_agent: str, token: str, contact: bool) -> None:
    assert product_token(user_agent) == token
    assert has_contact(user_agent) is contact
