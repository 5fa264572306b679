"""Processes of a fleet write feeds of their own."""

import os

from scrapy import Spider
from scrapy.extensions.feedexport import apply_uri_params

from crawler.pipelines.feeds import with_process


def test_a_feed_may_be_named_after_its_process() -> None:
    params = with_process({"name": "web", "time": "now"}, Spider("web"))
    name = apply_uri_params("%(name)s-%(process)s.jsonl", params)
    assert name.startswith("web-")
    assert name.endswith(f"-{os.getpid()}.jsonl")
