"""Crawl the zoo of hostile servers, each behaviour by a crawl of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.hostile.meter import METER_FILE
from benchmarks.servers import PrivateMongo, PrivateRedis, private_mongo, private_redis
from crawler.errors import CrawlerError
from demo.hostile import crawl
from demo.hostile.behaviour import Behaviour
from demo.hostile.server import SIZE
from demo.process import DemoServer
from demo.web import WebOptions

_ROOT = Path(__file__).parents[2]
_TIMEOUT_S = 300.0
# How often a behaviour is crawled whose first crawl is above a bound: the least counts.
_TRIES = 3
HOLD_MS, PEAK_MB = 100.0, 400.0


@dataclass(frozen=True, slots=True)
class Row:
    """How one behaviour was met."""

    name: str
    outcome: str
    seconds: float
    hold_ms: float
    peak_mb: float
    # What did not end as it must.
    wrong: Sequence[str] = ()
    # Where the event loop was held for longest.
    at: Sequence[str] = ()

    @property
    def is_good(self) -> bool:
        """Whether it ended as it must, within the bounds."""
        return not self.wrong and self.hold_ms <= HOLD_MS and self.peak_mb <= PEAK_MB


def crawl_each(wanted: Sequence[Behaviour], *, tries: int = _TRIES) -> Iterator[Row]:
    """Crawl these behaviours, one after the other."""
    web = WebOptions(hosts=1, pages=1, zoo="hostile")
    with (
        DemoServer(web) as served,
        private_redis(persistent=False) as redis,
        private_mongo() as mongo,
    ):
        bench = _Bench(served.ready, redis, mongo)
        for each in wanted:
            row = bench.crawl(each)
            for _ in range(tries - 1):
                if not row.wrong and not row.is_good:
                    row = min(
                        row, bench.crawl(each), key=lambda one: (bool(one.wrong), one.hold_ms)
                    )
            yield row


class _Bench:
    """The servers of all crawls."""

    def __init__(self, ready: Mapping[str, Any], redis: PrivateRedis, mongo: PrivateMongo) -> None:
        self._ready = ready
        self._redis = redis
        self._mongo = mongo
        self._number = 0

    def crawl(self, behaviour: Behaviour) -> Row:
        """Crawl all hosts of a behaviour."""
        self._number += 1
        name = f"hostile-{self._number}"
        urls = self._ready["hostile"]["urls"][behaviour.name]
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            figures = self._run(Path(folder), name, urls)
        database = self._mongo.client[name]
        records = {each["url"]: each for each in database["pages_metadata"].find()}
        self._mongo.drop(name)
        self._redis.client.flushall()
        ended = crawl.outcomes(behaviour, urls, records)
        return Row(
            behaviour.name,
            "; ".join(dict.fromkeys(ended.values())),
            figures["seconds"],
            figures["hold_ms"],
            figures["peak_mb"],
            crawl.wrong([behaviour], {behaviour.name: urls}, records, figures["stats"]),
            figures["at"],
        )

    def _run(self, folder: Path, name: str, urls: Sequence[str]) -> dict[str, Any]:
        seeds, meter, log = folder / "seeds", folder / "meter.json", folder / "log"
        seeds.write_text("\n".join(urls), encoding="utf-8")
        overrides = self._ready["overrides"]
        hosts = {url.split("/")[2].partition(":")[0] for url in urls}
        ready = {
            **self._ready,
            "overrides": {host: to for host, to in overrides.items() if host in hosts},
        }
        values = {
            **crawl.settings(ready, SIZE),
            "REDIS_URL": self._redis.url,
            "MONGO_URI": self._mongo.url,
            "MONGO_DATABASE": name,
            "CRAWL_DIR": folder,
            "PROGRESS": "off",
            "ADMIN_ENABLED": False,
            "REQUIRE_PERSISTENCE": False,
            "LOG_LEVEL": "WARNING",
        }
        command = [sys.executable, "-m", "scrapy", "crawl", "web"]
        for flag, given in (("-a", {**crawl.arguments(), "seeds": seeds}), ("-s", values)):
            command += [word for key, value in given.items() for word in (flag, f"{key}={value}")]
        environment = {
            **os.environ,
            **crawl.environment(self._ready),
            METER_FILE: str(meter),
            "SCRAPY_SETTINGS_MODULE": "benchmarks.hostile.settings",
        }
        with log.open("wb") as output:
            ended = subprocess.run(
                command,
                cwd=_ROOT,
                env=environment,
                stdout=output,
                stderr=output,
                timeout=_TIMEOUT_S,
                check=False,
            )
        if ended.returncode or not meter.exists():
            raise CrawlerError(f"A crawl of the zoo failed:\n{log.read_text()[-2000:]}")
        found: dict[str, Any] = json.loads(meter.read_text(encoding="utf-8"))
        return found
