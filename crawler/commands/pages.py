"""`scrapy pages`: inspect, export and repair stored pages.

Exit 0: found; 1: not found; 2: wrong arguments or settings; 3: MongoDB does not answer.
"""

from __future__ import annotations

from scrapy.commands import ScrapyCommand

from crawler.commands import _pages
from crawler.commands._verbs import VerbCommand


class Command(VerbCommand, ScrapyCommand):
    """Command with a verb for each use of the stored pages."""

    name = "pages"
    verbs = _pages.VERBS
    summary = "Inspect stored pages, export and repair them"
