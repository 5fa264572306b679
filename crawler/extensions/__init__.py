"""Scrapy extensions: thin adapters that start a service with a crawl and end it with the crawl.

    components  keeps our middlewares and handlers, whatever a spider's settings name
    fastpath    switches the fast path on (fastpath/), tunes garbage collector and allocator
    monitoring  sends the figures of this process to the fleet, and a line a minute to the log
    progress    shows the progress and the summary (monitoring/console/)
    admin       the admin API in this process (admin/), if ADMIN_PORT is set
    tiers       moves content by its age once an hour (storage/mongo/tiers.py), with PAGES_KEEP

The connections to Redis and MongoDB are an extension too: servers/connections.py, because most
packages use it. Each extension reads its settings in `from_crawler` and has no state but its
service. Owns no keys. Public: the paths in EXTENSIONS of crawler/settings.py; each may be switched
off there.
"""
