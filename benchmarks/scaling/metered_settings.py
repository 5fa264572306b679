"""The settings of a crawl whose event loop is measured."""

import os

from benchmarks.scaling.lag import NO_ROBOTS as _NO_ROBOTS
from crawler.settings import *  # noqa: F403
from crawler.settings import DOWNLOADER_MIDDLEWARES as _MIDDLEWARES
from crawler.settings import EXTENSIONS as _EXTENSIONS

EXTENSIONS = {**_EXTENSIONS, "benchmarks.scaling.lag.LagMeter": 0}
if _NO_ROBOTS in os.environ:
    DOWNLOADER_MIDDLEWARES = {**_MIDDLEWARES, "crawler.middlewares.robots.Robots": None}
