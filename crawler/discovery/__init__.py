"""Which URLs come into a crawl: seeds, pushed URLs, links and sitemaps; scope, traps and priority.

    seeds        read seeds: URLs, files, standard input; each mistake is named
    pushed       elements that others push to `<spider>:start_urls`, as with scrapy-redis
    follow       bring the links of a page and the URLs of sitemaps into the frontier
    selection    choose among the links of one page: the hot loop of a crawl
    scope        does a URL belong to the crawl? pure
    traps        endless spaces of URLs, recognised by their shapes; pure
    priority     a score from 0 to 100, and the front queue of a URL; pure
    host_counts  URLs and inbound links of each host, shared with the fleet

Owns no keys: counts go through Frontier.count_hosts. A link passes canonical form, seen cache,
scope, traps and priority, in this order, and nothing is sent for those that are known.

Entry points: `seeds.read`, `follow.LinkFollower` (one for a crawl: `scheduler.link_follower`).
Public: nothing.
"""
