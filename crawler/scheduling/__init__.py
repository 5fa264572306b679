"""This process's side of the frontier: claim, hold, settle, retry, recrawl, options, the end.

    connect        Redis, the frontier, the spill and the pushed seeds of a scheduler
    claimer        claims leases when there is room, and notices when nothing is left
    lease_pool     the leases of this process, from claim to settlement
    heartbeat      keeps the process known to the fleet, and takes over from dead ones
    adder          URLs → outbox, past a cache of known ones; redirects
    intake         URLs from outside: pushed to Redis, or spilled to MongoDB
    request_codec  requests ↔ entries
    failures, outcome, retry_policy       what becomes of a fetch that failed
    recrawls, recrawl_policy              when a page is visited again
    options        what the whole fleet follows, and this process's copy of it
    completion     is the crawl over?
    engine, notices, add_seeds

Owns no keys: all goes through frontier/. Nothing here knows `Scheduler` at run time, which puts
these parts together. Public: nothing; use crawler.scheduler.Scheduler.
"""
