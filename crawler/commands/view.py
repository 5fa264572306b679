"""`scrapy view`, as Scrapy has it: without the frontier and its servers."""

from __future__ import annotations

import argparse

from scrapy.commands.view import Command as ScrapyView

from crawler.commands._settings import leave_crawl


class Command(ScrapyView):
    """Asks for single pages, by no crawl."""

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        super().process_options(args, opts)
        assert self.settings is not None
        leave_crawl(self.settings)
