"""How the crawl goes, in numbers: counted by each process, added up for the fleet in Redis."""

from crawler.vitals.fleet import Fleet, Minute, read
from crawler.vitals.histogram import Histogram
from crawler.vitals.report import report
from crawler.vitals.vitals import Vitals

__all__ = ["Fleet", "Histogram", "Minute", "Vitals", "read", "report"]
