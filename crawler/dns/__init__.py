"""Names of hosts → addresses: looked up ahead of time, once for the fleet.

    resolver   the addresses of a host: DNS_OVERRIDES, then the cache (answers in Redis for the
               fleet, the recent ones in memory), then DNS; lookups of hosts that are next
    lookup     one lookup: the hosts file, then name servers, by dnspython; never blocks
    addresses  which addresses a crawler may connect to; pure

Keys: `dns:<host>`, the addresses of a host; it expires with its answer. `{dns:<host>}:lock`, the
process that looks the host up; it expires after two seconds. Reasons: docs/adr/0009-dns.md.

Entry points: `resolver.Resolver.of(crawler)` for fetches, `resolver.DnsPrefetch` for the
middleware. Public: nothing.
"""
