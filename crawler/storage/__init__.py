"""Storage: where pages go. A page's lease is settled only when its page is durable.

    commit  batches of pages, one in flight; retries while the server is away; stats `store/…`
    mongo/  the sink for MongoDB, its documents and their readers

A sink takes pages with `put(page)`, which returns a future that is done when the page is durable.
It owns its batches, retries, breaker and stats; `open` prepares it, `close` writes what waits. The
pipeline (pipelines/store.py) gives pages to it and pauses fetching while its breaker is open.

Entry points: `mongo.sink.MongoSink`, `mongo.reader.PageReader`. Public: nothing here.
"""
