"""Whole fleets, simulated: the crawler's own code in virtual time, with a real Redis.

A seed draws a scenario: some processes, a small web, and faults. All processes live in one event
loop whose time passes only when nothing is ready, and each command to Redis takes a time from the
seed. So the seed chooses in which order things happen, and the same seed runs the same schedule.

    scenario    what happens in a schedule, drawn from a seed; smaller scenarios, to shrink one
    loop        the event loop
    clock       the time, for Python and for Redis
    server      Redis, and the way to it: latency, lost replies, restarts that lose writes
    web         the pages, and what a crawl of them must find
    process     one process: the crawler's code, and stand-ins for Scrapy's
    world       the schedule: faults, sinks, and what must always hold
    history     what happened, for people
    runner      schedules one after the other; shrinks those that fail
    bugs        bugs that are planted on purpose, to see that they are found

`python -m simulation` runs it; docs/reliability.md tells what it checks, and what it cannot.
"""
