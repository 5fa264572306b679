"""Deduplication: find an earlier page with the same content, exactly or nearly.

    content         text without what many pages of a host share, and its SimHash; pure
    minhash         sketches of texts, by which their similarity is estimated; pure
    index           the records of a crawl: finds content, remembers the content of stored pages
    near            what methods for near-duplicates have in common
    simhash_tables  texts with nearly the same SimHash
    minhash_tables  texts that are similar by their sketches
    buckets         packed records in Redis

Keys: `cx:…` has exact hashes; `c0:…` to `c9:…` have parts of SimHashes, or `cm0:…` to `cm4:…` bands
and `cs:…` sketches. Each is a bucket of packed records, changed by dedup/change.lua. A record is
written when its page is durable, so a page that was never stored is never an original.
docs/adr/0011-content-seen.md and 0036-minhash.md have the reasons and sizes.

Entry points: `content.Boilerplate` and `index.ContentIndex`, used by pipelines/duplicates.py.
Public: nothing.
"""
