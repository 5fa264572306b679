"""Keys of a request's meta that several packages use."""

LEASE = "lease"
# Bytes of the request and its response, for sinks that archive them (items.Exchange).
EXCHANGE = "exchange"
# Marks a request without a lease whose response is archived, as that for robots.txt.
ARCHIVED = "archived"
# Function that tells whether the request may be sent: its lease still belongs to this process.
MAY_FETCH = "may_fetch"
# Seconds that robots.txt asks for between two fetches.
CRAWL_DELAY = "crawl_delay"
# Lines of robots.txt about the use of the page.
USAGE = "robots_usage"
