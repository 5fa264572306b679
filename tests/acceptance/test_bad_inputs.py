"""Every mistake is told in one line, with an exit code, soon, and without a traceback."""

from pathlib import Path

import pytest

from crawler.errors import ExitCode
from tests.acceptance.crawls import Crawls, Run, scrapy

SECONDS = 90.0  # on a very busy machine; the mistakes themselves take two, a silent MongoDB five


def assert_told(run: Run, *texts: str, code: ExitCode = ExitCode.MISTAKE) -> None:
    assert run.code == code
    assert "Traceback" not in run.stderr
    told = [line for line in run.stderr.splitlines() if line.startswith("scrapy crawl: ")]
    assert len(told) == 1, run.stderr
    for text in texts:
        assert text in told[0]
    assert run.stdout == ""


@pytest.fixture
def crawls(tmp_path: Path, redis_url: str) -> Crawls:
    return Crawls(tmp_path, redis_url)


@pytest.mark.parametrize(
    ("seeds", "text"),
    [
        ("", "seeds is empty"),
        (
            "no-such-file.txt",
            "'no-such-file.txt' is neither a URL (http:// or https://) nor a file",
        ),
        ("not a url", "'not' is neither a URL"),
        ("ftp://x", "'ftp://x': only http and https are crawled"),
    ],
)
def test_bad_seeds(crawls: Crawls, seeds: str, text: str) -> None:
    assert_told(crawls.run(seeds, timeout_s=SECONDS), text)


def test_a_file_without_a_single_url_is_no_success(crawls: Crawls, tmp_path: Path) -> None:
    file = tmp_path / "seeds.txt"
    file.write_text("# nothing\nnonsense\n")
    run = crawls.run(str(file), timeout_s=SECONDS)
    assert run.code == 2
    assert "Traceback" not in run.stderr
    assert f"There is no URL in seeds={file}" in run.stderr


def test_a_crawl_that_has_no_urls_and_gets_no_seeds_is_no_success(crawls: Crawls) -> None:
    run = crawls.run(None, timeout_s=SECONDS)
    assert run.code == 2
    assert "Traceback" not in run.stderr
    assert "no seeds are given, and the crawl 'web' has no URLs" in run.stderr


def test_seeds_that_cannot_be_read_end_the_crawl(crawls: Crawls, tmp_path: Path) -> None:
    file = tmp_path / "seeds.bin"
    file.write_bytes(b"http://s0.test/\n\0\0")
    run = crawls.run(str(file), timeout_s=SECONDS)
    assert run.code == 2
    assert "Traceback" not in run.stderr
    assert f"seeds: {file} is no text" in run.stderr


@pytest.mark.parametrize(
    ("uri", "text"),
    [
        (
            "ftp://127.0.0.1:9/pages.jsonl",
            "The feed ftp://127.0.0.1:9/pages.jsonl is whole only",
        ),
        ("nope://127.0.0.1/pages.jsonl", "FEEDS cannot be written"),
    ],
)
def test_feeds_that_may_lose_pages(crawls: Crawls, uri: str, text: str) -> None:
    run = crawls.run("http://s0.test/", options=("-O", uri), timeout_s=SECONDS)
    assert_told(run, text)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("max_depth", "abc", "max_depth is 'abc'; give a whole number"),
        ("max_pages", "-1", "max_pages is '-1'; give a whole number"),
        ("scope", "galaxy", "scope is 'galaxy'; use one of host, domain, seeds, any"),
        ("max_dept", "1", "no argument 'max_dept'. Did you mean max_depth?"),
    ],
)
def test_bad_arguments(crawls: Crawls, name: str, value: str, text: str) -> None:
    run = crawls.run("http://s0.test/", arguments={name: value}, timeout_s=SECONDS)
    assert_told(run, text)


