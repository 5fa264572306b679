"""Downloader and spider middlewares: thin adapters between Scrapy and the services of a crawl.

In the order in which a request meets them:

    retries        statuses that are worth another attempt
    host_rules     HOST_RULES: hosts that are not crawled, or not to the end
    dns            the address of the host is known before it is fetched from (dns/)
    robots         robots.txt (robots/)
    conditional    If-None-Match and If-Modified-Since for pages that are known
    ip_delay       hosts that share an address (politeness/ip_clock.py)
    rendering      pages that need a browser (rendering/)
    politeness     the end of a fetch, and how long its host is left alone (politeness/)
    redirects      targets go through the frontier
    scrapy_twins   HttpAuth and Offsite: Scrapy's own, only for crawls that need them
    leases         spider middleware: settles a lease when all that came of it is safe

Owns no keys. A middleware that cannot let a request through now puts it off:
`return scheduler.leases.put_off(request, delay_ms)`, see scheduling/lease_pool.py.
Public: `robots.Robots` and the other paths in crawler/settings.py.
"""
