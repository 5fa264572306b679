"""URLs that come into a crawl: seeds, pushed URLs, links and sitemaps; scope, traps and priority.

    seeds        reads seeds: URLs, files, standard input; each is parsed once
    pushed       reads elements that are pushed to `<spider>:start_urls`, as with scrapy-redis
    follow       chooses among the links of a page, the hot loop of a crawl, and adds them and the
                 URLs of sitemaps to the frontier
    parents      remembers the URLs of pages with new links, for `parent_url` of pages
    scope        decides whether a URL belongs to the crawl; pure
    traps        recognises endless spaces of URLs by their shapes; pure
    priority     scores a URL from 0 to 100, and chooses its front queue; pure
    page_ranks   files with the ranks of pages, which `scrapy pages rank` writes

Owns no keys: counts go through the frontier's host index. A link passes canonical form, seen cache,
scope, traps and priority, in this order; nothing is sent to Redis for known links.

Entry points: `seeds.parse` and `seeds.read`, `follow.LinkFollower` (one for a crawl, see
`scheduler.link_follower`). Public: nothing.
"""