@pytest.mark.parametrize("name", ["my crawl", "a\tb", "{web}", "web:2", "w" * 81])
@pytest.mark.parametrize("command", ["crawl", "fleet", "admin", "frontier"])
def test_a_bad_name_of_a_crawl_is_refused_before_anything_starts(
    tmp_path: Path, command: str, name: str
) -> None:
    words = {
        "crawl": ("crawl", "web", "-a", "seeds=http://s0.test/", "-a", f"crawl={name}"),
        "fleet": ("fleet", "web", "-a", "seeds=http://s0.test/", "-s", f"CRAWL={name}"),
        "admin": ("admin", "--crawl", name),
        "frontier": ("frontier", "status", "--crawl", name),
    }[command]
    folder = ("-s", f"CRAWL_DIR={tmp_path / 'crawl'}")
    run = scrapy(*words, *folder, timeout_s=SECONDS)
    assert run.code == ExitCode.MISTAKE
    assert f"scrapy {command}: The name of the crawl (CRAWL) is " in run.stderr
    assert "Traceback" not in run.stderr
    # No server, log or token.
    assert not (tmp_path / "crawl").exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CRAWL_IDLE", "sleep"),
        ("NEAR_DISTANCE", "9"),
        ("PROGRESS", "loud"),
        ("DELAY_MIN", "abc"),
        ("DNS_OVERRIDES", "{bad"),
    ],
)
def test_bad_settings(crawls: Crawls, name: str, value: str) -> None:
    run = crawls.run("http://s0.test/", settings={name: value}, timeout_s=SECONDS)
    assert_told(run, f"{name} is ", value)


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("SINKS", "mogno", "SINKS has 'mogno', which is no sink. Did you mean mongo?"),
        ("SINKS", "no.such.Sink", "SINKS names no.such.Sink, which cannot be loaded"),
        ("SINKS", "mongodb://me:hush@host/", "MONGO_URI"),
        ("PAGES_STORE", "none", "SINKS has taken its place"),
    ],
)
def test_bad_sinks(crawls: Crawls, name: str, value: str, told: str) -> None:
    run = crawls.run("http://s0.test/", settings={name: value}, timeout_s=SECONDS)
    assert_told(run, told)
    assert "hush" not in run.stderr


def test_an_unreachable_redis_is_named_without_its_password(tmp_path: Path) -> None:
    crawls = Crawls(tmp_path, "redis://me:hush@127.0.0.1:9/0")
    run = crawls.run("http://s0.test/", timeout_s=SECONDS)
    told = "Redis at redis://me:***@127.0.0.1:9/0 does not answer"
    assert_told(run, told, "REDIS_URL", code=ExitCode.SERVER_AWAY)
    assert "hush" not in run.stderr


def test_a_redis_url_that_is_none_is_named(tmp_path: Path) -> None:
    run = Crawls(tmp_path, "nonsense").run("http://s0.test/", timeout_s=SECONDS)
    assert_told(run, "REDIS_URL is 'nonsense'", "redis://host:6379/0")


def test_an_unreachable_mongodb_is_named_without_its_password(
    tmp_path: Path, redis_url: str
) -> None:
    crawls = Crawls(tmp_path, redis_url, "mongodb://me:hush@127.0.0.1:9/")
    run = crawls.run("http://s0.test/", timeout_s=SECONDS)
    told = "MongoDB at mongodb://me:***@127.0.0.1:9/ does not answer"
    assert_told(run, told, "MONGO_URI", code=ExitCode.SERVER_AWAY)
    assert "hush" not in run.stderr


def test_a_crawl_dir_below_a_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    # No servers are named, so embedded ones would be started there.
    settings = ["-s", f"CRAWL_DIR={file / 'crawl'}", "-s", "SINKS=none", "-s", "PROGRESS=off"]
    run = scrapy("crawl", "web", "-a", "seeds=http://s0.test/", *settings, timeout_s=SECONDS)
    assert_told(run, str(file / "crawl"))


def test_an_unknown_spider_is_named(crawls: Crawls) -> None:
    command = crawls.command("http://s0.test/")
    command[1] = "wbe"
    assert_told(scrapy(*command, timeout_s=SECONDS), "There is no spider 'wbe'; there are: web.")
