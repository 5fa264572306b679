"""Keys of a request's meta that several packages use."""

LEASE = "lease"
# Bytes of the request and its response, for sinks that archive them (items.Exchange).
EXCHANGE = "exchange"
# Decision (scheduling/outcome.Bury) after the last attempt: the lease is settled so when all that
# comes of the response is safe.
GIVEN_UP = "given_up"
# Marks a request without a lease whose response is archived, as that for robots.txt.
ARCHIVED = "archived"
# Function that tells whether the request may be sent: its lease still belongs to this process.
MAY_FETCH = "may_fetch"
# Seconds that robots.txt asks for between two fetches.
CRAWL_DELAY = "crawl_delay"
# Lines of robots.txt about the use of the page.
USAGE = "robots_usage"
# Function that takes the response of a fetch, and returns the one to go on with. It is awaited
# within the fetch, whose time limit does not include it.
FINISH = "finish"
# When the fetch began, by monotonic().
FETCH_STARTED = "fetch_started"
# Result of a fetch (politeness/host_delays.Fetch), if it ended before its response was finished.
FETCH = "fetch"
# Marks a request that is sent beside those of the engine, as a part of a page that is rendered.
BESIDE = "beside"
# How a browser made of the response (items.Rendering).
RENDERING = "rendering"
