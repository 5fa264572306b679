"""Records of runs for tests."""

from datetime import UTC, datetime
from typing import Any

from crawler.storage.runs import Run

AT = datetime(2026, 5, 4, 2, tzinfo=UTC)


def run(**fields: Any) -> Run:
    """A run that finished, with some fields of its own."""
    values: dict[str, Any] = {
        "id": "20260504T020000-00000000",
        "crawl": "web",
        "spider": "web",
        "machine": "m1",
        "pid": 4711,
        "user": "me",
        "worker": "00ff00ff00ff00ff",
        "command": "scrapy crawl web -a seeds=http://a.test/",
        "started": AT,
        "seen": AT,
        "ended": AT,
        "state": "finished",
        "reason": "finished",
        "options": {"seeds": "http://a.test/", "CONCURRENT_REQUESTS": 7, "a.b": None},
        "pages": 3,
        "errors": 1,
        "exit_code": 0,
    }
    return Run(**values | fields)
