"""What a fleet looks like, on a terminal and in a log."""

import json
from dataclasses import fields
from io import StringIO

from rich.console import Console

from crawler.commands._fleet.process import FleetCommands
from crawler.commands._fleet.view import FleetView, Row, live_view, plain_line, summary_lines
from crawler.frontier import Sizes


def sizes(**given: int) -> Sizes:
    numbers = {field.name: 0 for field in fields(Sizes)} | given
    return Sizes(**{**numbers, "front": (1, 2, 3, 4, 5)})  # type: ignore[arg-type]


VIEW = FleetView(
    crawl="web",
    elapsed_s=65.0,
    rows=[
        Row("process 1", "running", 71, 0, "", {"pages": 1234, "pages_per_s": 12.5, "held": 7}),
        Row("process 2", "restarting", None, 1, "ended by SIGKILL, starts again in 2 s"),
    ],
    sizes=sizes(pages=2000, back=9, hosts=3),
    pages=1500,
    not_modified=100,
    failed=400,
    bytes=2_000_000,
)


def drawn(view: FleetView) -> str:
    console = Console(width=110, file=StringIO())
    with console.capture() as captured:
        console.print(live_view(view))
    return captured.get()


def test_each_process_has_a_row() -> None:
    text = drawn(VIEW)
    assert "1,234" in text
    assert "ended by SIGKILL, starts again in 2 s" in text
    assert "Ctrl-C stops and keeps everything" in text


def test_a_line_has_the_fleet_and_the_crawl() -> None:
    assert plain_line(VIEW) == (
        "1 of 2 processes run; this run: 1,500 pages, 12/s now, 2.0 MB read, 400 failed, "
        "success 80.0%; whole crawl: 2,000 pages crawled, waiting F1 1 F2 2 F3 3 F4 4 F5 5 back 9, "
        "0 to retry, 3 hosts waiting"
    )


def test_before_the_frontier_answers_there_is_a_view_too() -> None:
    empty = FleetView("web", 0.0, [Row("process 1", "running", 1, 0, "")], None)
    assert "process 1" in drawn(empty)
    assert "whole crawl" not in plain_line(empty)
    assert len(summary_lines(empty)) == 1


def test_the_end_says_what_is_left() -> None:
    assert summary_lines(VIEW) == [
        "1,500 pages (2.0 MB read) by 2 processes in 1:05, 1 restart; 400 failed, success 80.0%",
        "The whole crawl: 2,000 pages crawled, 0 given up; 24 URLs left",
    ]


def test_programs_are_told_the_end_as_json() -> None:
    told = json.loads(json.dumps(VIEW.to_json()))
    assert (told["crawl"], told["pages"], told["unfinished"]) == ("web", 1500, 24)
    assert (told["failed"], told["success_rate"]) == (400, 0.8)
    assert told["processes"][1]["restarts"] == 1
    assert told["whole_crawl"]["pages"] == 2000


def test_seeds_are_given_to_the_first_process_only() -> None:
    commands = FleetCommands("web", ["seeds=http://a/", "scope=any"], ["DELAY_MIN=2"], 8800)
    first, other = commands.crawler(first=True), commands.crawler(first=False)
    assert "seeds=http://a/" in first
    assert "seeds=http://a/" not in other
    for command in (first, other):
        assert command[-6:] == [
            "-s",
            "DELAY_MIN=2",
            "-s",
            "PROGRESS=off",
            "-s",
            "ADMIN_PORT=8801",
        ]
        assert "scope=any" in command
    assert commands.admin("web")[3:] == ["admin", "--crawl=web", "-s", "DELAY_MIN=2"]
