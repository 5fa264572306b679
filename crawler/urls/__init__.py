"""Canonical URLs, their fingerprints, hosts and politeness groups. Pure, total: any text will do.

`UrlRules` are made once from the settings, and all processes of a crawl must have the same ones:
another canonical form is another fingerprint. `canonical` and `fingerprint` follow the defaults.
"""

from crawler.urls.canonical import Rejected, Spelling, Urls
from crawler.urls.hosts import authority_of, host_of, icann_domain, registered_domain
from crawler.urls.joining import Base, join
from crawler.urls.rules import FOLDS, GROUPS, UrlRules, dropped_parameters
from crawler.urls.seen_key import SITEMAP, fingerprint, folded
from crawler.urls.written import with_fragment, written_url

DEFAULT = Urls()
canonical = DEFAULT.canonical

__all__ = [
    "DEFAULT",
    "FOLDS",
    "GROUPS",
    "SITEMAP",
    "Base",
    "Rejected",
    "Spelling",
    "UrlRules",
    "Urls",
    "authority_of",
    "canonical",
    "dropped_parameters",
    "fingerprint",
    "folded",
    "host_of",
    "icann_domain",
    "join",
    "registered_domain",
    "with_fragment",
    "written_url",
]
