"""Scrapy's path of a page at less cost: the same calls, signals and counts, fewer tasks and layers.

    request_task       one task takes a request from the scheduler through fetch and callback
    middleware_chains  middlewares and pipelines called without wrappers
    signals            signals without handlers cost nothing
    decompression      bodies unpacked in half of the time, within DOWNLOAD_MAXSIZE
    stats              stats without checks for deprecated arguments
    event_loop         short steps of the event loop while many responses arrive
    turns              pages take turns, so that nothing else waits for long

These modules use private parts of Scrapy 2.19. Outside of them only scheduling/engine.py does, and
the download handler, which uses what Scrapy's own handlers do:
tests/unit/fastpath/test_private_parts.py lists each part and fails for any other. Other tests run a
crawl with and without the fast path and compare the events of each URL. Without the extension
`FastPath` the crawl runs by Scrapy's own code. docs/adr/0016-one-task-a-page.md has the reasons,
docs/performance.md the savings. Owns no keys.

Entry point: extensions/fastpath.py. Public: nothing.
"""
