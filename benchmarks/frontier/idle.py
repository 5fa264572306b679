"""How often does a process that has nothing to do ask Redis?"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import redis

from benchmarks.crawl_process import crawl_processes
from benchmarks.figures import Figure, Skipped, at_most
from benchmarks.servers import PrivateRedis, private_redis

_SETTLE_S = 3.0
_OVER = "the measurement is over"


def measure(quick: bool) -> Iterator[Figure | Skipped]:
    """Commands a second that one idle crawl sends; a script counts as one."""
    seconds = 4.0 if quick else 30.0
    with private_redis() as server, crawl_processes(server, settings={"CRAWL_IDLE": "wait"}):
        time.sleep(_SETTLE_S)
        calls = _calls(server, seconds)
    yield Figure("idle.round_trips_per_s", calls / seconds, "1/s", target=at_most(5))


def _calls(server: PrivateRedis, seconds: float) -> int:
    """The server's own counter also counts what scripts do inside; its monitor tells them apart."""
    calls = 0
    with redis.Redis.from_url(server.url) as client, client.monitor() as monitor:
        timer = threading.Timer(seconds, lambda: server.client.echo(_OVER))
        timer.start()
        for seen in monitor.listen():
            if _OVER in seen["command"]:
                break
            calls += seen["client_type"] != "lua"
        timer.join()
    return calls
