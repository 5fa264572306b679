"""`scrapy doctor` on real servers: good ones, wrong ones, none."""

import json
import os
import re
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import redis as redis_client
from scrapy.settings import Settings
from scrapy.utils.project import get_project_settings

from crawler import settings as ours
from crawler.commands import doctor
from crawler.commands.doctor import FAILURE, OK, WARNING, Finding, browser, findings
from crawler.servers.connections import Servers
from crawler.storage import Sink, SinkReport
from tests.acceptance.crawls import scrapy
from tests.support.dns_server import DnsServer
from tests.support.kafka_broker import KafkaBroker


@pytest.fixture
async def dns() -> AsyncIterator[DnsServer]:
    async with DnsServer() as dns:
        dns.set("host.test", "192.0.2.1")
        yield dns


async def examine(tmp_path: Path, **changes: Any) -> dict[str, Finding]:
    settings = get_project_settings()
    for name, value in {"REQUIRE_PERSISTENCE": False, **changes}.items():
        settings.set(name, value, "cmdline")
    servers = Servers.from_settings(settings)
    try:
        found = findings(settings, servers, crawl_dir=tmp_path, dns_name="host.test")
        return {finding.subject: finding async for finding in found}
    finally:
        await servers.close()


async def test_good_servers_pass(
    tmp_path: Path, redis_url: str, mongo_uri: str, dns: DnsServer
) -> None:
    agent = "mine/1.0 (+https://mine.example/bot)"
    found = await examine(
        tmp_path,
        REDIS_URL=redis_url,
        MONGO_URI=mongo_uri,
        DNS_SERVERS=[dns.address],
        USER_AGENT=agent,
    )
    wrong = [f for f in found.values() if f.level != OK and f.subject != "Redis memory"]
    assert not wrong
    assert {"settings", "user agent", "file limit", "Redis keeps", "mongo", "DNS"} <= set(found)
    assert "192.0.2.1 for host.test" in found["DNS"].text


async def test_a_redis_that_forgets_is_a_failure(
    tmp_path: Path, redis_url: str, dns: DnsServer
) -> None:
    with redis_client.Redis.from_url(redis_url) as client:
        client.config_set("appendonly", "no")
        try:
            found = await examine(
                tmp_path, REDIS_URL=redis_url, SINKS="none", DNS_SERVERS=[dns.address]
            )
        finally:
            client.config_set("appendonly", "yes")
    assert found["Redis keeps"].level == FAILURE
    assert "(SINKS)" in found["sinks"].text


async def test_the_nodes_of_a_cluster_are_all_asked(
    tmp_path: Path, redis_cluster_url: str, dns: DnsServer
) -> None:
    found = await examine(
        tmp_path, REDIS_URL=redis_cluster_url, SINKS="none", DNS_SERVERS=[dns.address]
    )
    assert "cluster of 3" in found["Redis"].text


async def test_the_topics_of_seeds_are_looked_for(
    tmp_path: Path, redis_url: str, dns: DnsServer, kafka: KafkaBroker, topic_prefix: str
) -> None:
    topic = f"{topic_prefix}seeds"
    kafka.create_topic(topic, 3)
    common = {"REDIS_URL": redis_url, "SINKS": "none", "DNS_SERVERS": [dns.address]}
    found = await examine(tmp_path, KAFKA_SEEDS=f"{kafka.url}/{topic}", **common)
    assert found["seeds"].level == OK
    assert f"1 topic (partitions: {topic} 3)" in found["seeds"].text
    found = await examine(tmp_path, KAFKA_SEEDS=f"{kafka.url}/{topic},missing", **common)
    assert found["seeds"].level == FAILURE
    assert "names the topic 'missing'" in found["seeds"].text
    found = await examine(tmp_path, KAFKA_SEEDS="localhost/seeds", **common)
    assert found["seeds"].text == found["settings"].text
    assert "use kafka://host:9092/topic" in found["seeds"].text


@pytest.mark.parametrize(("is_folder", "level"), [(True, OK), (False, WARNING)])
async def test_the_store_of_moved_content_is_tried(
    tmp_path: Path, redis_url: str, dns: DnsServer, is_folder: bool, level: str
) -> None:
    folder = tmp_path / "objects"
    if not is_folder:
        folder.write_text("")
    servers = {"REDIS_URL": redis_url, "SINKS": "none", "DNS_SERVERS": [dns.address]}
    found = await examine(tmp_path, **servers, PAGES_TIER_URL=folder.as_uri())
    assert found["tiers"].level == level
    assert folder.as_uri() in found["tiers"].text
    assert not is_folder or list(folder.iterdir()) == []
    assert "tiers" not in await examine(tmp_path, **servers)


@pytest.mark.parametrize(("mood", "level"), [("answers", OK), ("servfail", FAILURE)])
async def test_a_dns_that_does_not_answer_is_a_failure(
    tmp_path: Path, redis_url: str, dns: DnsServer, mood: str, level: str
) -> None:
    dns.mood = mood
    found = await examine(tmp_path, REDIS_URL=redis_url, SINKS="none", DNS_SERVERS=[dns.address])
    assert found["DNS"].level == level


async def test_a_name_without_an_address_is_a_warning(
    tmp_path: Path, redis_url: str, dns: DnsServer
) -> None:
    dns.forget("host.test")
    found = await examine(tmp_path, REDIS_URL=redis_url, SINKS="none", DNS_SERVERS=[dns.address])
    assert found["DNS"].level == WARNING
    assert "--name" in found["DNS"].advice


