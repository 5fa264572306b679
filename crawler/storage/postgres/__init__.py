"""PostgreSQL: the catalogue of pages, for SINKS=postgresql://…

    schema      versions of the tables, and their migration (migrations/*.sql)
    sink        pages as rows, written by COPY
    reader      records of pages, and their bodies by their places
    spill       URLs that the frontier has no room for

Tables: `crawled_urls`, `documents`, `crawl_jobs`, `spilled`, `catalogue_schema`; view:
`robots_cache`. docs/catalogue.md describes them. Bodies and texts are not kept here: they are in
the sinks that `documents.places` names.
"""
