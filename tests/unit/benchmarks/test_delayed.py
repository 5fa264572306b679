"""The peer of the delay queue's benchmark: a small run of both."""

import asyncio
from typing import Any

from benchmarks.frontier.delayed import (
    BringBack,
    PutOff,
    _bring_back,
    _bring_back_sorted,
    _cost,
    _put_off,
    _put_off_sorted,
)
from benchmarks.servers import private_redis


def calls(put_off: PutOff, bring_back: BringBack) -> dict[str, int]:
    """How often each command is sent when 300 URLs are put off and brought back."""
    with private_redis() as server:
        asyncio.run(_cost(server, 300, put_off, bring_back))
        found: dict[str, Any] = server.client.info("commandstats")
    return {name: each["calls"] for name, each in found.items()}


def test_the_script_of_the_peer_is_run_by_its_hash_as_ours_is() -> None:
    ours, peers = calls(_put_off, _bring_back), calls(_put_off_sorted, _bring_back_sorted)
    # A script of the frontier is sent once, and has its hash then.
    assert peers["cmdstat_eval"] <= ours["cmdstat_eval"]
    assert peers["cmdstat_evalsha"] > 0
