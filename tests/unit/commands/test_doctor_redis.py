"""What the doctor makes of a Redis: each question has its finding."""

from dataclasses import replace

import pytest

from crawler.commands.doctor import (
    EMBEDDED,
    FAILURE,
    OK,
    WARNING,
    Finding,
    failure,
    ok,
    redis_findings,
    verdict,
    warning,
)
from crawler.servers.redis.checks import ServerFacts

GOOD = ServerFacts(
    version="7.2.0",
    product="Redis 7.2.0",
    mode="standalone",
    appendonly="yes",
    policy="noeviction",
    compress_depth=1,
    used_bytes=10,
    max_bytes=100,
    round_trip_ms=0.3,
    ahead_s=0.1,
)


def findings(*nodes: ServerFacts, where: str = "redis://r/") -> dict[str, Finding]:
    return {finding.subject: finding for finding in redis_findings(list(nodes), where)}


def test_a_good_server_has_no_advice() -> None:
    found = findings(GOOD)
    assert {finding.level for finding in found.values()} == {OK}
    assert "7.2.0 (standalone) at redis://r/" in found["Redis"].text


@pytest.mark.parametrize(
    ("change", "subject", "level", "advice"),
    [
        ({"appendonly": "no"}, "Redis keeps", FAILURE, "config set appendonly yes"),
        ({"appendonly": None}, "Redis keeps", WARNING, "Make sure that it is yes"),
        ({"policy": "allkeys-lru"}, "Redis evicts", FAILURE, "maxmemory-policy noeviction"),
        ({"used_bytes": 80}, "Redis memory", WARNING, "Raise maxmemory"),
        ({"max_bytes": 0}, "Redis memory", WARNING, "Set maxmemory"),
        ({"compress_depth": 0}, "Redis lists", WARNING, "list-compress-depth 1"),
        ({"version": "6.2.14"}, "Redis lists", FAILURE, "list-compress-depth to 0"),
        ({"round_trip_ms": 50.0}, "Redis speed", WARNING, "nearer"),
        ({"ahead_s": -60.0}, "clocks", WARNING, "NTP"),
    ],
)
def test_what_is_wrong_is_said_with_what_to_do(
    change: dict[str, object], subject: str, level: str, advice: str
) -> None:
    # Of several nodes one that is wrong is enough.
    found = findings(GOOD, replace(GOOD, **change))  # type: ignore[arg-type]
    assert found[subject].level == level
    assert advice in found[subject].advice


def test_nobody_is_told_to_compress_lists_where_that_harms_them() -> None:
    assert "Redis lists" not in findings(replace(GOOD, version="6.2.14", compress_depth=0))


def test_an_embedded_server_needs_no_limit() -> None:
    assert findings(replace(GOOD, max_bytes=0), where=EMBEDDED)["Redis memory"].level == OK


def test_a_verdict_counts() -> None:
    good, bad, worse = ok("a", "b"), warning("c", "d", "e"), failure("f", "g")
    assert verdict([good]) == "All is well."
    assert "1 of 2 checks has a warning" in verdict([good, bad])
    assert "1 of 3 checks failed" in verdict([good, bad, worse])
    assert bad.lines() == ["warn  c             d", "                    → e"]
