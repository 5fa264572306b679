"""Canonical URLs, their fingerprints, hosts and politeness groups. Pure, total: any text will do.

`UrlRules` are made once from the settings, and all processes of a crawl must have the same ones:
another canonical form is another fingerprint. `canonical` and `fingerprint` follow the defaults.

    canonical    the one spelling of a URL, and its rules
    written      how a URL is written where that is not its canonical form
    fingerprint  what URL-seen knows a request by
    join         links made absolute, as browsers do
    hosts        host, authority, registered domain, politeness group

A URL is known by its canonical form, and fetched and judged by robots.txt as it is written.
dropped_parameters.txt has the parameters that never matter. Owns no keys.

Public: the names below.
"""

from crawler.urls.canonical import (
    FOLDS,
    GROUPS,
    Rejected,
    Spelling,
    UrlRules,
    Urls,
    dropped_parameters,
)
from crawler.urls.fingerprint import SITEMAP, fingerprint, folded
from crawler.urls.hosts import authority_of, host_of, icann_domain, registered_domain
from crawler.urls.join import Base, join
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
