"""A crawl by TLS, as users of Redis and MongoDB that have only the rights in docs/security.md."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymongo
import pytest
import redis

from chaos.proxy import Proxy
from crawler.errors import ExitCode
from demo.process import DemoServer
from demo.truth import truth
from demo.web import Web, WebOptions
from tests.acceptance.crawls import Crawls, scrapy
from tests.support.certificates import Authority
from tests.support.cluster import free_port
from tests.support.private_mongo import PrivateMongo
from tests.support.private_redis import PrivateRedis
from tests.support.rights import mongo_actions, redis_user

OPTIONS = WebOptions(hosts=6, pages=3, seed=3, zoo="demo")
PASSWORD = "of-the-crawler"
# What people do with a crawl, in this order.
COMMANDS = (
    "doctor",
    "frontier robots s0.test --forget",
    "frontier forget http://s0.test/",
    "pages export -o -",
    "pages stats",
    "jobs list",
    "frontier delete --pages --yes",
)


@dataclass(frozen=True)
class Guarded:
    """A Redis and a MongoDB that let in users with their password, by TLS."""

    folder: Path
    authority: Authority
    redis: PrivateRedis
    redis_port: int
    mongo: PrivateMongo
    mongo_port: int

    @property
    def redis_url(self) -> str:
        return (
            f"rediss://crawler:{PASSWORD}@127.0.0.1:{self.redis_port}/0"
            f"?ssl_ca_certs={self.authority.path}"
        )

    @property
    def mongo_uri(self) -> str:
        return (
            f"mongodb://crawler:{PASSWORD}@127.0.0.1:{self.mongo_port}/crawler"
            f"?tls=true&tlsCAFile={self.authority.path}"
        )

    def refused(self) -> list[Any]:
        """Return what Redis refused to the crawler's user."""
        with redis.Redis(unix_socket_path=self.redis.socket_path) as client:
            return list(client.acl_log())


def make_mongo_user(mongo: PrivateMongo) -> None:
    with pymongo.MongoClient[dict[str, Any]](mongo.uri) as client:
        client.admin.command("createUser", "root", pwd=PASSWORD, roles=["root"])
    with pymongo.MongoClient[dict[str, Any]](mongo.uri, username="root", password=PASSWORD) as root:
        where = {"db": "crawler", "collection": ""}
        rights = {"resource": where, "actions": mongo_actions()}
        root.crawler.command("createRole", "crawler", privileges=[rights], roles=[])
        root.crawler.command("createUser", "crawler", pwd=PASSWORD, roles=["crawler"])


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    authority, port = Authority(tmp_path), free_port()
    users = tmp_path / "users.acl"
    users.write_text(f"user default on nopass ~* &* +@all\n{redis_user(PASSWORD)}\n")
    by_tls = ("--tlsMode", "preferTLS", "--tlsCertificateKeyFile", str(authority.certify()))
    with (
        PrivateRedis("--aclfile", str(users)) as frontier,
        Proxy(frontier.socket_path, tls=authority.server_context()) as proxy,
        PrivateMongo("--auth", *by_tls, port=port) as mongo,
    ):
        make_mongo_user(mongo)
        yield Guarded(tmp_path, authority, frontier, proxy.port, mongo, port)


def test_a_crawl_and_its_commands_need_tls_and_these_rights_only(
    tmp_path: Path, guarded: Guarded
) -> None:
    crawls = Crawls(tmp_path, guarded.redis_url, guarded.mongo_uri)
    with DemoServer(OPTIONS, tmp_path / "access.log") as web:
        # IP_DELAY has keys of its own.
        run = crawls.run(
            Web(OPTIONS).seeds[0],
            web=web,
            arguments={"scope": "any", "recrawl": "adaptive"},
            settings={"IP_DELAY": 0.001},
        )
    assert run.code == 0, run.stderr
    assert run.summary["finished"]
    assert "Traceback" not in run.stderr, run.stderr
    assert not guarded.refused()
    settings = crawls.settings()
    given = [part for name, value in settings.items() for part in ("-s", f"{name}={value}")]
    ends = {command: scrapy(*command.split(), *given) for command in COMMANDS}
    wrong = {command: run.stderr + run.stdout for command, run in ends.items() if run.code}
    assert not wrong, json.dumps(wrong, indent=1)
    assert not guarded.refused()
    exported = ends["pages export -o -"].stdout.splitlines()
    assert not truth(OPTIONS, read_sitemaps=True).missing_from(
        {json.loads(line)["url"] for line in exported}
    )
    with redis.Redis(unix_socket_path=guarded.redis.socket_path) as client:
        # What lets it begin anew beside its pages.
        assert client.keys("{web*") == [b"{web}:deleted"]


def test_a_right_that_a_script_lacks_is_named_by_the_start(tmp_path: Path) -> None:
    users = tmp_path / "users.acl"
    rules = redis_user(PASSWORD).replace(" +hset ", " ")
    users.write_text(f"user default on nopass ~* &* +@all\n{rules}\n")
    with PrivateRedis("--aclfile", str(users)) as server:
        url = server.url.replace("unix://", f"unix://crawler:{PASSWORD}@")
        run = Crawls(tmp_path, url).run("http://s0.test/")
    assert run.code == ExitCode.MISTAKE
    assert "User crawler has no permissions to run the 'hset' command" in run.stderr
    assert "give its user the rights in docs/security.md" in run.stderr
    assert "Traceback" not in run.stderr
