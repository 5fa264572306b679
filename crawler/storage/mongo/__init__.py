"""MongoDB as the place for pages.

    sink    writes pages as documents with compressed bodies; the sink of pipelines/store.py
    schema  collections, indexes, version, and the migration of an earlier version
    reader  reads pages back, counts and deletes them, and repairs those that are not whole
    tiers   moves content to an object store by its age, and deletes it
    moved   reads and deletes content in that object store
    runs    the record of each process of a crawl
    spill   URLs that the frontier has no room for

Collections: `pages_metadata` (one document for each URL of each crawl), `pages_content` (one for
each page that is kept), `pages_schema`, `spilled`, `jobs` (one for each run). docs/pages.md
describes the fields, docs/adr/0013-page-writes.md the order of writes,
docs/adr/0025-identity-of-pages.md the migration.

Entry points: `sink.MongoSink`, and `reader.MongoReader` for commands.
Public: the documents, as docs/pages.md has them.
"""
