"""`scrapy jobs` on a real MongoDB."""

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pymongo import AsyncMongoClient
from scrapy.exceptions import UsageError

from crawler.commands.jobs import Command
from crawler.storage.mongo.runs import MongoRuns
from tests.support.crawlers import project_crawler
from tests.support.runs import AT, run

Jobs = Callable[..., tuple[int, str, str]]


@pytest.fixture
async def jobs(mongo_uri: str, mongo_db_name: str, capsys: pytest.CaptureFixture[str]) -> Jobs:
    now = datetime.now(UTC).replace(microsecond=0)
    async with AsyncMongoClient[dict[str, Any]](mongo_uri) as mongo:
        runs = MongoRuns(mongo[mongo_db_name])
        await runs.record(run(id="1", ended=AT + timedelta(minutes=3)))
        await runs.record(
            run(
                id="2",
                crawl="other",
                started=now,
                seen=now,
                state="running",
                ended=None,
                reason="",
                exit_code=None,
                user="\x1b[31mme",
            )
        )
        await runs.record(replace(run(id="3"), crawl="lost", state="running", ended=None))

    def call(*args: str, **settings: Any) -> tuple[int, str, str]:
        command = Command()
        given = {"MONGO_URI": mongo_uri, "MONGO_DATABASE": mongo_db_name, **settings}
        command.settings = project_crawler(**given).settings
        command.exitcode = 0
        command.run(list(args), argparse.Namespace(help=False))
        output = capsys.readouterr()
        return command.exitcode, output.out, output.err

    return call


def test_runs_are_listed_the_newest_first(jobs: Jobs) -> None:
    code, out, _ = jobs()
    lines = out.splitlines()
    assert code == 0
    assert lines[0].split()[:3] == ["id", "crawl", "state"]
    assert [line.split()[0] for line in lines[1:]] == ["3", "2", "1"]
    [first] = [line for line in lines if line.startswith("1 ")]
    assert first.split() == [
        *("1 web finished 2026-05-04 02:00:00 3:00 3 1 0 me on m1, pid 4711".split())
    ]
    assert "\x1b" not in out
    [lost] = [line for line in lines if line.startswith("3 ")]
    assert " lost " in lost


def test_runs_are_filtered(jobs: Jobs) -> None:
    def ids(*args: str) -> list[str]:
        return [each["id"] for each in json.loads(jobs("list", "--json", *args)[1])]

    assert ids("--crawl", "web") == ["1"]
    assert ids("--state", "lost") == ["3"]
    assert ids("--since", "2h") == ["2"]
    assert ids("--limit", "1") == ["3"]


def test_one_run_is_shown_with_its_options(jobs: Jobs) -> None:
    code, out, _ = jobs("show", "1")
    assert code == 0
    assert "exit_code  0" in out
    assert "CONCURRENT_REQUESTS  7" in out
    assert json.loads(jobs("show", "1", "--json")[1])["options"]["CONCURRENT_REQUESTS"] == 7


def test_what_is_not_there_is_an_error_in_one_line(jobs: Jobs) -> None:
    assert jobs("list", "--crawl", "nothing") == (1, "", "scrapy jobs: No such run is recorded.\n")
    code, _, err = jobs("show", "nothing")
    assert (code, err.count("\n")) == (1, 1)
    assert "no record of the run 'nothing'" in err


def test_without_a_store_one_line_says_where_runs_are_recorded(jobs: Jobs, tmp_path: Any) -> None:
    code, out, err = jobs(SINKS="none", MONGO_URI=None, CRAWL_DIR=str(tmp_path))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "Runs are recorded in MongoDB or PostgreSQL, and SINKS is none" in err
    # Only a crawl makes a MongoDB.
    code, _, err = jobs(MONGO_URI=None, CRAWL_DIR=str(tmp_path))
    assert code == 2
    assert "There is no MongoDB in" in err
    assert list(tmp_path.iterdir()) == []


def test_of_an_earlier_crawl_s_store_it_is_said_that_it_is_that(jobs: Jobs) -> None:
    empty = {"MONGO_DATABASE": "test_no_runs"}
    assert jobs(**empty) == (1, "", "scrapy jobs: No run is recorded yet.\n")
    code, _, err = jobs(SINKS="none", **empty)
    assert code == 1
    assert "SINKS is none: this is the MongoDB of an earlier crawl." in err


@pytest.mark.parametrize(
    "args", [["list", "--state", "odd"], ["list", "--limit", "0"], ["list", "--since", "soon"]]
)
def test_wrong_arguments_are_refused(jobs: Jobs, args: list[str]) -> None:
    with pytest.raises(SystemExit):
        jobs(*args)


def test_an_unknown_verb_is_refused(jobs: Jobs) -> None:
    with pytest.raises(UsageError, match="use one of list, show"):
        jobs("delete")
