"""The robots.txt middleware and its gate, with a scripted host and a Redis in memory."""

from typing import Any

from redis.exceptions import ConnectionError as RedisConnectionError
from scrapy import Request
from scrapy.http import Response

from crawler.middlewares.robots import Robots
from crawler.util.request_meta import CRAWL_DELAY, LEASE
from tests.support.schedulers import WritingScheduler, crawler_with, lease_of

ALLOWED, FORBIDDEN = "http://h.test/a", "http://h.test/private"
RULES = b"User-agent: crawler\nDisallow: /private\nCrawl-delay: 7\n"


Answer = Response | Exception


class Memory:
    """Commands of Redis that the cache of rules needs; `away` makes every call fail."""

    def __init__(self) -> None:
        self.away = False
        self._values: dict[str, tuple[Any, int]] = {}

    def pipeline(self, transaction: bool) -> "Pipeline":
        return Pipeline(self)

    def carry_out(self, name: str, *given: Any) -> Any:
        """One command, as a server would."""
        if name == "EVAL" and "SET" in given[0]:
            return self._store(*given[2:])
        if name == "EVAL":
            return self._eval(*given[2:])
        key = given[0]
        value, left_ms = self._values.get(key, (None, -2))
        if name == "SET":
            if "NX" in given and value is not None:
                return None
            self._values[key] = (given[1], given[-1])
            return True
        return {"GET": value, "PTTL": left_ms}[name]

    def _store(self, key: str, record: bytes, left_ms: int, mark: bytes) -> int:
        """Store the record of a file, unless it was forgotten."""
        if self._values.get(key, (b"", 0))[0][:1] == b"\xd9" != mark[:1]:
            return 0
        self._values[key] = (record, left_ms)
        return 1

    def _eval(self, key: str, token: str, more_ms: int = 0) -> None:
        """Unlock, or lock for longer."""
        value, left_ms = self._values.get(key, (None, 0))
        if value == token:
            self._values[key] = (value, left_ms + more_ms)
            if not more_ms:
                del self._values[key]


class Pipeline:
    """Commands that are carried out when all are there."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._commands: list[tuple[Any, ...]] = []

    def execute_command(self, *command: Any) -> None:
        self._commands.append(command)

    async def execute(self, raise_on_error: bool) -> list[Any]:
        if self._memory.away:
            raise RedisConnectionError("away")
        return [self._memory.carry_out(*command) for command in self._commands]


class World:
    """Middleware, with a host that gives scripted answers for its robots.txt."""

    def __init__(self, answer: Answer | dict[str, Answer], **settings: Any) -> None:
        self.scheduler = WritingScheduler()
        self.redis = Memory()
        self.answer = answer
        self.asked: list[Request] = []
        settings = {
            "DELAY_FACTOR": 0,
            "DELAY_MIN": 1,
            "ROBOTS_TTL": 1000,
            "ROBOTS_ERROR_TTL": 100,
            "ROBOTS_CACHE_SIZE": 10,
            **settings,
        }
        crawler = crawler_with(self.scheduler, **settings)
        crawler.engine.download_async = self._download  # type: ignore[union-attr]
        self.stats = crawler.stats
        self.robots = Robots.from_crawler(crawler)
        self.robots.open(self.redis)
        self.cache = self.robots.gate.cache

    async def _download(self, request: Request) -> Response:
        self.asked.append(request)
        given = self.answer
        if isinstance(given, dict):
            given = given[request.url]
        if isinstance(given, Exception):
            raise given
        return given

    async def meets(self, url: str, **meta: Any) -> Request | None:
        request = Request(url, meta={LEASE: lease_of(url), **meta})
        found = await self.robots.process_request(request)
        if found is None:
            assert request.meta[CRAWL_DELAY] >= 0
        return found


def answer(status: int = 200, body: bytes = RULES, **headers: Any) -> Response:
    return Response("http://h.test/robots.txt", status=status, body=body, headers=headers)
