"""`scrapy parse`, as Scrapy has it: without the frontier and its servers."""

from __future__ import annotations

import argparse

from scrapy.commands.parse import Command as ScrapyParse

from crawler.commands._settings import leave_crawl


class Command(ScrapyParse):
    """Asks for single pages, by no crawl."""

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        super().process_options(args, opts)
        assert self.settings is not None
        leave_crawl(self.settings)
