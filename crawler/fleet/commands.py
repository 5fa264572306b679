"""The command lines of a fleet's processes. Pure."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

_SCRAPY = (sys.executable, "-m", "scrapy")


@dataclass(frozen=True, slots=True)
class FleetCommands:
    """`arguments` and `settings` as given after -a and -s, NAME=VALUE each.

    The fleet's dashboard is at `admin_port`; the processes serve their metrics at the next ones.
    """

    spider: str
    arguments: Sequence[str]
    settings: Sequence[str]
    admin_port: int

    def crawler(self, *, first: bool) -> list[str]:
        """A crawl process. Seeds are the first one's: the others find them in the frontier."""
        arguments = [
            argument
            for argument in self.arguments
            if first or argument.partition("=")[0] not in ("seeds", "sitemaps")
        ]
        return [
            *_SCRAPY,
            "crawl",
            self.spider,
            *_flags("-a", arguments),
            # One view for all of them.
            *_flags("-s", [*self.settings, "PROGRESS=off", f"ADMIN_PORT={self.admin_port + 1}"]),
        ]

    def admin(self, crawl: str) -> list[str]:
        """The admin API and the dashboard."""
        return [*_SCRAPY, "admin", f"--crawl={crawl}", *_flags("-s", self.settings)]


def _flags(flag: str, values: Sequence[str]) -> list[str]:
    return [word for value in values for word in (flag, value)]
