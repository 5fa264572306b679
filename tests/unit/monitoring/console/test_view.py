"""The live view and the plain line, drawn from plain data."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from crawler.monitoring.console.view import (
    ProcessRow,
    RunFigures,
    Snapshot,
    live_view,
    plain_line,
)
from tests.unit.monitoring.console.snapshots import EMPTY, RUN, SIZES, SNAPSHOT


def drawn(snapshot: Snapshot, width: int = 100) -> list[str]:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(live_view(snapshot))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_the_live_view_shows_both_kinds_of_figures_under_their_names() -> None:
    text = "\n".join(drawn(SNAPSHOT))
    for part in (
        "web · 1:23",
        "This process, this run",
        "2,066",
        "98.4%",
        "31 now · 25 on average",
        "30 exact · 4 near",
        "12 denied",
        "12 (timeout 9, status_503 3)",
        "34 (status_404 32, dns 2)",
        "The whole crawl, 2 processes",
        "1,234",
        "64 waiting · 7 URLs leased",
        "7,000 crawled · 3 to retry · 9 dead",
    ):
        assert part in text


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_the_live_view_keeps_its_size_whatever_the_numbers(width: int) -> None:
    reasons = {f"a_rather_long_reason_{number}": 10**9 for number in range(9)}
    huge = replace(RUN, pages=10**12, retries=reasons, failed=reasons)
    shapes = [
        [len(line) for line in drawn(snapshot, width)]
        for snapshot in (
            SNAPSHOT,
            Snapshot("web", huge, replace(SIZES, back=10**12)),
            Snapshot("web", RunFigures(), EMPTY),
        )
    ]
    assert shapes[0] == shapes[1] == shapes[2]
    assert any("duplicates" in line for line in drawn(Snapshot("web", huge, SIZES), width))


def test_the_live_view_waits_for_the_frontier() -> None:
    assert any("waiting for the frontier" in line for line in drawn(Snapshot("web", RUN)))


def test_a_name_is_not_taken_for_markup() -> None:
    assert "[bold]x" in drawn(replace(SNAPSHOT, name="[bold]x"))[0]


def test_a_paused_crawl_says_so() -> None:
    assert "paused" in drawn(replace(SNAPSHOT, crawl=replace(SIZES, paused=1)))[0]


def test_sinks_that_are_away_and_spooled_pages_are_told() -> None:
    outage = replace(SNAPSHOT, outage="mongo away, 12 pages spooled, 1.2 MB")
    lines = drawn(outage)
    assert "web · 1:23 · mongo away, 12 pages spooled, 1.2 MB" in lines[0]
    assert [len(line) for line in lines] == [len(line) for line in drawn(SNAPSHOT)]
    assert ", 34 failed, mongo away, 12 pages spooled, 1.2 MB; whole crawl: " in plain_line(outage)


def test_the_plain_line_labels_both_kinds_of_figures() -> None:
    line = plain_line(SNAPSHOT)
    assert "\n" not in line
    process, _, crawl = line.partition("; whole crawl: ")
    assert process.startswith(
        "this process: 2,066 pages in 1:23 (31/s now, 25/s on average), 66.8 MB read, "
        "success 98.4%, "
    )
    assert process.endswith(", 12 retries, 34 failed")
    assert "waiting F1 1 F2 20 F3 300 F4 0 F5 5 back 1,234" in crawl


def test_the_plain_line_says_what_else_there_may_be_to_wait_for() -> None:
    run = replace(RUN, not_kept=5)
    line = plain_line(Snapshot("web", run, replace(SIZES, leased=3, paused=1)))
    assert ", 5 not kept, " in line
    assert ", 3 leased, " in line
    assert line.endswith(", paused")
    assert "paused" not in plain_line(SNAPSHOT)


def test_the_plain_line_does_without_the_frontier() -> None:
    assert "whole crawl" not in plain_line(Snapshot("web", RUN))


# --- a fleet --------------------------------------------------------------------------------------

FLEET = Snapshot(
    "web",
    replace(RUN, not_kept=None, in_flight=None),
    SIZES,
    rows=[
        ProcessRow(
            "process 1", "running", 71, 0, "", {"pages": 1234, "pages_per_s": 12.5, "held": 7}
        ),
        ProcessRow("process 2", "restarting", None, 1, "ended by SIGKILL, starts again in 2 s"),
    ],
)


def test_each_process_of_a_fleet_has_a_row() -> None:
    text = "\n".join(drawn(FLEET, width=110))
    assert "All processes, this run" in text
    assert "1,234" in text
    assert "ended by SIGKILL, starts again in 2 s" in text
    assert "Ctrl-C stops and keeps everything" in text
    assert "in flight" not in text
    assert "fetches in flight finish" in "\n".join(drawn(replace(FLEET, stopping=True)))


def test_the_plain_line_of_a_fleet_counts_its_processes() -> None:
    line = plain_line(FLEET)
    assert line.startswith("1 of 2 processes run: 2,066 pages in 1:23 (31/s now, ")
    assert "not kept" not in line
    assert "; whole crawl: 7,000 pages crawled, waiting F1 1 " in line


def test_before_the_frontier_answers_a_fleet_has_a_view_too() -> None:
    empty = Snapshot("web", RunFigures(), rows=[ProcessRow("process 1", "running", 1, 0, "")])
    assert "process 1" in "\n".join(drawn(empty))
    assert "whole crawl" not in plain_line(empty)
