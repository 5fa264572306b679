"""robots.txt after RFC 9309: rules, cache, fetches, and the decision about each URL.

    gate     `RobotsGate.check(url, lease)` gives Allowed, PutOff or Denied; it fetches files, and
             keeps rules in Redis for the fleet, the recent ones in memory; locks on files. The same
             for parts of pages: `check_part(url)`, `fetch_rules(url, visitor)`
    records  the files in Redis: store, read, forget
    rules    interprets an answer, parses its rules; pure

Keys: `robots:<authority>` (the file, or that there was no answer, until it expires) and
`robots:lock:<authority>` (held by the process that fetches the file). The slot of a host in the
frontier is a lock, too: the first lease on a host with unknown rules fetches them. While a file
gives no answer, the URLs of its host wait, twice as long after each try.

Entry point: middlewares/robots.py, which hands in whether a lease may still be fetched.
Public: nothing here; `crawler.middlewares.robots.Robots` is.
"""
