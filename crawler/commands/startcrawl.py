"""`scrapy startcrawl`: make a small project with the add-on; see crawler/project."""

from crawler.project import Command as StartCrawl


class Command(StartCrawl):
    """The same command where this package is not installed, in its own folder."""
