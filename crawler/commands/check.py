"""`scrapy check`, as Scrapy has it: without the frontier and its servers."""

from __future__ import annotations

import argparse

from scrapy.commands.check import Command as ScrapyCheck

from crawler.commands._settings import leave_crawl


class Command(ScrapyCheck):
    """Runs the contracts of spiders, whose callbacks cannot travel through Redis."""

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        super().process_options(args, opts)
        assert self.settings is not None
        leave_crawl(self.settings)
