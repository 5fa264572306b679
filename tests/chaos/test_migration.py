"""Processes that migrate the pages of version 1 are killed: others go on, and no page is lost.

`make storm` does it with 100,000 pages of 6 KB; its figures are in docs/operations.md.
"""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support import old_pages
from tests.support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
IS_STORM = bool(os.environ.get("STORM"))
PAGES = 100_000 if IS_STORM else 1000
BODY_BYTES = 6000 if IS_STORM else 4
# Batches and lock of the program, or so small that there is time to kill it.
BATCH, LOCK_MS = (1000, 15_000) if IS_STORM else (10, 500)


def start(uri: str, name: str, crawl: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.chaos.migrating", uri, name, crawl]
    return subprocess.Popen(
        [*command, str(BATCH), str(LOCK_MS)], cwd=ROOT, stderr=subprocess.PIPE, text=True
    )


def is_at(uri: str, name: str, documents: int) -> bool:
    """Whether the migration has done so many documents, as it remembers, or has ended."""
    migration = old_pages.state(uri, name).get("migration")
    if migration is None:
        return True
    return sum(each["done"] for each in migration.get("progress", {}).values()) >= documents


@pytest.mark.parametrize("rivals", [0, 1])
def test_a_migration_whose_processes_are_killed_is_ended_by_another(
    mongo_uri: str, mongo_db_name: str, rivals: int
) -> None:
    chance = random.Random(rivals)
    old_pages.fill(mongo_uri, mongo_db_name, PAGES, BODY_BYTES)
    moments = sorted(chance.randrange(2 * PAGES * 9 // 10) for _ in range(2))
    waiting: list[subprocess.Popen[str]] = []
    started_s = time.monotonic()
    for n, moment in enumerate(moments):
        process = start(mongo_uri, mongo_db_name, f"crawl{n}")
        if not n:
            # The first has begun, and gives its name, before others come.
            wait_until(lambda: old_pages.state(mongo_uri, mongo_db_name)["version"] == 2)
            waiting = [start(mongo_uri, mongo_db_name, "rival") for _ in range(rivals)]
        wait_until(lambda at=moment: is_at(mongo_uri, mongo_db_name, at))
        process.kill()
        process.communicate()
    last = start(mongo_uri, mongo_db_name, "last")
    log = ""
    for process in (*waiting, last):
        log += process.communicate()[1]
        assert process.returncode == 0, log
    if IS_STORM:
        print(f"{PAGES:,} pages, killed at {moments}: {time.monotonic() - started_s:.1f} s\n{log}")
    assert "Traceback" not in log
    old_pages.check_migrated(mongo_uri, mongo_db_name, PAGES, "crawl0", BODY_BYTES)
