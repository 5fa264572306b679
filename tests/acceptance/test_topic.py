"""A focused crawl from its training to its harvest; benchmarks/topic.py has larger ones."""

import json
from pathlib import Path

import pytest

from demo.server import serving_thread
from demo.topical import OFF, ON, TopicalAnswers, TopicalWeb
from tests.acceptance.crawls import Crawls, scrapy

# A quarter of it is fetched.
WEB = TopicalWeb(160, articles=8)
COUNT = len(WEB.pages) // 4


@pytest.fixture(scope="module")
def topic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("topic")
    for name, kind in (("good", ON), ("bad", OFF)):
        lines = "\n".join(WEB.texts(kind, 100))
        (folder / f"{name}.txt").write_text(lines, encoding="utf-8")
    path = folder / "good.topic"
    run = scrapy(
        *("topic", "train", "--positive", str(folder / "good.txt")),
        *("--negative", str(folder / "bad.txt"), "-o", str(path), "--json"),
    )
    assert run.code == 0, run.stderr
    found = json.loads(run.stdout)
    assert (found["positive"], found["negative"]) == (100, 100)
    assert found["precision"] > 0.8
    assert found["recall"] > 0.7
    return path


def harvest(fetched: list[int]) -> float:
    """The share of pages on topic among the first quarter of the web."""
    return sum(WEB.pages[number].topic == ON for number in fetched[:COUNT]) / COUNT


def breadth_first() -> list[int]:
    order = [WEB.number_of[url] for url in WEB.seeds]
    known = set(order)
    for number in order:
        new = dict.fromkeys(target for target, _ in WEB.pages[number].links if target not in known)
        order += new
        known.update(new)
    return order


def test_a_focused_crawl_finds_twice_as_many_pages_on_topic(
    tmp_path: Path, redis_url: str, topic: Path
) -> None:
    crawl, feed = Crawls(tmp_path, redis_url), tmp_path / "pages.jsonl"
    answers = TopicalAnswers(WEB)
    with serving_thread(answers) as port:
        run = crawl.run(
            ",".join(WEB.seeds),
            arguments={"scope": "any", "max_pages": COUNT, "topic": topic},
            settings={
                "DNS_OVERRIDES": json.dumps({".test": f"127.0.0.1:{port}"}),
                # More hosts on topic wait than are fetched at a time, or there is no choice.
                "CONCURRENT_REQUESTS": 2,
                "DELAY_MIN": 0,
            },
            options=("-o", str(feed)),
        )
    assert run.code == 0, run.stderr
    assert len(answers.fetched) >= COUNT
    # Crawls without a topic vary around the share of all pages. Breadth first is always the same.
    unfocused = max(WEB.share_on_topic(), harvest(breadth_first()))
    assert harvest(answers.fetched) >= 2 * unfocused
    pages = [json.loads(line) for line in feed.read_text(encoding="utf-8").splitlines()]
    known = {page["url"]: page["relevance"] for page in pages}
    right = sum(
        (known[page.url] >= 0.7) == (page.topic == ON) for page in WEB.pages if page.url in known
    )
    assert right / len(known) > 0.85


def test_pages_that_are_stored_are_examples_and_can_be_explained(
    tmp_path: Path, redis_url: str, mongo_uri: str, mongo_db_name: str, topic: Path
) -> None:
    crawl = Crawls(tmp_path, redis_url, mongo_uri, mongo_db_name)
    answers = TopicalAnswers(WEB)
    urls = [
        page.url
        for kind in (ON, OFF)
        for page in [page for page in WEB.pages if page.topic == kind][:20]
    ]
    with serving_thread(answers) as port:
        run = crawl.run(
            ",".join(urls),
            arguments={"follow": "no", "topic": str(topic)},
            settings={
                "DNS_OVERRIDES": json.dumps({".test": f"127.0.0.1:{port}"}),
                "OFF_TOPIC": "follow",
            },
        )
    assert run.code == 0, run.stderr
    servers = [f"-s{name}={value}" for name, value in crawl.settings().items()]
    listed = scrapy("pages", "find", "--limit", "0", "--json", *servers)
    pages = [json.loads(line) for line in listed.stdout.splitlines()]
    assert len(pages) == len(urls)
    for page in pages:
        is_on = page["relevance"] >= 0.7
        assert (page["reason"] == "topic") != is_on
    good = [page["url"] for page in pages if page["relevance"] >= 0.7]

    run = scrapy("topic", "explain", good[0], "-m", str(topic), "--json", *servers)
    assert run.code == 0, run.stderr
    explained = json.loads(run.stdout)
    (stored,) = (page for page in pages if page["url"] == good[0])
    # By the same text, read again from the stored body.
    assert explained["relevance"] == pytest.approx(stored["relevance"])
    assert explained["link_points"] > 0
    assert {link["url"] for link in explained["links"]} == set(stored["links"])

    (tmp_path / "urls.txt").write_text("\n".join([*good, "http://none.test/"]), encoding="utf-8")
    run = scrapy(
        *("topic", "train", *servers, "--positive", str(tmp_path / "urls.txt")),
        *("--negative", str(topic.parent / "bad.txt"), "-o", str(tmp_path / "again.topic")),
        "--json",
    )
    assert run.code == 0, run.stderr
    assert json.loads(run.stdout)["positive"] == len(good)
    told = f"; {len(good)} stored pages among them; left out: 1 (not stored 1), for example "
    assert told in run.stderr

    run = scrapy("topic", "explain", "http://none.test/", "-m", str(topic), *servers)
    assert (run.code, "http://none.test/ is not stored" in run.stderr) == (1, True), run.stderr
