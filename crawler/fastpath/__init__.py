"""Scrapy's way of a page at less cost: the same calls, signals and counts, fewer tasks and layers.

    request_task       one task takes a request from the scheduler through fetch and callback
    middleware_chains  middlewares and pipelines called without wrappers
    signals            signals that nobody hears are not prepared
    stats              statistics without checks for deprecated arguments
    process_tuning     garbage collector and allocator set up for pages that come and go

Everything here stands on private parts of Scrapy 2.19, and nothing else does except
scheduling/engine.py. Tests run a crawl both ways and compare what each URL met. Without the
extension `FastPath` Scrapy's own way is taken. docs/adr/0016-one-task-a-page.md has the reasons,
docs/performance.md what each part saves.

Entry point: extensions/fastpath.py. Public: nothing.
"""
