"""Keys of a request's meta that several packages use."""

LEASE = "lease"
# Function that tells whether the request may be sent: its lease still belongs to this process.
MAY_FETCH = "may_fetch"
# Seconds that robots.txt asks for between two fetches.
CRAWL_DELAY = "crawl_delay"
