"""Check the crawler's User-Agent: a name that robots.txt files can address, and a contact."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

from scrapy.settings import default_settings

from crawler import config
from crawler import settings as ours
from crawler.errors import ConfigurationError
from crawler.robots.rules import robots_name

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

_CONTACT = re.compile(r"https?://[^\s)]+\.[^\s)]+|[^\s@(<+]+@[^\s@]+\.[^\s@)>]+")
# Names that everybody uses: no site owner means one crawler by them.
_BROWSERS = frozenset({"mozilla", "msie", "opera"})


def check_user_agent(settings: BaseSettings) -> None:
    """Make sure that site owners can reach whoever runs the crawl, or warn that they cannot."""
    user_agent = settings["USER_AGENT"] or ""
    is_default = user_agent in (ours.USER_AGENT, default_settings.USER_AGENT)
    if config.value(settings, "REQUIRE_CONTACT") and (is_default or not has_contact(user_agent)):
        raise ConfigurationError(
            f"USER_AGENT is {user_agent!r}; with REQUIRE_CONTACT it must be your own and have a "
            "URL or an e-mail address, as in 'mybot/1.0 (+https://example.com/bot)'."
        )
    if is_default:
        logger.warning(
            "USER_AGENT is the default: set it in your settings, or with -s USER_AGENT=…, to your "
            "crawler's name and a URL or e-mail address, so that site owners can reach you"
        )
    if not is_distinctive(name := robots_name(settings)):
        logger.warning(
            "robots.txt files cannot address this crawler: its name is %r. Set USER_AGENT to one "
            "with a name of its own, as in 'Mozilla/5.0 (compatible; mybot/1.0; "
            "+https://example.com/bot)', or ROBOTSTXT_USER_AGENT to that name",
            name,
        )


def is_distinctive(token: str) -> bool:
    """Tell whether a robots.txt can address one crawler by this name."""
    return token.lower() not in _BROWSERS and any(map(str.isalpha, token))


def has_contact(user_agent: str) -> bool:
    """Tell whether a User-Agent has a URL or e-mail address at which site owners reach somebody."""
    return _CONTACT.search(user_agent) is not None
