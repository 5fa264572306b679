"""Our crawl as it is delivered, on the benchmark's web: without delays, with a meter."""

import os

# The crawl imports it in the background when it runs; imports do not count, for any contender.
import crawler.admin.server  # noqa: F401
from crawler.settings import *  # noqa: F403
from crawler.settings import EXTENSIONS as _EXTENSIONS
from crawler.settings import ITEM_PIPELINES as _PIPELINES

DNS_OVERRIDES = {".test": "127.0.0.1"}
ALLOW_NETWORKS = ["127.0.0.0/8"]
# Seeds before all links, as a breadth-first crawl has it, so that all fetch the same pages.
PRIORITY_WEIGHTS = {"depth": -100}
FRONTIER_WEIGHTS = FRONTIER_LOAD_WEIGHTS = [96, 1, 1, 1, 1]
DELAY_MIN = 0.0
DELAY_FACTOR = 0.0
CONCURRENT_REQUESTS = 100
CONCURRENT_REQUESTS_PER_DOMAIN = 100
# Each run has its own.
MONGO_DATABASE = os.environ["BENCH_DATABASE"]
EXTENSIONS = {**_EXTENSIONS, "benchmarks.crawl.meter.Meter": 0}

if os.environ.get("BENCH_CRAWL") == "links":
    # Without content deduplication and storage: what the peers do, and robots, traps, scores.
    SINKS = "none"
    ITEM_PIPELINES = {
        **_PIPELINES,
        "crawler.pipelines.duplicates.Duplicates": None,
        "crawler.pipelines.store.Store": None,
    }
