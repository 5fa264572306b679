"""Deduplication: find an earlier page with the same content, exactly or nearly.

    content  text without what many pages of a host share, and its SimHash; pure
    index    the records in Redis: finds content, remembers the content of stored pages

Keys: `cx:…` has exact hashes, `c0:…` to `c9:…` have parts of SimHashes. Each is a bucket of packed
records, changed by dedup/change.lua. A record is written when its page is durable, so a page that
was never stored is never an original. docs/adr/0011-content-seen.md has the reasons and sizes.

Entry points: `content.Boilerplate` and `index.ContentIndex`, used by pipelines/duplicates.py.
Public: nothing.
"""
