"""Duplicates of content: which page has this content already, exactly or nearly.

    simhash      64 bits of a text that differ little between texts that differ little; pure
    boilerplate  blocks of text that many pages of a host have; pure
    layout       which buckets of which tables a record lies in, and how it is packed; pure
    index        the records in Redis: find a content, remember the contents of stored pages

Keys: `cx:…` has exact hashes, `c0:…` to `c9:…` have parts of SimHashes; each is a bucket of packed
records, changed by dedup/change.lua. A record is written when its page is durable, so a page that
was lost on its way is no original. docs/adr/0011-content-seen.md has the reasons and sizes.

Entry point: `index.ContentIndex`, used by pipelines/duplicates.py. Public: nothing.
"""
