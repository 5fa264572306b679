"""The figures of a process and of its crawl in the format of Prometheus."""

from crawler.metrics.fleet import FleetReading, add_fleet, read_fleet
from crawler.metrics.sheet import CONTENT_TYPE, Sheet
from crawler.metrics.worker import Worker, add_worker

__all__ = [
    "CONTENT_TYPE",
    "FleetReading",
    "Sheet",
    "Worker",
    "add_fleet",
    "add_worker",
    "read_fleet",
]
