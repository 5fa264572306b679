"""Names of feeds that several processes may use: FEEDS with %(process)s in their URIs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crawler.assembly import PROCESS

if TYPE_CHECKING:
    from scrapy import Spider


def with_process(params: dict[str, Any], spider: Spider) -> dict[str, Any]:  # noqa: ARG001 - Scrapy's form
    """Scrapy's own parameters, and the machine and number of this process."""
    return {**params, "process": "{machine}-{pid}".format(**PROCESS)}
