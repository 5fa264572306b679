"""`scrapy frontier`: look at a crawl and steer it.

Exit 0: done; 1: what was asked for is not there; 2: a mistake; 3: Redis is away.
"""

from __future__ import annotations

import argparse
import sys

from scrapy.commands import ScrapyCommand

from crawler.commands import _validate
from crawler.commands._frontier import crawls, explain, hosts, urls
from crawler.commands._frontier.connect import Run
from crawler.commands._settings import completed
from crawler.commands._subcommands import Verb, Verbs
from crawler.errors import CrawlerError, ServerAway
from crawler.servers.redis.errors import RedisAway

_ORDER = (
    "crawls status hosts host url explain add block unblock forget pause resume dead requeue delete"
).split()
_ALL: dict[str, Verb[Run]] = {
    **crawls.VERBS,
    **hosts.VERBS,
    **urls.VERBS,
    **explain.VERBS,
    **urls.DEAD_LETTER_VERBS,
}
VERBS: Verbs[Run] = Verbs("frontier", {name: _ALL[name] for name in _ORDER})


class Command(ScrapyCommand):
    """Each verb is a function; those that need no servers start none."""

    requires_project = True
    requires_crawler_process = False

    def syntax(self) -> str:
        return VERBS.syntax

    def short_desc(self) -> str:
        return "Look at a crawl's frontier, and steer it"

    def long_desc(self) -> str:
        said = f"Look at a crawl's frontier, and steer it. {VERBS.summary}."
        return f"{said} `scrapy frontier VERB --help` tells the rest."

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        VERBS.take_help(parser)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        run, arguments = VERBS.parse(args, wants_help=getattr(opts, "help", False))
        try:
            settings = completed(self.settings)
            _validate.check(settings)
            run(settings, arguments)
            sys.stdout.flush()
        except CrawlerError as error:
            self._say(error)
        except BrokenPipeError:
            # `… | head` has seen enough; Python would complain once more when it flushes.
            sys.stdout = None
        except RedisAway as error:
            self._say(ServerAway(f"Redis does not answer: {error}"))

    def _say(self, error: CrawlerError) -> None:
        print(f"scrapy frontier: {error}", file=sys.stderr)
        self.exitcode = error.exit_code
