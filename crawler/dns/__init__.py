"""Names of hosts → addresses: looked up ahead of time, once for the fleet, without waiting long.

    resolver   the addresses of a host: DNS_OVERRIDES, then the cache, then DNS; waits a bounded
    time cache      answers in Redis for the fleet, the recent ones in memory lookup     ask DNS:
    the hosts file, then name servers; never blocks prefetch   names of hosts that are about to be
    contacted breaker    stop asking while DNS does not answer; pure addresses  which addresses a
    crawler may connect to; pure errors     NoSuchHost and DnsFailed

Keys: `dns:<host>`, gone when the answer expires. docs/adr/0009-dns.md has the reasons.

Entry points: `resolver.Resolver.of(crawler)` for fetches, `prefetch.DnsPrefetch` for the
middleware. Public: nothing.
"""
