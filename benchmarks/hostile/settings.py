"""The settings of a crawl whose event loop is watched."""

from crawler.settings import *  # noqa: F403
from crawler.settings import EXTENSIONS as _EXTENSIONS

EXTENSIONS = {**_EXTENSIONS, "benchmarks.hostile.meter.Meter": 0}
