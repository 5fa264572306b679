"""The result of a fleet, for people and for programs."""

import json
from dataclasses import fields, replace

from crawler.commands.fleet import GIVEN_UP, fleet_json, summary_lines
from crawler.frontier import Sizes
from crawler.monitoring.console.view import ProcessRow, RunFigures, Snapshot


def sizes(**given: int) -> Sizes:
    numbers = {field.name: 0 for field in fields(Sizes)} | given
    return Sizes(**{**numbers, "front": (1, 2, 3, 4, 5)})  # type: ignore[arg-type]


SNAPSHOT = Snapshot(
    "web",
    RunFigures(
        elapsed_s=65.0, pages=1500, not_modified=100, failed={"dns": 400}, size_bytes=2_000_000
    ),
    sizes(pages=2000, back=9, hosts=3),
    rows=[
        ProcessRow("process 1", "running", 71, 0, ""),
        ProcessRow("process 2", "restarting", None, 1, "ended by SIGKILL, starts again in 2 s"),
    ],
)


def test_without_redis_the_end_is_that_of_this_run() -> None:
    empty = Snapshot("web", RunFigures(), rows=[ProcessRow("process 1", "running", 1, 0, "")])
    (line,) = summary_lines(empty)
    assert line.startswith("0 pages (0 B read) by 1 process in 0 s, 0 restarts; 0 failed")


def test_the_end_says_what_is_left() -> None:
    assert summary_lines(SNAPSHOT) == [
        "1,500 pages (2.0 MB read) by 2 processes in 1:05, 1 restart; 400 failed, success 80.0%",
        "The whole crawl: 2,000 pages crawled, 0 given up; 24 URLs left",
    ]


def test_a_crawl_whose_processes_could_not_start_has_not_begun() -> None:
    rows = [ProcessRow("process 1", GIVEN_UP, None, 0, "exit code 2")]
    nothing = replace(sizes(), front=(0,) * 7)
    lines = summary_lines(Snapshot("web", RunFigures(), nothing, rows=rows))
    assert lines[1:] == ["The crawl has not begun."]


def test_programs_are_told_the_end_as_json() -> None:
    told = json.loads(json.dumps(fleet_json(SNAPSHOT)))
    assert (told["crawl"], told["pages"], told["unfinished"]) == ("web", 1500, 24)
    assert (told["failed"], told["success_rate"]) == (400, 0.8)
    assert told["processes"][1]["restarts"] == 1
    assert told["whole_crawl"]["pages"] == 2000
