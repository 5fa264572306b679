"""Storage: where pages go. A page's lease is settled only when every sink has its page.

    sink      the contract of a sink, and its base class
    sinks     reads SINKS: names, URLs and class paths of sinks
    storage   all sinks of a crawl: what each gets, the breaker of each, what is spooled
    commit    batches of pages, one in flight; writes that are repeated while a server is away
    spool     pages on disk while a sink is away
    spill     URLs that the frontier has no room for
    runs      the record of each process of a crawl
    retention decides where content belongs at its age
    disk_log  records in files that the processes of a machine share
    documents the fields of a page, as MongoDB, object stores and exports have them
    elastic   the sink for Elasticsearch and OpenSearch
    objects   one object for each page in an object store
    warc/     WARC files, their index and readers
    mongo/    the sink for MongoDB, its documents and their readers
    bodies    reads bodies where sinks keep them: WARC files and objects
    reader    the contract of a reader of stored pages
    readers   opens the reader of the store that SINKS names
    postgres/ the catalogue in PostgreSQL: its tables, sink and spill
    screenshots  pictures of rendered pages, in a folder or an object store
    export/   stored pages as JSON lines, CSV, Parquet or WARC
    search/   an index of the stored pages, and searches in it

The pipeline (pipelines/store.py) gives pages to `storage.Storage`. Folders: SPOOL_DIR/<crawl>,
CRAWL_DIR/spill/<crawl>, CRAWL_DIR/export, CRAWL_DIR/screenshots, and that of SINKS=warc:FOLDER.
Entry points: `storage.Storage`, `sinks.named_sinks`, `readers.open_reader`, `warc.reader.Archive`.
Public: `Sink`, for sinks of your own.
"""

from crawler.storage.sink import Place, Results, Sink, SinkContext, SinkReport

__all__ = ["Place", "Results", "Sink", "SinkContext", "SinkReport"]
