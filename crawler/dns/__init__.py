"""Names of hosts → addresses: looked up ahead of time, once for the fleet.

    resolver   the addresses of a host: DNS_OVERRIDES, then the cache, then DNS
    cache      answers in Redis for the fleet, the recent ones in memory
    lookup     one lookup: the hosts file, then name servers, by dnspython; never blocks
    prefetch   lookups of hosts that are fetched from soon
    addresses  which addresses a crawler may connect to; pure
    errors     NoSuchHost and DnsFailed

Keys: `dns:<host>`, the addresses of a host; it expires with its answer. Reasons:
docs/adr/0009-dns.md.

Entry points: `resolver.Resolver.of(crawler)` for fetches, `prefetch.DnsPrefetch` for the
middleware. Public: nothing.
"""
