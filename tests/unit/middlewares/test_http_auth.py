"""Credentials are sent where they are for, and nowhere else."""

from typing import Any

import pytest
from scrapy import Request
from scrapy.core.downloader.middleware import DownloaderMiddlewareManager

from crawler.errors import ConfigurationError
from crawler.middlewares.scrapy_twins import HttpAuth
from tests.support.crawlers import project_crawler

GIVEN = {"HTTPAUTH_USER": "user", "HTTPAUTH_PASS": "secret", "HTTPAUTH_DOMAIN": "h.test"}


def loaded(**settings: Any) -> list[HttpAuth]:
    manager = DownloaderMiddlewareManager.from_crawler(project_crawler(**settings))
    return [found for found in manager.middlewares if isinstance(found, HttpAuth)]


@pytest.mark.parametrize(
    ("url", "sent"),
    [
        ("http://h.test/robots.txt", b"Basic dXNlcjpzZWNyZXQ="),
        ("https://www.h.test/a", b"Basic dXNlcjpzZWNyZXQ="),
        ("http://other.test/", None),
    ],
)
def test_a_domain_gets_its_credentials(url: str, sent: bytes | None) -> None:
    (auth,) = loaded(**GIVEN)
    request = Request(url)
    auth.process_request(request)
    assert request.headers.get("Authorization") == sent


def test_credentials_for_everybody_are_a_mistake() -> None:
    with pytest.raises(ConfigurationError, match="HTTPAUTH_DOMAIN must be set"):
        loaded(HTTPAUTH_USER="user")


def test_a_crawl_without_credentials_does_without_it() -> None:
    assert loaded() == []
