"""Faults of storms do what they say, and leave nothing behind, also if they are interrupted."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
from dns.resolver import NXDOMAIN, NoNameservers, Resolver
from dns.resolver import LifetimeTimeout as TimedOut

from chaos.faults import descriptors, disks, hosts, names
from demo.process import DemoServer
from demo.web import WebOptions


class Interrupted(Exception):
    pass


@dataclass
class Place:
    """What these faults use of a storm. While a fault waits, `look` is called, then interrupted."""

    folder: Path
    web: DemoServer
    stack: ExitStack
    pid: int
    look: Callable[[], None] = lambda: None
    settings: dict[str, Any] = field(default_factory=dict)
    own: dict[str, Any] = field(default_factory=dict)
    name: str = "c0-1"

    @property
    def log_path(self) -> Path:
        return self.folder / "c0-1.log"

    def rest(self, _seconds: float) -> None:
        self.look()
        raise Interrupted

    def choose(self, _chance: Random) -> Place:
        return self


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Any]:
    with (
        ExitStack() as stack,
        DemoServer(WebOptions(hosts=1, pages=2, zoo="none"), tmp_path / "access.log") as web,
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process,
    ):
        place = Place(tmp_path, web, stack, process.pid)
        place.log_path.write_text("INFO: Spider opened\n")
        yield place


def test_a_host_is_hostile_for_a_while(place: Any) -> None:
    def status() -> int:
        request = urllib.request.Request(
            f"http://{place.web.address}/", headers={"Host": "s0.test"}
        )
        with urllib.request.urlopen(request, timeout=1) as answer:
            return int(answer.status)

    def look() -> None:
        with pytest.raises((OSError, urllib.error.HTTPError, ValueError)):
            status()

    place.look = look
    for seed in range(3):
        with pytest.raises(Interrupted):
            hosts.turn_hostile(place, Random(seed))
        assert status() == 200


@pytest.mark.parametrize("fault", [names.fail, names.lie])
def test_names_are_wrong_for_a_while(place: Any, fault: Callable[..., str]) -> None:
    if why := names._missing():
        pytest.skip(why)
    names._prepare(place)
    resolver = Resolver(configure=False)
    address, _, port = str(place.settings["DNS_SERVERS"]).partition(":")
    resolver.nameservers, resolver.port, resolver.lifetime = [address], int(port), 0.5

    def asked() -> str:
        return str(resolver.resolve("s0.test")[0])

    right = asked()
    with socket.create_connection((right, 80), timeout=5):
        pass

    def look() -> None:
        with pytest.raises((NXDOMAIN, NoNameservers, TimedOut, AssertionError)):
            assert asked() == right

    place.look = look
    for seed in range(4):
        with pytest.raises(Interrupted):
            fault(place, Random(seed))
        assert asked() == right


def test_disks_are_full_for_a_while(place: Any) -> None:
    if why := disks._missing():
        pytest.skip(why)
    disks._prepare(place)
    folders = [place.folder / name for name in ("archive", "spool", "crawl")]

    def without_room() -> int:
        count = 0
        for folder in folders:
            try:
                with (folder / "file").open("ab") as file:
                    file.write(bytes(100_000))
            except OSError:
                count += 1
        return count

    def look() -> None:
        assert without_room() > 0

    place.look = look
    for seed in range(3):
        with pytest.raises(Interrupted):
            disks.fill(place, Random(seed))
        assert without_room() == 0


@pytest.mark.parametrize(
    ("fault", "limit"),
    [
        (disks.limit_files, resource.RLIMIT_FSIZE),
        (descriptors.exhaust, resource.RLIMIT_NOFILE),
    ],
)
def test_a_process_has_its_limits_back(place: Any, fault: Callable[..., str], limit: int) -> None:
    before = resource.prlimit(place.pid, limit)

    def look() -> None:
        least, most = resource.prlimit(place.pid, limit)
        assert least < 10
        assert most == before[1]

    place.look = look
    with pytest.raises(Interrupted):
        fault(place, Random(1))
    assert resource.prlimit(place.pid, limit) == before
    os.kill(place.pid, 9)
