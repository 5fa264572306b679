"""Where pages go: MongoDB, and what a page is while it is written.

    documents  the documents of a page, and compression of bodies
    schema     collections, indexes and version
    writer     batches of pages, one in flight; says which pages were at fault
    retry      writes again while MongoDB is away, with a breaker
    reader     reads pages back, and counts them
    repair     finds and mends metadata and content that do not belong together
    spill      URLs that the frontier has no room for
    stats      what the store counts

Collections: `pages_metadata` (one document for each URL), `pages_content` (one for each page that
is kept), `pages_schema`, `spilled`. A page's lease is settled when both documents are durable.
docs/pages.md describes the fields, docs/adr/0013-page-writes.md the order of writes.

Entry points: `writer.GroupCommit` for pipelines/store.py, `reader.PageReader` for commands.
Public: the collections' documents, as docs/pages.md has them.
"""
