"""Verbs about hosts: hosts, host, block, unblock."""

from __future__ import annotations

import argparse
import re
from datetime import UTC, datetime, timedelta
from typing import Any

from crawler.commands._frontier.connect import Asked, asks, common, host_name, number
from crawler.commands._output import moment, print_fields, print_json, print_table
from crawler.commands._subcommands import Verb
from crawler.errors import NotFound
from crawler.frontier import HostState
from crawler.frontier.host_control import SORTS, STATES

_DURATION = re.compile(r"(\d{1,9})([smhd]?)", re.ASCII)
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
# As good as for ever, and a date that every program can tell.
_FOR_EVER_S = 100 * 365 * 86_400


def _hosts_arguments(parser: argparse.ArgumentParser) -> None:
    common(parser)
    parser.add_argument("search", metavar="TEXT", nargs="?", default="", help="part of the name")
    parser.add_argument("--state", choices=STATES, default="", help="only those in this state")
    parser.add_argument("--sort", choices=tuple(SORTS), default="next", help="order (next)")
    parser.add_argument("--offset", type=number, default=0, help="how many to pass over (0)")
    parser.add_argument("--limit", type=number, default=50, help="how many to list (50)")


async def _hosts(asked: Asked) -> None:
    given = asked.arguments
    page = await asked.control.hosts(
        text=given.search.lower(),
        state=given.state,
        sort=given.sort,
        offset=given.offset,
        limit=given.limit,
    )
    if given.json:
        hosts = [_facts(state) for state in page.hosts]
        print_json({"hosts": hosts, "total": page.total, "complete": page.complete})
        return
    rows = [
        (state.state, state.waiting, state.pages, state.delay_ms, _next(state), state.host)
        for state in page.hosts
    ]
    print_table(("state", "waiting", "pages", "delay ms", "next contact", "host"), rows)
    more = "" if page.complete else " or more: not all hosts were looked at"
    print(f"\n{len(rows):,} of {page.total:,} hosts{more}")


def _host_arguments(parser: argparse.ArgumentParser) -> None:
    common(parser)
    parser.add_argument("host", metavar="HOST", type=host_name)


async def _host(asked: Asked) -> None:
    state = await _met(asked)
    facts = _facts(state)
    if asked.arguments.json:
        print_json(facts)
    else:
        print_fields(facts)


def _block_arguments(parser: argparse.ArgumentParser) -> None:
    _host_arguments(parser)
    parser.add_argument(
        "--for",
        dest="seconds",
        metavar="TIME",
        type=_seconds,
        default=_FOR_EVER_S,
        help="90s, 30m, 2h or 1d (for ever)",
    )


async def _block(asked: Asked) -> None:
    # Also one that was not met yet: there may be a reason.
    until = datetime.now(UTC) + timedelta(seconds=asked.arguments.seconds)
    host = asked.arguments.host
    state = await asked.control.host(host, block=round(until.timestamp() * 1000))
    for_ever = asked.arguments.seconds == _FOR_EVER_S
    said = "until it is unblocked" if for_ever else f"until {until:%Y-%m-%d %H:%M:%S} UTC"
    _say(asked, state, f"{host} is not contacted {said}; its URLs wait.")


async def _unblock(asked: Asked) -> None:
    state = await _met(asked)
    if not (state.blocked_until_ms or state.excluded):
        raise NotFound(f"{state.host} is neither blocked nor excluded.")
    state = await asked.control.host(state.host, block=0, exclude=0)
    _say(asked, state, f"{state.host} is contacted again.")


def _say(asked: Asked, state: HostState, text: str) -> None:
    if asked.arguments.json:
        print_json(_facts(state))
    else:
        print(text)


async def _met(asked: Asked) -> HostState:
    state = await asked.control.host(asked.arguments.host)
    if not state.is_known:
        raise NotFound(f"The crawl {asked.crawl!r} has not met the host {state.host} (yet).")
    return state


def _facts(state: HostState) -> dict[str, Any]:
    return {
        "host": state.host,
        "state": state.state,
        "waiting": state.waiting,
        "in_flight": state.in_flight,
        "pages": state.pages,
        "next_contact": _next(state),
        "delay_ms": state.delay_ms,
        "blocked_until": moment(state.blocked_until_ms),
        "excluded": state.excluded,
        "queue": state.queue or None,
        "budget": state.budget,
        "parallelism": state.parallelism,
    }


def _next(state: HostState) -> datetime | None:
    return moment(state.clock_ms) if state.clock_ms > state.now_ms else None


def _seconds(text: str) -> int:
    found = _DURATION.fullmatch(text)
    if found is None or not int(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write 90s, 30m, 2h or 1d")
    return min(int(found[1]) * _SECONDS[found[2]], _FOR_EVER_S)


VERBS = {
    "hosts": Verb(
        "list hosts",
        "[TEXT] [--state STATE] [--sort ORDER] [--limit N] [--offset N]",
        _hosts_arguments,
        asks(_hosts),
    ),
    "host": Verb("show one host", "HOST", _host_arguments, asks(_host)),
    "block": Verb("leave a host alone", "HOST [--for TIME]", _block_arguments, asks(_block)),
    "unblock": Verb("contact a host again", "HOST", _host_arguments, asks(_unblock)),
}
