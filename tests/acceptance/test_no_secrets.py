"""Canaries in all credentials: none comes out anywhere, neither of crawls nor of failing starts."""

import asyncio
import gzip
import re
import signal
import threading
from base64 import b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import psutil
import pymongo
import pytest

from demo.process import DemoServer
from demo.web import WebOptions
from tests.acceptance.crawls import Crawls
from tests.acceptance.fleets import Fleet
from tests.support.http_proxy import HttpProxy, proxying
from tests.support.private_mongo import PrivateMongo
from tests.support.private_redis import PrivateRedis
from tests.support.rights import redis_user

# A part in common, and a sign that URLs quote.
MARK = "kanarie"
USER = "crawler"


def canary(of: str) -> str:
    return f"{MARK}+{of}"


FORMS = re.compile(MARK.encode(), re.IGNORECASE)


def leaks(name: str, data: bytes) -> list[str]:
    """Say where a canary is: as it is, or in the credentials of a header."""
    found = [data[max(0, at.start() - 90) : at.end() + 30] for at in FORMS.finditer(data)]
    for of in ("proxy", "http"):
        basic = b64encode(f"{USER}:{canary(of)}".encode())
        found += [basic] if basic in data else []
    return [f"{name}: {each!r}" for each in found[:3]]


def leaks_of_files(folder: Path) -> list[str]:
    found = []
    for path in folder.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            data = gzip.decompress(data) if path.suffix == ".gz" else data
            found += leaks(str(path.relative_to(folder)), data)
    return found


