"""A handful of modules that any package may use, each named by its job.

    tasks         end background tasks for good, wait with a limit
    per_crawler   what all components of a crawl share: made once, kept by the crawler
    backoff       delays that grow with failures in a row; pure
    breaker       circuit breaker of a server that fails; pure
    format        numbers and durations as people read and write them; pure
    secrets       hide passwords and tokens in texts; pure
    request_meta  keys of a request's meta that several packages use
    file_limit    open files: how many a crawl needs, what fits into less
    interrupts    SIGINT and SIGTERM before an event loop handles them

Nothing here imports another package but crawler.errors. What has one user belongs to that user.
Owns no keys. Public: nothing.
"""
