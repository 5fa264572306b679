"""Runs of crawls are recorded, and the end of a crawl is announced once."""

import json
import os
from pathlib import Path
from signal import SIGTERM
from typing import Any

import pymongo
import pytest

from demo.process import DemoServer
from demo.web import WebOptions
from tests.acceptance.crawls import Crawls
from tests.acceptance.fleets import Fleet
from tests.support.waiting import wait_until

SMALL = WebOptions(hosts=4, pages=4, seed=2, zoo="none")
SEED = "http://s0.test/"
SINK = "tests.support.end_sinks.EndNotes"


@pytest.fixture
def crawls(tmp_path: Path, redis_url: str, mongo_uri: str, mongo_db_name: str) -> Crawls:
    return Crawls(tmp_path, redis_url, mongo_uri, mongo_db_name)


def jobs(crawls: Crawls) -> list[dict[str, Any]]:
    with pymongo.MongoClient[dict[str, Any]](crawls.mongo_uri, tz_aware=True) as client:
        return list(client[crawls.mongo_database]["jobs"].find(sort=[("started", 1)]))


def ends(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_a_run_and_the_end_of_its_crawl_are_recorded(crawls: Crawls, tmp_path: Path) -> None:
    noted = tmp_path / "ends.jsonl"
    with DemoServer(SMALL, tmp_path / "access.log") as web:
        run = crawls.run(
            SEED,
            web=web,
            arguments={"scope": "any"},
            settings={"SINKS": f"mongo {SINK}:{noted}", "MYPROJECT_PASSWORD": "hunter-2"},
        )
    assert run.code == 0, run.stderr
    assert "Traceback" not in run.stderr
    [job] = jobs(crawls)
    assert (job["crawl"], job["spider"], job["state"]) == ("web", "web", "finished")
    assert (job["reason"], job["exit_code"]) == ("finished", 0)
    assert job["pages"] == run.summary["this_run"]["pages"] > 10
    assert job["errors"] == sum(run.summary["this_run"]["failed"].values())
    assert job["started"] <= job["seen"] <= job["ended"]
    assert job["machine"] == os.uname().nodename
    assert (job["options"]["seeds"], job["options"]["scope"]) == (SEED, "any")
    assert job["command"].startswith("scrapy crawl web -a scope=any")
    assert "hunter-2" not in str(job)
    [end] = ends(noted)
    assert (end["crawl"], end["reason"], end["finished"]) == ("web", "finished", True)
    assert end["ended_by"]["id"] == job["_id"]
    assert end["totals"]["pages"] == end["whole_crawl"]["pages"] == job["pages"]


def test_processes_that_end_together_announce_one_end(crawls: Crawls, tmp_path: Path) -> None:
    noted = tmp_path / "ends.jsonl"
    with (
        DemoServer(SMALL, tmp_path / "access.log") as web,
        Fleet(crawls, web, SINKS=f"mongo {SINK}:{noted}") as fleet,
    ):
        processes = [fleet.start(SEED, arguments={"scope": "any"}) for _ in range(3)]
        for process in processes:
            assert process.wait() == 0, process.log
            assert "Traceback" not in process.log
    found = jobs(crawls)
    assert [job["state"] for job in found] == ["finished"] * 3
    [end] = ends(noted)
    # Of all processes, those too that ended before the last one.
    assert end["totals"]["pages"] == sum(job["pages"] for job in found)


def test_a_killed_process_is_lost_and_does_not_keep_the_end_back(
    crawls: Crawls, tmp_path: Path
) -> None:
    noted = tmp_path / "ends.jsonl"
    slow = {"DELAY_MIN": 5.0, "LEASE_TTL": 3.0}
    with (
        DemoServer(SMALL, tmp_path / "access.log") as web,
        Fleet(crawls, web, SINKS=f"mongo {SINK}:{noted}", **slow) as fleet,
    ):
        killed = fleet.start(SEED, arguments={"scope": "any"})
        wait_until(lambda: jobs(crawls), what="its record is there")
        killed.kill()
        [job] = jobs(crawls)
        assert job["state"] == "running"
        with pymongo.MongoClient[dict[str, Any]](crawls.mongo_uri) as client:
            # As if it had been killed an hour ago.
            client[crawls.mongo_database]["jobs"].update_one(
                {}, [{"$set": {"seen": {"$subtract": ["$seen", 3_600_000]}}}]
            )
        other = fleet.start(SEED, arguments={"scope": "any"})
        wait_until(lambda: jobs(crawls)[0]["state"] == "lost", what="it is marked as lost")
        assert not ends(noted)
        other.send(SIGTERM)
        assert other.wait() == 0, other.log
    lost, stopped = jobs(crawls)
    assert lost["ended"] == lost["seen"]
    assert (stopped["state"], stopped["reason"], stopped["exit_code"]) == ("stopped", "shutdown", 0)
    [end] = ends(noted)
    assert (end["state"], end["reason"], end["finished"]) == ("stopped", "shutdown", False)
    assert end["ended_by"]["pid"] == other.pid


def test_an_end_that_a_sink_does_not_take_is_reported(crawls: Crawls, tmp_path: Path) -> None:
    with DemoServer(SMALL, tmp_path / "access.log") as web:
        run = crawls.run(SEED, web=web, settings={"SINKS": f"mongo {SINK}:refuse"})
    assert run.code == 0
    assert "The sink EndNotes was not told that the crawl has ended (no ends today)" in run.stderr
    assert [job["state"] for job in jobs(crawls)] == ["finished"]
