"""URLs: canonical form, fingerprint, host and politeness group. Pure, total: any text will do.

    canonical  canonical form and its rules; how a URL is written; joined links; fingerprints;
               host, authority, registered domain, politeness group

A URL is identified by its canonical form. It is fetched, and checked against robots.txt, as it is
written. `UrlRules` are made once from the settings. All processes of a crawl must have the same
rules, because another canonical form is another fingerprint. `canonical` and `fingerprint` follow
the defaults. dropped_parameters.txt lists query parameters that never matter. Owns no keys.

Public: the names below.
"""

from crawler.urls.canonical import (
    FOLDS,
    GROUPS,
    SITEMAP,
    Base,
    Rejected,
    Spelling,
    UrlRules,
    Urls,
    authority_of,
    dropped_parameters,
    fingerprint,
    host_of,
    icann_domain,
    registered_domain,
    with_fragment,
    written_url,
)

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
    "host_of",
    "icann_domain",
    "registered_domain",
    "with_fragment",
    "written_url",
]