class Chatty(Sink):
    """Sink that shows its address in all that it says."""

    async def open(self) -> None:
        raise OSError(f"nobody at {self.target}")

    async def write(self, batch: Sequence[Any]) -> None: ...

    async def close(self) -> None: ...


class Confused(Chatty):
    async def open(self) -> None:
        raise ValueError(f"{self.target}: the password is pa55word")


class Proud(Chatty):
    async def check(self) -> SinkReport:
        return SinkReport(f"at {self.target}", {f"{self.target} is slow": f"Leave {self.target}."})


async def test_sinks_of_others_are_told_without_their_passwords(
    tmp_path: Path, redis_url: str, dns: DnsServer
) -> None:
    sinks = [f"{kind.__module__}.{kind.__name__}" for kind in (Chatty, Confused, Proud)]
    found = await examine(
        tmp_path,
        REDIS_URL=redis_url,
        SINKS=[f"{path}://me:pa55word@h.test/" for path in sinks],
        SPOOL_DIR=tmp_path / "spool",
        DNS_SERVERS=[dns.address],
    )
    assert found["Chatty"].level == found["Confused"].level == FAILURE
    assert found["Chatty"].text == f"nobody at {sinks[0]}://me:***@h.test/"
    assert found["Confused"].text.startswith("ValueError: ")
    assert found["Proud"].level == WARNING
    assert "pa55word" not in str(found)
    assert found["spool"].level != FAILURE
    # No server of ours is used.
    assert "disk" not in found
    assert not (tmp_path / "spool").exists()


# --- the browser ----------------------------------------------------------------------------------


async def test_a_crawl_that_renders_no_pages_needs_no_browser(
    tmp_path: Path, redis_url: str, dns: DnsServer
) -> None:
    common = {"REDIS_URL": redis_url, "SINKS": "none", "DNS_SERVERS": [dns.address]}
    found = await examine(tmp_path, RENDER="never", RENDER_BROWSER="/no/such", **common)
    assert "browser" not in found
    found = await examine(tmp_path, RENDER="auto", RENDER_BROWSER="/no/such", **common)
    assert found["browser"].level == FAILURE


def rendering_settings(program: Path | str | None) -> Settings:
    settings = Settings({"RENDER": "auto", "RENDER_BROWSER": program and str(program)})
    settings.setmodule(ours, "default")
    return settings


def program_in(folder: Path, script: str) -> Path:
    path = folder / "browser"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


async def test_the_browser_of_the_system_tells_its_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    found = await browser(rendering_settings(None))
    assert found.level == OK
    assert re.match(r"\w+ \d+\.\d+.* at /", found.text)


async def test_a_browser_without_its_sandbox_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    program = program_in(tmp_path, "echo Own Browser 1.0")
    found = await browser(rendering_settings(program))
    assert (found.level, found.text) == (
        WARNING,
        f"Own Browser 1.0 at {program}, without its sandbox",
    )
    assert "another user than root" in found.advice


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("exit 127", "it ended with status 127"),
        ("exit 0", "it ended with status 0"),
        ("exec sleep 1000", "no answer within 0.5 s"),
        ("while true; do echo noise; done", "no answer within 0.5 s"),
    ],
    ids=["fails", "silent", "hangs", "endless"],
)
async def test_a_browser_that_does_not_run_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, why: str
) -> None:
    if "no answer" in why:
        monkeypatch.setattr(doctor, "_BROWSER_S", 0.5)
    program = program_in(tmp_path, script)
    found = await browser(rendering_settings(program))
    assert (found.level, found.text) == (FAILURE, f"{program} does not tell its version ({why})")
    assert "RENDER_BROWSER" in found.advice


async def test_a_missing_browser_is_a_failure_that_names_the_setting() -> None:
    found = await browser(rendering_settings("/no/such"))
    assert found.level == FAILURE
    assert "RENDER_BROWSER is '/no/such'" in found.text


def test_the_command_says_all_that_is_wrong_and_exits_with_1(tmp_path: Path) -> None:
    values = {
        "REDIS_URL": "redis://:secret@127.0.0.1:1/",
        "MONGO_URI": "mongodb://me:secret@127.0.0.1:1/",
        "DNS_SERVERS": "127.0.0.1:1",
        "DELAY_MIN": "abc",
        "CRAWL_DIR": str(tmp_path / "none"),
    }
    settings = [word for name, value in values.items() for word in ("-s", f"{name}={value}")]
    run = scrapy("doctor", "--json", "--name", "host.test", *settings)
    assert run.code == 1
    assert "Traceback" not in run.stderr
    assert "secret" not in run.stdout + run.stderr
    failed = [line for line in map(json.loads, run.stdout.splitlines()) if line["level"] == FAILURE]
    assert [line["subject"] for line in failed] == ["settings", "Redis", "mongo", "DNS"]
    assert not (tmp_path / "none").exists()


def test_without_a_crawl_the_embedded_servers_are_tried_and_leave_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "none"
    # Nobody listens there: DNS fails at once.
    run = scrapy("doctor", "-s", f"CRAWL_DIR={folder}", "-s", "DNS_SERVERS=127.0.0.1:1")
    assert "Redis         Valkey 9." in run.stdout
    assert "checks failed" in run.stdout
    assert not folder.exists()
