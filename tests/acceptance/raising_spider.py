"""A spider that makes a process write whatever it can beside its log."""

import threading
import warnings

from scrapy.http import Response

from crawler.items import Page
from crawler.spiders.web import WebSpider


class RaisingSpider(WebSpider):
    name = "raising"

    def extract(self, response: Response, page: Page) -> None:
        warnings.warn("mind the gap", stacklevel=1)
        thread = threading.Thread(target=lambda: 1 / 0)
        thread.start()
        thread.join()
        self.logger.info("%d pages", "many")
        raise ValueError("on purpose")
