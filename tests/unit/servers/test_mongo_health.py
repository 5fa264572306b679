"""One line when MongoDB goes away, one when it is back, whoever notices."""

import pytest
from pymongo.errors import NetworkTimeout

from crawler.servers.mongo import PAGES, SPILLED_URLS, MongoHealth

ERROR = NetworkTimeout("timed out (configured timeouts: socketTimeoutMS: 20.0ms)")


def test_it_is_back_when_all_that_failed_works(caplog: pytest.LogCaptureFixture) -> None:
    health = MongoHealth()
    for _ in range(2):
        health.failed(PAGES, ERROR)
        health.failed(SPILLED_URLS, ERROR)
    assert health.trouble == (
        "MongoDB has not answered for 0 s; pages, URLs kept there wait (timed out)"
    )
    # A server whose disk is full answers to reads.
    health.worked(SPILLED_URLS)
    assert "pages wait" in health.trouble
    health.worked(PAGES)
    assert health.trouble == ""
    lines = [record.getMessage()[:15] for record in caplog.records]
    assert lines == ["MongoDB is away", "MongoDB is back"]


def test_one_that_takes_writes_can_be_read(caplog: pytest.LogCaptureFixture) -> None:
    health = MongoHealth()
    health.failed(SPILLED_URLS, ERROR)
    health.worked(PAGES)
    assert health.trouble == ""
    health.worked(PAGES)
    assert caplog.text.count("MongoDB is back") == 1
