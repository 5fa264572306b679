"""A storm: servers, the synthetic web and crawlers, with what faults are done by."""

from __future__ import annotations

import signal
import threading
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any, Protocol

from demo.process import DemoServer


class Server(Protocol):
    """Server of the storm's own, that may be killed, stopped and started again."""

    def start(self) -> None:
        """Start it on the data it had, and wait until it answers."""

    def kill(self) -> None:
        """End it as a crash does."""

    def freeze(self) -> None:
        """Let it answer nothing, and keep its connections."""

    def thaw(self) -> None:
        """Let a frozen one go on."""


class Crawler(Protocol):
    """One `scrapy crawl web`."""

    # Names it in the fault log, in its log's file name, and in its User-Agent.
    name: str
    pid: int
    running: bool

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, if it runs."""


class Storm:
    """What faults get; see chaos/faults/__init__.py."""

    # Of this storm: logs, data, archives.
    folder: Path
    seed: int
    settings: dict[str, Any]
    environment: dict[str, str]
    own: dict[str, Any]
    stack: ExitStack
    web: DemoServer
    redis: Any
    # "mongo", "postgresql", "s3", "kafka": those that this storm has.
    servers: dict[str, Any]
    # Proxies in front of servers, by the names of these ("redis", "mongo", …).
    proxies: dict[str, Any]
    # Those that should run now; each has a successor when it has ended.
    crawlers: list[Any]
    over: threading.Event

    def rest(self, seconds: float) -> None:
        """Wait; returns early when the storm has to end."""
        self.over.wait(seconds)

    def choose(self, chance: Random) -> Any:
        """Choose one of the crawlers that should run now."""
        return chance.choice(self.crawlers)

    def replace(self, crawler: Any) -> Any:
        """Wait until a crawler has ended, and start its successor; kill it if it takes too long."""
        raise NotImplementedError
