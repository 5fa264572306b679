"""`scrapy frontier`: inspect and control a crawl.

Exit 0: done; 1: not found; 2: wrong arguments or settings; 3: Redis does not answer.
"""

from __future__ import annotations

from scrapy.commands import ScrapyCommand

from crawler.commands import _frontier
from crawler.commands._verbs import VerbCommand


class Command(VerbCommand, ScrapyCommand):
    """Command with a verb for each question to a crawl, and for each order."""

    name = "frontier"
    verbs = _frontier.VERBS
    summary = "Inspect a crawl's frontier, and control it"
