"""A fleet of small programs: when they start, what is said of them, and how they are stopped."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from crawler.commands.fleet import ENDED, NOT_STARTED, RUNNING, FleetProcess, Supervisor
from crawler.errors import ExitCode
from tests.support.waiting import until

SLEEPS = "import signal; signal.pause()"
ENDS = "pass"
DEAF = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('deaf', flush=True)\n"
DEAF += "while True: signal.pause()"


class Fleet:
    """A supervisor of programs, what it said, and whether there is work."""

    def __init__(self, folder: Path, *programs: str, admin: str = SLEEPS) -> None:
        self.work = True
        self.said: list[str] = []
        members = [_member(folder, f"m{n}", program) for n, program in enumerate(programs)]
        self.supervisor = Supervisor(
            members,
            _member(folder, "admin", admin),
            has_work=self._has_work,
            say=self.said.append,
        )
        self.task = asyncio.ensure_future(self.supervisor.run())

    async def _has_work(self) -> bool:
        return self.work

    def states(self) -> list[str]:
        return [member.state for member in self.supervisor.crawlers]


def _member(folder: Path, name: str, program: str) -> FleetProcess:
    return FleetProcess(name, [sys.executable, "-c", program], folder / f"{name}.log")


async def test_the_others_start_when_there_is_work(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, SLEEPS, SLEEPS)
    fleet.work = False
    await until(lambda: fleet.states() == [RUNNING, NOT_STARTED])
    fleet.work = True
    await until(lambda: fleet.states() == [RUNNING, RUNNING])
    fleet.supervisor.stop()
    await fleet.task
    assert fleet.states() == [ENDED, ENDED]
    # It serves as long as there is a fleet.
    assert fleet.supervisor.admin._process.poll() is not None  # type: ignore[union-attr]


async def test_a_crawl_without_work_ends_with_its_first_process(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, ENDS, SLEEPS)
    fleet.work = False
    await fleet.task
    assert fleet.states() == [ENDED, NOT_STARTED]
    assert fleet.supervisor.exit_code is ExitCode.DONE


async def test_a_process_that_is_killed_is_told_of_and_started_again(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, SLEEPS, SLEEPS)
    await until(lambda: fleet.states() == [RUNNING, RUNNING])
    pid = fleet.supervisor.crawlers[1].pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    await until(lambda: len(fleet.said) == 2)
    assert fleet.said[0] == "m1 ended by SIGKILL, starts again in 1 s"
    assert fleet.said[1].startswith("m1 runs again (pid ")
    fleet.supervisor.stop()
    await fleet.task


async def test_a_process_with_a_mistake_is_a_failure_with_its_last_words(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, "print('no seeds'); raise SystemExit(2)")
    fleet.work = False
    await fleet.task
    assert fleet.supervisor.exit_code is ExitCode.MISTAKE
    assert "no seeds" in fleet.said[0]


async def test_a_lost_crawl_is_not_hidden_by_other_ends(tmp_path: Path) -> None:
    ends = (f"raise SystemExit({code})" for code in (4, 2, 0))
    fleet = Fleet(tmp_path, *ends)
    await fleet.task
    assert fleet.supervisor.exit_code is ExitCode.DATA_LOST


async def test_two_stops_end_a_process_that_does_not_listen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawler.commands.fleet._FORCED_S", 0.1)
    fleet = Fleet(tmp_path, DEAF)
    await until(lambda: fleet.supervisor.crawlers[0].tail() == "deaf")
    fleet.supervisor.stop()
    await until(lambda: fleet.said)
    assert fleet.states() == [RUNNING]
    fleet.supervisor.stop()
    await fleet.task
    assert fleet.states() == [ENDED]


async def test_the_dashboards_address_is_said_once(tmp_path: Path) -> None:
    tells = "print('Dashboard: http://127.0.0.1:1/', flush=True); import signal; signal.pause()"
    fleet = Fleet(tmp_path, SLEEPS, admin=tells)
    await until(lambda: fleet.said)
    fleet.supervisor.stop()
    await fleet.task
    assert fleet.said.count("Dashboard: http://127.0.0.1:1/") == 1
