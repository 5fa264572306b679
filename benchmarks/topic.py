"""How many pages on topic a focused crawl finds, beside a crawl that does not know the topic.

Real crawls of webs of two topics (demo/topical.py), one after the other, with the same seeds and
settings: a process of the crawler, its frontier in Redis, and a server that notes what is fetched.
The harvest rate is the share of pages on topic among those fetched so far. The oracle fetches
nothing else while there is any, wherever it is.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean

from benchmarks.command import run
from benchmarks.figures import Figure, Skipped, at_least, at_most
from benchmarks.servers import PrivateRedis, private_redis
from crawler import settings
from crawler.errors import CrawlerError
from crawler.topics.model import TopicModel
from crawler.topics.training import BAYES, MODELS, Trained, Validation, train
from demo.server import serving_thread
from demo.topical import OFF, ON, TopicalAnswers, TopicalWeb

_ROOT = Path(__file__).parent.parent
# Shares of the web after which harvests are compared; the target is for the second one.
_SHARES = (0.1, 0.25, 0.5)
_TARGET_SHARE = 0.25
_EXAMPLES = 300
_HOSTS = 400
_SETTINGS = {
    "ALLOW_NETWORKS": "127.0.0.0/8",
    "DELAY_MIN": "0",
    "DELAY_FACTOR": "0",
    "SINKS": "none",
    "PROGRESS": "off",
    "ADMIN_ENABLED": "False",
    "LOG_LEVEL": "ERROR",
    # Fewer than there are hosts with pages on topic: without a choice there is no focus.
    "CONCURRENT_REQUESTS": "8",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run it."""
    return run("benchmarks.topic", __doc__, {"harvest": measure, "speed": measure_speed}, argv)


def measure(quick: bool) -> Iterator[Figure | Skipped]:
    """Harvest rates."""
    webs = [TopicalWeb(_HOSTS, seed=seed) for seed in range(1, 2 if quick else 4)]
    # For each way to crawl and each web, the pages in the order of their fetches.
    fetched: dict[str, list[list[int]]] = {name: [] for name in ("unfocused", *MODELS)}
    quality: dict[str, list[Validation]] = {kind: [] for kind in MODELS}
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, private_redis() as redis:
        for number, web in enumerate(webs):
            for name, crawls in fetched.items():
                arguments = {"crawl": f"{name}-{number}"}
                if name in quality:
                    arguments["topic"] = str(Path(folder, f"{number}.{name}.topic"))
                    trained = _trained(web, name)
                    trained.model.save(arguments["topic"])
                    quality[name].append(trained.validation)
                crawls.append(crawl(web, redis, arguments))
    for kind, found in quality.items():
        yield Figure(f"topic.{kind}.precision", mean(each.precision for each in found), "")
        yield Figure(f"topic.{kind}.recall", mean(each.recall for each in found), "")
    on_topic = mean(web.share_on_topic() for web in webs)
    yield Figure("topic.share_on_topic", on_topic, "")
    for share in _SHARES:
        rates = {
            name: mean(
                harvest(web, some, round(share * len(web.pages)))
                for web, some in zip(webs, crawls, strict=True)
            )
            for name, crawls in fetched.items()
        }
        rates["oracle"] = mean(min(1.0, web.share_on_topic() / share) for web in webs)
        base = rates.pop("unfocused")
        at = f"{share:.0%}".removesuffix("%")
        yield Figure(f"topic.harvest_at_{at}.unfocused", base, "")
        for name, rate in rates.items():
            peer, ratio = "unfocused", rate / base
            yield Figure(f"topic.harvest_at_{at}.{name}", rate, "", peer=peer, ratio=ratio)
        if share == _TARGET_SHARE:
            ratio = rates[BAYES] / base
            yield Figure("topic.harvest_ratio", ratio, "", peer="unfocused", target=at_least(2))


def _trained(web: TopicalWeb, kind: str) -> Trained:
    positive, negative = web.texts(ON, _EXAMPLES), web.texts(OFF, _EXAMPLES)
    return train(positive, negative, kind=kind, threshold=settings.TOPIC_THRESHOLD)


def measure_speed(quick: bool) -> Iterator[Figure | Skipped]:
    """The time that scoring a page of 600 words takes, and its 60 links."""
    web = TopicalWeb(20)
    model = train(web.texts(ON, 200), web.texts(OFF, 200), threshold=0.7).model
    text = " ".join(" ".join(web.texts(ON, 10)).split()[:600])
    links = [f"{page.title} {page.url}" for page in web.pages[:60]]
    yield Figure("topic.score_us", _us(model, [text], quick), "µs", target=at_most(200))
    yield Figure("topic.score_links_us", _us(model, links, quick), "µs")


def _us(model: TopicModel, texts: Sequence[str], quick: bool) -> float:
    rounds, best = 200 if quick else 2000, float("inf")
    for _ in range(3):
        started = time.process_time()
        for _ in range(rounds):
            for text in texts:
                model.score(text)
        best = min(best, time.process_time() - started)
    return best / rounds * 1e6


def harvest(web: TopicalWeb, fetched: Sequence[int], first: int) -> float:
    """The share of pages on topic among the first ones."""
    some = fetched[:first]
    return sum(web.pages[number].topic == ON for number in some) / len(some)


def crawl(web: TopicalWeb, redis: PrivateRedis, arguments: dict[str, str]) -> list[int]:
    """Crawl as much of the web as is compared; returns its pages in the order of their fetches."""
    given = {"seeds": ",".join(web.seeds), "scope": "any", **arguments}
    given["max_pages"] = str(round(_SHARES[-1] * len(web.pages)))
    answers = TopicalAnswers(web)
    folders = tempfile.TemporaryDirectory(prefix="bench-")
    with serving_thread(answers) as port, folders as folder:
        values = {**_SETTINGS, "REDIS_URL": redis.url, "CRAWL_DIR": folder}
        values["DNS_OVERRIDES"] = json.dumps({".test": f"127.0.0.1:{port}"})
        command = [sys.executable, "-m", "scrapy", "crawl", "web"]
        for flag, some in (("-a", given), ("-s", values)):
            command += [word for item in some.items() for word in (flag, "=".join(item))]
        ended = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise CrawlerError(f"A crawl failed:\n{ended.stderr[-2000:]}")
    return answers.fetched


if __name__ == "__main__":
    sys.exit(main())
