"""Scrapy's `scrapy view`, without the frontier and its servers."""

from scrapy.commands.view import Command as ScrapyView

from crawler.commands._settings import WithoutCrawl


class Command(WithoutCrawl, ScrapyView):
    """Scrapy's command, for single pages."""
