"""A handful of modules that any package may use, each named by its job.

    tasks         cancel background tasks reliably, wait with a limit
    per_crawler   one instance of a class for each crawl: Class.of(crawler)
    backoff       delays that grow with failures in a row; pure
    breaker       circuit breaker of a server that fails; pure
    recent        dict that forgets what was not used for longest; pure
    words         words of a text; pure
    decompress    unpack a body in steps of bounded size
    packed        read msgpack that may be damaged; pure
    format        numbers and durations as people read and write them; pure
    secrets       hide passwords and tokens in texts; pure
    request_meta  keys of a request's meta that several packages use
    file_limit    open files: how many a crawl needs, what it does with less
    full_disk     tell a full disk from other errors of files; pure
    interrupts    SIGINT and SIGTERM until an event loop handles them

Nothing here imports another package but crawler.errors. What has one user belongs to that user.
Owns no keys. Public: nothing.
"""
