"""Scrapy's `scrapy parse`, without the frontier and its servers."""

from scrapy.commands.parse import Command as ScrapyParse

from crawler.commands._settings import WithoutCrawl


class Command(WithoutCrawl, ScrapyParse):
    """Scrapy's command, for single pages."""
