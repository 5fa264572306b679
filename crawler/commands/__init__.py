"""Scrapy commands of the project; `crawl` replaces Scrapy's own. Scrapy loads this first."""

import sys

from crawler import interrupts

sys.excepthook = interrupts.tell_in_one_line
interrupts.watch()
