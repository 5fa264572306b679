"""One process of a fleet, with real processes and a clock of the test's own."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from crawler.commands.fleet import (
    ENDED,
    GIVEN_UP,
    NOT_STARTED,
    RESTARTING,
    RUNNING,
    FleetProcess,
    admin_command,
    crawl_command,
)
from crawler.errors import ExitCode
from tests.support.waiting import wait_until

SLEEPS = "import signal; signal.pause()"


@contextmanager
def member(tmp_path: Path, program: str, give_up_s: float = 0.0) -> Iterator[FleetProcess]:
    command = [sys.executable, "-c", program]
    made = FleetProcess("one", command, tmp_path / "one.log", give_up_s=give_up_s)
    try:
        yield made
    finally:
        made.stop(signal.SIGKILL)
        made.wait()


def test_a_process_that_ends_is_over(tmp_path: Path) -> None:
    with member(tmp_path, "print('said')") as one:
        assert (one.state, one.over) == (NOT_STARTED, True)
        one.start(0.0)
        assert one.state == RUNNING
        wait_until(lambda: one.check(1.0))
        assert (one.state, one.over, one.pid) == (ENDED, True, None)
        assert one.tail() == "said"


def test_a_process_that_is_killed_starts_again_in_time(tmp_path: Path) -> None:
    with member(tmp_path, SLEEPS) as one:
        one.start(0.0)
        killed = one.pid
        one._process.kill()  # type: ignore[union-attr]
        wait_until(lambda: one.check(10.0))
        assert one.state == RESTARTING
        assert one.why == "ended by SIGKILL, starts again in 1 s"
        assert not one.check(10.9)
        assert one.check(11.0)
        assert (one.state, one.restarts) == (RUNNING, 1)
        assert one.pid not in (None, killed)


def test_a_process_with_a_mistake_is_given_up_and_its_log_says_why(tmp_path: Path) -> None:
    with member(tmp_path, "print('no such spider'); raise SystemExit(2)") as one:
        one.start(0.0)
        wait_until(lambda: one.check(1.0))
        assert one.state == GIVEN_UP
        assert "exited with 2" in one.why
        assert one.exit_code is ExitCode.MISTAKE
        assert one.tail() == "no such spider"


def test_a_process_without_its_server_starts_again_for_as_long_as_it_takes(tmp_path: Path) -> None:
    with member(tmp_path, "raise SystemExit(3)") as one:
        now_s = 0.0
        one.start(now_s)
        waits_s = []
        for _ in range(12):
            wait_until(lambda: one.check(now_s))  # noqa: B023 - called at once
            assert one.state == RESTARTING
            waits_s.append(one._start_at_s - now_s)
            now_s = one._start_at_s
            assert one.check(now_s)
        assert waits_s == [1, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60]
        assert one.exit_code is ExitCode.DONE
        wait_until(lambda: one.check(now_s))
        assert one.why == "exited with 3: a server is away, starts again in 60 s"


def test_a_process_without_its_server_is_given_up_in_time(tmp_path: Path) -> None:
    with member(tmp_path, "raise SystemExit(3)", give_up_s=5.0) as one:
        one.start(0.0)
        wait_until(lambda: one.check(100.0))
        assert one.check(101.0)
        wait_until(lambda: one.check(104.9))
        assert one.state == RESTARTING
        assert one.check(110.0)
        wait_until(lambda: one.check(110.0))
        assert (one.state, one.exit_code) == (GIVEN_UP, ExitCode.SERVER_AWAY)
        assert one.why == "exited with 3: a server was away for 10 s"


def test_a_process_that_is_stopped_does_not_start_again(tmp_path: Path) -> None:
    with member(tmp_path, SLEEPS) as one:
        one.start(0.0)
        one.stop(signal.SIGKILL)
        wait_until(lambda: one.check(1.0))
        assert one.state == ENDED
        assert not one.check(1000.0)


def test_one_that_waits_for_its_restart_can_be_stopped(tmp_path: Path) -> None:
    with member(tmp_path, "raise SystemExit(1)") as one:
        one.start(0.0)
        wait_until(lambda: one.check(1.0))
        assert one.state == RESTARTING
        one.stop()
        assert one.check(1.1)
        assert one.state == ENDED


def test_only_the_end_of_a_long_log_is_read(tmp_path: Path) -> None:
    with member(tmp_path, "") as one:
        assert one.tail() == ""
        one.log.write_text("x" * 100_000 + "\n" + "\n".join("abcdefg"))
        assert one.tail() == "c\nd\ne\nf\ng"


def test_seeds_are_given_to_the_first_process_only() -> None:
    arguments, settings = ["seeds=http://a/", "scope=any"], ["DELAY_MIN=2"]
    first, other = (
        crawl_command("web", arguments, settings, port=8800, first=number == 1) for number in (1, 2)
    )
    assert "seeds=http://a/" in first
    assert "seeds=http://a/" not in other
    for command in (first, other):
        assert command[-6:] == ["-s", "DELAY_MIN=2", "-s", "PROGRESS=off", "-s", "ADMIN_PORT=8801"]
        assert "scope=any" in command
    topics = "kafka://k:9092/a,b"
    arguments = [f"seeds={topics} http://a/"]
    first, other = (
        crawl_command("web", arguments, settings, port=8800, first=number == 1) for number in (1, 2)
    )
    assert arguments[0] in first
    assert f"KAFKA_SEEDS={topics}" in other
    assert arguments[0] not in other
    assert admin_command("web", settings)[3:] == ["admin", "--crawl=web", "-s", "DELAY_MIN=2"]
