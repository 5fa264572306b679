"""robots.txt: rules, cache, fetcher, and the judgement of URLs. After RFC 9309.

    rules    what an answer to a request for robots.txt allows; pure
    cache    rules in Redis for the fleet, the recent ones in memory
    fetcher  fetch a robots.txt and follow its redirects, also to other hosts
    gate     judge URLs, with or without a lease

Keys: `robots:<authority>` (the file or its absence, for as long as it holds) and
`robots:lock:<authority>` (who fetches it now). A host's slot in the frontier is also the lock of
its robots.txt: the first lease on unknown rules fetches them. A file that gives no answer makes the
URLs of its host wait, twice as long each time.

Entry point: middlewares/robots.py. Public: nothing here; `crawler.middlewares.robots.Robots` is.
"""
