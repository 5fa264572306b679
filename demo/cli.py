"""Run the commands of `python -m demo`. Exit 0: fine; 1: a crawl was judged wrong; 2: a mistake."""

import argparse
import asyncio
import dataclasses
import json
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from demo import event_loop, kafka, streams
from demo.arguments import build_parser, web_options
from demo.bench import bench
from demo.clock import Clock
from demo.crawl import DemoCrawl
from demo.judge import judge
from demo.profile import HOSTILE
from demo.server import serve
from demo.truth import Truth, truth
from demo.web import Web


def crawl_command(ready: Mapping[str, Any]) -> str:
    """What crawls the web that is served."""
    settings = {
        "CRAWL": f"demo-{ready['port']}",
        "ALLOW_NETWORKS": "127.0.0.0/8",
        "DELAY_MIN": 0.05,
        "DNS_OVERRIDES": json.dumps(ready["overrides"]),
    }
    command = [
        "scrapy",
        "crawl",
        "web",
        "-a",
        "scope=any",
        "-a",
        f"seeds={' '.join(ready['seeds'])}",
    ]
    for name, value in settings.items():
        command += ["-s", f"{name}={value}"]
    return shlex.join(command)


async def _serve(arguments: argparse.Namespace) -> int:
    options = web_options(arguments)
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    clock = Clock(arguments.clock_offset, arguments.clock_scale)
    running = serve(
        options,
        port=arguments.port,
        log_path=arguments.log,
        clock=clock,
        latency_s=arguments.latency,
        commands=sys.stdin if arguments.commands else None,
    )
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(running)
        address = f"127.0.0.1:{port}"
        ready = {
            "ready": True,
            "port": port,
            "address": address,
            "overrides": {".test": address},
            "seeds": Web(options).seeds,
            "options": dataclasses.asdict(options),
        }
        if options.zoo == HOSTILE:
            from demo.hostile import server as hostile  # noqa: PLC0415 - only this zoo needs TLS

            size = arguments.hostile_bytes or hostile.SIZE
            served = await stack.enter_async_context(hostile.serve(size))
            ready["overrides"] |= served.overrides
            ready["hostile"] = dataclasses.asdict(served)
        print(json.dumps(ready), flush=True)
        if sys.stdout.isatty():
            print(f"\nCrawl it from another terminal; Ctrl-C ends it:\n\n{crawl_command(ready)}\n")
        await stopped.wait()
    return 0


def _truth(arguments: argparse.Namespace) -> Truth:
    return truth(
        web_options(arguments),
        user_agent=arguments.user_agent,
        follow_nofollow=arguments.follow_nofollow,
        read_sitemaps=arguments.read_sitemaps,
        renders=arguments.renders,
        max_depth=arguments.max_depth,
    )


def _print_truth(arguments: argparse.Namespace) -> int:
    known = _truth(arguments)
    if arguments.set:
        urls = sorted(getattr(known, arguments.set))
        print(json.dumps(urls) if arguments.json else "\n".join(urls))
        return 0
    counts = {
        name: len(getattr(known, name))
        for name in (
            *("must_fetch", "must_not_fetch", "must_store", "may_fetch", "may_prefixes"),
            *("parts", "needs_browser"),
        )
    }
    counts["exact_groups"] = len(known.exact_groups)
    counts["near_groups"] = len(known.near_groups)
    counts["hosts"] = len({url.split("/")[2] for url in known.must_fetch})
    print(json.dumps(counts) if arguments.json else _table(counts))
    return 0


def _table(counts: dict[str, int]) -> str:
    return "\n".join(f"{name} {count}" for name, count in counts.items())


def _judge(arguments: argparse.Namespace) -> int:
    verdict = judge(
        arguments.log,
        _truth(arguments),
        min_delay_s=arguments.min_delay,
        allow_repeats=arguments.allow_repeats,
        delay_factor=arguments.delay_factor,
        delay_max_s=arguments.delay_max,
    )
    print("\n".join(verdict.lines()))
    if arguments.summary:
        text = json.dumps(verdict.summary(), indent=2) + "\n"
        Path(arguments.summary).write_text(text, encoding="utf-8")
    return 0 if verdict.ok else 1


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    parser = build_parser()
    typed = list(sys.argv[1:] if argv is None else argv)
    arguments, others = parser.parse_known_args(typed)
    if others and arguments.command != "crawl":
        parser.error(f"unrecognized arguments: {' '.join(others)}")
    try:
        if arguments.command == "crawl":
            return DemoCrawl(web_options(arguments), others, typed[1:]).run()
        if arguments.command in {"serve", "web"}:
            return event_loop.run(_serve(arguments))
        if arguments.command == "truth":
            return _print_truth(arguments)
        if arguments.command == "judge":
            return _judge(arguments)
        if arguments.command == "streams":
            return streams.run(web_options(arguments))
        if arguments.command == "kafka":
            commands = sys.stdin if arguments.commands else None
            return kafka.serve(brokers=arguments.brokers, commands=commands)
        return bench(arguments.count)
    except KeyboardInterrupt:
        print(f"demo {arguments.command}: stopped by Ctrl-C", file=sys.stderr)
        return 130
    except (OSError, ValueError) as error:
        print(f"demo {arguments.command}: {error}", file=sys.stderr)
        return 2
