"""The limit on open files: what is needed, what fits, what is raised, and whose trouble it is."""

import errno
import os
import resource
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy.settings import Settings

from crawler.scheduling import engine as engines
from crawler.scheduling.engine import Engine
from crawler.util.file_limit import Connections, is_shortage

USUAL = Connections(fetches=64, kept=256)


@pytest.mark.parametrize(
    ("limit", "fitting"),
    [
        (10**6, USUAL),
        (534, USUAL),
        (533, Connections(64, 255)),
        (256, Connections(64, 69)),
        (128, Connections(27, 26)),
        (64, Connections(5, 5)),
        (10, Connections(1, 0)),
    ],
)
def test_what_fits_into_a_limit(limit: int, fitting: Connections) -> None:
    assert USUAL.within(limit) == fitting


def prepared(soft: int, hard: int) -> tuple[int, str]:
    """The limit of a process after it prepared for a crawl with such limits, and its log."""
    program = (
        "import logging, resource; logging.basicConfig(level='WARNING')\n"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))\n"
        "from scrapy.settings import Settings\n"
        "from crawler.util.file_limit import prepare\n"
        "values = {'CONCURRENT_REQUESTS': 64, 'DOWNLOAD_KEEPALIVE_HOSTS': 256}\n"
        "prepare(Settings(values)); print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return int(done.stdout), done.stderr


def test_the_limit_is_raised_to_what_is_needed_as_far_as_that_is_allowed() -> None:
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[1] >= 2000
    assert prepared(100, 2000) == (534, "")
    assert prepared(1000, 2000) == (1000, "")
    # Fewer connections are kept, which is nothing to worry about.
    assert prepared(100, 300) == (300, "")
    limit, log = prepared(64, 100)
    assert limit == 100
    assert "Only 100 files may be open and 534 are needed: 17 fetches run at a time" in log
    assert "ulimit -n 65536" in log


def test_whose_trouble_an_error_is() -> None:
    for number in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS):
        assert is_shortage(OSError(number, os.strerror(number)))
        assert is_shortage(OSError(f"Multiple exceptions: [Errno {number}] x, [Errno 111] y"))
    for error in (
        OSError(errno.ECONNREFUSED, "refused"),
        OSError(errno.ECONNREFUSED, f"[Errno {errno.EMFILE}]"),
        OSError("Multiple exceptions: [Errno 111] x"),
        ValueError(f"[Errno {errno.EMFILE}]"),
    ):
        assert not is_shortage(error)


def test_after_a_shortage_none_starts_then_fewer_then_slowly_more(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = 1000.0
    monkeypatch.setattr(engines, "monotonic", lambda: now)
    active: set[int] = set(range(40))
    slot = SimpleNamespace(needs_backout=lambda: False, closing=None)
    crawler: Any = SimpleNamespace(
        engine=SimpleNamespace(
            _slot=slot,
            scraper=SimpleNamespace(slot=slot),
            paused=False,
            downloader=SimpleNamespace(active=active, total_concurrency=64),
        ),
        settings=Settings({"CONCURRENT_REQUESTS": 64}),
        stats=SimpleNamespace(inc_value=lambda _name: None),
    )
    engine = Engine(crawler, 64)
    assert engine.room() == 24
    for _ in range(20):
        engine.run_fewer(OSError("no file"))
    assert engine.room() == -40
    active.clear()
    assert engine.room() == 0
    now += 1.0
    assert engine.room() == 30
    now += 100.0
    assert engine.room() == 40
    now += 10_000.0
    assert engine.room() == 64
    # One is always tried.
    for _ in range(3):
        engine.run_fewer(OSError("no file"))
        now += 1.0
        assert engine.room() == 1
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2
    assert "ulimit -n" in caplog.text
