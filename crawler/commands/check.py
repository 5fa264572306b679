"""Scrapy's `scrapy check`, without the frontier and its servers."""

from scrapy.commands.check import Command as ScrapyCheck

from crawler.commands._settings import WithoutCrawl


class Command(WithoutCrawl, ScrapyCheck):
    """Scrapy's command; the callbacks under contract cannot go through Redis."""
