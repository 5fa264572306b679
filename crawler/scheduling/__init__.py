"""This process's side of the frontier: claim, hold, settle, retry, recrawl, options, the end.

    lease_pool     leases of this process: claim, fetch, settle; `put_off` and `settle_after`; when
                   the crawl is over
    visits         slots of other hosts, for the parts of pages that are rendered
    heartbeat      keeps this process known to the fleet, and takes over from dead ones
    intake         URLs from outside the frontier: pushed to Redis, or spilled
    kafka_seeds    seeds from topics of Kafka; offsets are committed when Redis has them
    request_codec  requests ↔ entries
    page_maker     pages of visits, from responses and failures
    outcome        retries of fetches that failed, their policy, dead letters
    recrawls, recrawl_policy    when a page is visited again
    recrawl_budget, recrawl_plan, change_rate    the same within a budget of the fleet
    options        options that all processes of a crawl share
    engine         Scrapy's engine

Owns no keys: everything goes through frontier/. Nothing here knows `Scheduler`, which assembles
these parts. Public: nothing; use crawler.scheduler.Scheduler.
"""
