"""Scrapy commands of the project; `crawl` replaces Scrapy's own. Scrapy loads this first."""

import sys

from crawler.interrupts import tell_in_one_line

sys.excepthook = tell_in_one_line
