"""The admin API of real crawls: in their processes, and alone by `scrapy admin`."""

import asyncio
import json
import re
import signal
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx

from chaos.proxy import Proxy
from crawler.frontier import Entry, Frontier
from crawler.servers.redis.connection import connect
from crawler.urls import fingerprint
from demo.access_log import read_log
from demo.process import DemoServer
from demo.web import WebOptions
from tests.acceptance.crawls import Crawls
from tests.acceptance.fleets import Fleet, Process, sizes
from tests.support.waiting import wait_until

WEB = WebOptions(hosts=4, pages=5, seed=2, zoo="none")
SEED = "http://s0.test/"
EXCLUDED = "s1.test"
# Any port: many tests run at the same time.
ADMIN = {"ADMIN_ENABLED": True, "ADMIN_PORT": 0}


def hosts_fetched(log: Path) -> set[str]:
    return {entry.host for entry in read_log(log)} if log.exists() else set()


class Asks:
    """Someone who has the token of a process's admin API."""

    def __init__(self, process: Process, folder: Path) -> None:
        url = process.says(r"admin API[^\n]*: (http://127\.0\.0\.1:\d+/)")[1]
        file = folder / "admin.token"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        token = file.read_text().strip()
        assert token not in process.log
        self.http = httpx.Client(
            base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=60
        )

    def __enter__(self) -> "Asks":
        return self

    def __exit__(self, *_error: object) -> None:
        self.http.close()

    def __call__(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.http.request(method, path, json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    @contextmanager
    def listening(self) -> Iterator[list[str]]:
        """Somebody reads the events all the time; the list has what came."""
        lines: list[str] = []

        def read() -> None:
            try:
                with self.http.stream("GET", "/events") as stream:
                    lines.extend(stream.iter_lines())
            except httpx.HTTPError as error:
                lines.append(f"broken: {error}")

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        yield lines
        thread.join(30)
        assert not thread.is_alive()


def test_an_order_holds_in_every_process_and_the_crawl_ends_though_somebody_listens(
    tmp_path: Path, redis_url: str
) -> None:
    log = tmp_path / "access.log"
    with (
        DemoServer(WEB, log) as web,
        Fleet(Crawls(tmp_path, redis_url), web, CRAWL_IDLE="wait", **ADMIN) as fleet,
    ):
        processes = [fleet.start(SEED, arguments={"scope": "host"}) for _ in range(2)]
        folder = tmp_path / "crawl"
        with (
            Asks(processes[0], folder) as one,
            Asks(processes[1], folder) as other,
            one.listening() as events,
        ):
            assert one.http.base_url != other.http.base_url
            wait_until(lambda: one("GET", "/status")["unfinished"] == 0)
            # Any of them answers for the crawl, and steers it.
            other("POST", "/crawl/pause")
            assert one("GET", "/status")["paused"]
            urls = [f"http://{EXCLUDED}/queued/{n}" for n in range(30)]
            assert one("POST", "/seed/urls", [*urls, "http://s2.test/"])["added"] == 31
            other("POST", "/url/limit", {"excludedDomains": [EXCLUDED]})
            for process in processes:
                process.says(r"excluded_domains was changed to \('s1\.test',\)")
            other("POST", "/crawl/resume")
            wait_until(lambda: one("GET", "/status")["unfinished"] == 0)
            for process in processes:
                process.send(signal.SIGINT)
                assert process.wait() == 0, process.log
                assert "Traceback" not in process.log
        assert events[-1] == ""
        assert any(line.startswith('data: {"crawl":"web"') for line in events)
    assert {"s0.test", "s2.test"} <= hosts_fetched(log)
    assert EXCLUDED not in hosts_fetched(log)
    assert sizes(redis_url).done > 31
    assert re.search(r"audit\] INFO: 127\.0\.0\.1 admin POST /crawl/pause: 200", processes[1].log)


def test_a_crawl_goes_on_without_an_admin_api_that_cannot_start(
    tmp_path: Path, redis_url: str
) -> None:
    wrong = {"ADMIN_ENABLED": True, "ADMIN_HOST": "0.0.0.0", "CRAWL_IDLE": "wait"}
    with DemoServer(WEB) as web, Fleet(Crawls(tmp_path, redis_url), web, **wrong) as fleet:
        process = fleet.start(SEED, arguments={"scope": "host"})
        process.says("The admin API is off, the crawl goes on: The admin API would be open")
        wait_until(lambda: sizes(redis_url).done and not sizes(redis_url).unfinished)
        process.send(signal.SIGINT)
        assert process.wait() == 0, process.log
    assert not (tmp_path / "crawl" / "admin.token").exists()


def test_a_mongodb_that_falls_silent_is_named_and_holds_nothing_up_for_ever(
    tmp_path: Path, redis_url: str, mongo_uri: str, mongo_db_name: str
) -> None:
    with (
        Proxy(unquote(mongo_uri.removeprefix("mongodb://"))) as proxy,
        DemoServer(WEB) as web,
        Fleet(
            Crawls(tmp_path, redis_url, f"mongodb://127.0.0.1:{proxy.port}/", mongo_db_name),
            web,
            CRAWL_IDLE="wait",
            MONGO_TIMEOUT=1,
            **ADMIN,
        ) as fleet,
    ):
        process = fleet.start(SEED, arguments={"scope": "host"})
        with Asks(process, tmp_path / "crawl") as ask:
            wait_until(
                lambda: ask("GET", "/status")["done"] and not ask("GET", "/status")["unfinished"]
            )
            proxy.silence(new=True)
            # What comes is still claimed and fetched.
            ask("POST", "/seed/urls", ["http://s1.test/"])
            process.says(r"MongoDB is away \(.*\); pages wait")
            [trouble] = wait_until(lambda: ask("GET", "/status")["troubles"])
            assert re.search(rf"{process.pid}: MongoDB has not answered for \d+ s; pages", trouble)
            wait_until(lambda: ask("GET", "/status")["leased"])
            proxy.speak()
            process.says("MongoDB is back after")
            wait_until(lambda: not ask("GET", "/status")["unfinished"])
            wait_until(lambda: not ask("GET", "/status")["troubles"])
            wait_until(lambda: ask("GET", "/urls?url=http://s1.test/")["page"])
        process.send(signal.SIGINT)
        assert process.wait() == 0, process.log
        assert "Traceback" not in process.log


# --- alone ----------------------------------------------------------------------------------------


def alone(tmp_path: Path, redis_url: str, *options: str, **settings: Any) -> Process:
    given = {"REDIS_URL": redis_url, "CRAWL_DIR": tmp_path / "crawl", **settings}
    pairs = [part for name, value in given.items() for part in ("-s", f"{name}={value}")]
    return Process(["admin", "--port", "0", *options, *pairs], tmp_path / "admin.log")


async def a_finished_crawl(redis_url: str) -> None:
    redis = await connect(redis_url)
    frontier = Frontier(redis, "web")
    await frontier.open()
    await frontier.add([Entry(id=fingerprint(SEED), url=SEED)])
    claim = await frontier.claim(1, "r1")
    await frontier.done([(claim.leases[0], True)])
    await frontier.leave()
    await redis.aclose()


def test_alone_it_answers_also_while_mongodb_is_away_and_ends_on_a_signal(
    tmp_path: Path, redis_url: str
) -> None:
    process = alone(tmp_path, redis_url, MONGO_URI="mongodb://127.0.0.1:1/")
    try:
        with Asks(process, tmp_path / "crawl") as asks:
            assert asks.http.get("/readyz").status_code == 503
            assert asks.http.get("/status").json()["detail"].startswith("There is no crawl 'web'")
            asyncio.run(a_finished_crawl(redis_url))
            found = asks("GET", "/status")
            assert found["pages"] == found["done"] == 1
            page = asks("GET", f"/urls?url={SEED}")
            assert (page["state"], page["page"]) == ("known", None)
            assert page["page_note"] == "MongoDB does not answer."
            with asks.listening() as events:
                wait_until(lambda: any(line.startswith("event: status") for line in events))
                process.send(signal.SIGTERM)
                assert process.wait() == 0, process.log
        assert "Traceback" not in process.log
    finally:
        process.kill()


def test_programs_are_told_where_it_is(tmp_path: Path, redis_url: str) -> None:
    process = alone(tmp_path, redis_url, "--json")
    try:
        said = process.says(r"\{.*\}")
        told = json.loads(said[0])
        assert told["crawl"] == "web"
        assert told["token_at"] == str(tmp_path / "crawl" / "admin.token")
        assert httpx.get(told["url"] + "healthz", timeout=60).json()["ok"]
        process.send(signal.SIGTERM)
        assert process.wait() == 0, process.log
    finally:
        process.kill()
