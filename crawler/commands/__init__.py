"""Scrapy commands of the project; `crawl` replaces Scrapy's own. Scrapy loads this first."""

from crawler import interrupts

interrupts.watch()