@contextmanager
def proxy_to(port: int) -> Iterator[tuple[str, HttpProxy]]:
    """Serve a proxy that asks for its password, in a thread with a loop of its own."""
    ready, ended = threading.Event(), threading.Event()
    made: list[tuple[str, HttpProxy]] = []

    async def serve() -> None:
        async with proxying() as proxy:
            proxy.to = port
            proxy.credentials = b"Basic " + b64encode(f"{USER}:{canary('proxy')}".encode())
            url = f"http://{USER}:{quote(canary('proxy'))}@{proxy.address}"
            made.append((url, proxy))
            ready.set()
            await asyncio.to_thread(ended.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert ready.wait(60)
        yield made[0]
    finally:
        ended.set()
        thread.join(60)


@pytest.fixture
def private(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[PrivateRedis, str, str]]:
    """A Redis, its URL and the URI of a MongoDB, with a user and a password each."""
    users = tmp_path_factory.mktemp("users") / "users.acl"
    users.write_text(f"user default on nopass ~* &* +@all\n{redis_user(canary('redis'))}\n")
    with PrivateRedis("--aclfile", str(users)) as redis, PrivateMongo("--auth") as mongo:
        login = f"{USER}:{quote(canary('redis'))}@"
        with pymongo.MongoClient[dict[str, Any]](mongo.uri) as client:
            client.admin.command("createUser", USER, pwd=canary("mongo"), roles=["root"])
        uri = mongo.uri.replace("://", f"://{USER}:{quote(canary('mongo'))}@")
        yield redis, redis.url.replace("unix://", f"unix://{login}"), uri


def test_a_crawl_tells_no_secret_to_logs_pages_figures_or_processes(
    tmp_path: Path,
    private: tuple[PrivateRedis, str, str],
    postgres_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    redis, redis_url, mongo_uri = private
    token = canary("admin-token")
    monkeypatch.setenv("ADMIN_TOKEN", token)
    postgres = postgres_url.replace(f"{USER}@", f"{USER}:{quote(canary('postgresql'))}@")
    crawls = Crawls(tmp_path, redis_url, mongo_uri)
    site = DemoServer(WebOptions(hosts=4, pages=4, zoo="demo"), tmp_path / "access.log")
    with site as web, proxy_to(web.port) as (proxy_url, proxy):
        monkeypatch.setenv("http_proxy", proxy_url)
        settings = {
            "LOG_LEVEL": "DEBUG",
            "ADMIN_ENABLED": 1,
            "ADMIN_PORT": 0,
            "CRAWL_IDLE": "wait",
            "SINKS": f"mongo {postgres} warc:{tmp_path / 'warc'}",
            "HTTPAUTH_USER": USER,
            "HTTPAUTH_PASS": canary("http"),
            "HTTPAUTH_DOMAIN": "s0.test",
            "FEEDS": f'{{"{tmp_path / "pages.jsonl"}": {{"format": "jsonlines"}}}}',
        }
        with Fleet(crawls, web, **settings) as fleet:
            process = fleet.start("http://s0.test/", arguments={"scope": "any"})
            url = process.says(r"Dashboard and admin API: (http://\S+)")[1]
            process.says(r"Crawled \(200\) <GET http://s\d\.test/[^>]+>")
            processes = [
                one
                for child in [psutil.Process(process.pid)]
                for one in child.children(recursive=True)
            ]
            lines = [" ".join(each.cmdline()) for each in processes]
            answers = figures(url, token)
            process.send(signal.SIGTERM)
            assert process.wait() == 0, process.log
    assert "Traceback" not in process.log, process.log
    assert "http://s0.test/" in process.log
    found = leaks_of_files(tmp_path)
    found += leaks("processes", "\n".join(lines).encode())
    for name, answer in answers.items():
        found += leaks(name, answer)
    with pymongo.MongoClient[dict[str, Any]](mongo_uri) as client:
        for collection in client.crawler.list_collection_names():
            stored = list(client.crawler[collection].find())
            assert stored or collection == "spilled"
            found += leaks(f"mongo {collection}", repr(stored).encode())
    folder = Path(redis.socket_path).parent
    found += leaks_of_files(folder)
    assert not found, "\n".join(found)
    # They were used.
    basic = b64encode(f"{USER}:{canary('http')}".encode())
    assert any(b"\r\nAuthorization: Basic " + basic in request for request in proxy.requests)
    assert list(tmp_path.glob("warc/*.warc.gz"))
    assert (tmp_path / "pages.jsonl").stat().st_size > 1000


def figures(url: str, token: str) -> dict[str, bytes]:
    """Return what the admin API answers to each question that takes no argument."""
    with httpx.Client(
        base_url=url, headers={"Authorization": f"Bearer {token}"}, trust_env=False, timeout=60
    ) as http:
        paths = http.get("/openapi.json").json()["paths"]
        asked = [path for path, methods in paths.items() if "get" in methods and "{" not in path]
        answers = {path: http.get(path) for path in asked if path != "/events"}
    assert answers["/metrics"].status_code == answers["/jobs"].status_code == 200
    assert answers["/jobs"].json()
    return {path: answer.content for path, answer in answers.items()}


AWAY = "127.0.0.1:1"
# What each start that fails is given; {} stands for its canary.
FAILURES = {
    "redis password": {"REDIS_URL": "unix://crawler:{}@SOCKET?db=0"},
    "redis arguments": {"REDIS_URL": f"redis://{AWAY}/0?username=crawler&password={{}}"},
    "redis parameters": {
        "REDIS_URL": f"redis://{AWAY}/0",
        "REDIS_PARAMS": '{"password": "{}", "nonsense": 1}',
    },
    "mongo password": {"MONGO_URI": "mongodb://crawler:{}@MONGO"},
    "mongo option": {"MONGO_URI": f"mongodb://{AWAY}/?tls=true&tlsCertificateKeyFilePassword={{}}"},
    "postgresql": {"SINKS": f"postgresql://crawler:{{}}@{AWAY}/x"},
    "elasticsearch": {"SINKS": f"elasticsearch://crawler:{{}}@{AWAY}/pages"},
    "elasticsearch key": {"SINKS": f"elasticsearch://{AWAY}/pages"},
    "s3": {"SINKS": "s3://bucket/prefix"},
    "s3 in the url": {"SINKS": "s3://crawler:{}@bucket/prefix"},
    "kafka": {
        "SINKS": f"kafka://{AWAY}",
        "KAFKA_OPTIONS": '{"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", '
        '"sasl.username": "crawler", "sasl.password": "{}"}',
    },
}
# Variables of the environment, for all of them.
VARIABLES = {
    "ADMIN_TOKEN": canary("admin-token"),
    "ELASTICSEARCH_API_KEY": canary("elasticsearch"),
    "AWS_ENDPOINT_URL": f"http://{AWAY}",
    "AWS_REGION": "us-east-1",
    "AWS_ACCESS_KEY_ID": "crawler",
    "AWS_SECRET_ACCESS_KEY": canary("s3"),
    "http_proxy": f"http://crawler:{quote(canary('proxy'))}@{AWAY}",
}


def test_starts_that_fail_tell_no_secret(
    tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)

    def start(case: str) -> list[str]:
        folder, secret = tmp_path / case, canary(case.replace(" ", "-"))
        folder.mkdir()
        settings: dict[str, Any] = {
            "SINKS": "mongo",
            "LOG_LEVEL": "DEBUG",
            "ADMIN_ENABLED": 1,
            "ADMIN_PORT": 0,
            "MONGO_TIMEOUT": 0.5,
            "REDIS_TIMEOUT": 1,
        }
        for name, value in FAILURES[case].items():
            filled = value.replace("{}", secret if value.startswith("{") else quote(secret))
            settings[name] = filled.replace("SOCKET", socket).replace("MONGO", mongo_at)
        run = Crawls(folder, redis_url).run("http://s0.test/", settings=settings)
        assert run.code in (2, 3), (case, run.stderr)
        found = leaks("stdout", run.stdout.encode()) + leaks("stderr", run.stderr.encode())
        return [f"{case}: {each}" for each in [*found, *leaks_of_files(folder)]]

    # They wait for servers: all at the same time.
    with PrivateMongo("--auth") as mongo, PrivateRedis() as redis:
        socket, mongo_at = redis.socket_path, mongo.uri.removeprefix("mongodb://")
        with ThreadPoolExecutor(len(FAILURES)) as pool:
            found = [each for case in pool.map(start, FAILURES) for each in case]
    assert not found, "\n".join(found)
