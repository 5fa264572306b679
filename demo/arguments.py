"""The command line of `python -m demo`: its options, and one clear line for every mistake."""

import argparse
import math
from collections.abc import Callable
from typing import NoReturn

from demo.web import ZOOS, WebOptions


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def _number(least: float, most: float, kind: type[int] | type[float]) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most:
            rule = f"{text!r} is not a number from {least:g} to {most:g}"
            raise argparse.ArgumentTypeError(rule)
        return value

    return parse


def _add_web(parser: argparse.ArgumentParser) -> None:
    default = WebOptions()
    web = parser.add_argument_group("which web")
    web.add_argument(
        "--hosts", type=_number(1, 10_000_000, int), default=default.hosts, metavar="N"
    )
    web.add_argument(
        "--pages",
        type=_number(1, 1_000_000, int),
        default=default.pages,
        metavar="N",
        help="average per host",
    )
    web.add_argument("--seed", type=_number(0, 2**63 - 1, int), default=default.seed, metavar="N")
    web.add_argument("--zoo", choices=ZOOS, default=default.zoo, help="which misbehaviours")


def _add_expectations(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("which crawl")
    group.add_argument("--user-agent", default="crawler", metavar="TOKEN")
    group.add_argument("--follow-nofollow", action="store_true")
    group.add_argument("--read-sitemaps", action="store_true")
    group.add_argument("--renders", action="store_true", help="opens pages in a browser")
    group.add_argument("--max-depth", type=_number(0, 1_000_000, int), metavar="N")


def build_parser() -> Parser:
    """Return the parser of all commands."""
    parser = Parser(
        prog="demo",
        description="A synthetic web on this machine, some of which misbehaves on purpose, "
        "and what tells whether a crawl of it was right.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    crawl = commands.add_parser(
        "crawl",
        help="crawl the web, and judge the crawl; other arguments go to `scrapy crawl`",
        allow_abbrev=False,
    )
    _add_web(crawl)
    serve = commands.add_parser(
        "serve", aliases=["web"], help="serve the web until SIGINT or SIGTERM"
    )
    _add_web(serve)
    serve.add_argument("--port", type=_number(0, 65535, int), default=0, help="0: any free port")
    serve.add_argument("--log", metavar="FILE", help="append an access log")
    serve.add_argument("--latency", type=_number(0, 60, float), default=0.0, metavar="S")
    serve.add_argument(
        "--hostile-bytes",
        type=_number(10_000, 10**9, int),
        metavar="N",
        help="size of what is large in the zoo hostile; a little more than DOWNLOAD_MAXSIZE",
    )
    serve.add_argument("--clock-offset", type=_number(-1e9, 1e9, float), default=0.0, metavar="S")
    serve.add_argument("--clock-scale", type=_number(0, 1e6, float), default=1.0, metavar="X")
    serve.add_argument("--commands", action="store_true", help="obey standard input, as tests need")
    truth = commands.add_parser("truth", help="print what a correct crawl fetches and stores")
    _add_web(truth)
    _add_expectations(truth)
    sets = ("must_fetch", "must_not_fetch", "must_store", "may_fetch", "parts", "needs_browser")
    truth.add_argument("--set", choices=sets, help="print these URLs, one a line")
    truth.add_argument("--json", action="store_true")
    judge = commands.add_parser("judge", help="judge a crawl by an access log")
    judge.add_argument("log", metavar="LOG")
    _add_web(judge)
    _add_expectations(judge)
    judge.add_argument("--min-delay", type=_number(0, 3600, float), default=0.0, metavar="S")
    judge.add_argument(
        "--delay-factor",
        type=_number(0, 1000, float),
        default=0.0,
        metavar="X",
        help="rests are so many times as long as fetches usually take (DELAY_FACTOR)",
    )
    judge.add_argument("--delay-max", type=_number(0, 86_400, float), default=60.0, metavar="S")
    judge.add_argument("--allow-repeats", type=_number(0, 1e9, int), default=0, metavar="N")
    judge.add_argument("--summary", metavar="FILE.json", help="write the verdict as JSON")
    bench = commands.add_parser("bench", help="measure how many pages a second are served")
    bench.add_argument("--count", type=_number(1, 10_000_000, int), default=20_000, metavar="N")
    between = commands.add_parser(
        "streams", help="crawl the web between topics of a Kafka broker in memory"
    )
    _add_web(between)
    # Small: it is to be looked at.
    between.set_defaults(hosts=6, pages=6)
    kafka = commands.add_parser(
        "kafka", help="run a Kafka broker in memory, on a free port, until SIGINT or SIGTERM"
    )
    kafka.add_argument("--brokers", type=_number(1, 10, int), default=1, metavar="N")
    kafka.add_argument("--commands", action="store_true", help="obey standard input, as tests need")
    return parser


def web_options(arguments: argparse.Namespace) -> WebOptions:
    """Return the web that the arguments describe."""
    return WebOptions(arguments.hosts, arguments.pages, arguments.seed, arguments.zoo)
