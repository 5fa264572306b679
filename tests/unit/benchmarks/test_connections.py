"""The benchmark of idle connections: where it cannot run, and a small run of it."""

import asyncio

import pytest

from benchmarks import connections
from benchmarks.connections import _STATM
from benchmarks.figures import Figure, Skipped


def test_a_machine_with_few_files_is_told_how_many_are_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections.file_limit, "limits", lambda: (1024, 4096))
    (found,) = connections.measure(quick=False)
    assert found == Skipped("connections", "only 4096 files may be open, and 5314 are needed")


@pytest.mark.skipif(not _STATM.exists(), reason="this system does not tell a process' memory")
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_all_connections_stay_open(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_WARM", 4)
    opened, _, open_ms = asyncio.run(connections._measure(scheme, 40))
    assert opened == 40
    assert open_ms > 0


def test_connections_that_were_closed_miss_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    async def measured(scheme: str, count: int) -> tuple[int, float, float]:
        return count - (scheme == "https"), 30.0, 1.0

    monkeypatch.setattr(connections, "_measure", measured)
    found = {each.name: each for each in connections.measure(quick=True)}
    plain, tls = (found[f"connections.{scheme}.open"] for scheme in ("http", "https"))
    assert isinstance(plain, Figure)
    assert isinstance(tls, Figure)
    assert plain.met
    assert tls.met is False
