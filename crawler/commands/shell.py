"""Scrapy's `scrapy shell`, without the frontier and its servers."""

from scrapy.commands.shell import Command as ScrapyShell

from crawler.commands._settings import WithoutCrawl


class Command(WithoutCrawl, ScrapyShell):
    """Scrapy's command, for single pages."""
