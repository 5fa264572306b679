"""Scrapy's `scrapy fetch`, without the frontier and its servers."""

from scrapy.commands.fetch import Command as ScrapyFetch

from crawler.commands._settings import WithoutCrawl


class Command(WithoutCrawl, ScrapyFetch):
    """Scrapy's command, for single pages."""
