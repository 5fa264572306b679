"""How long a host or an IP address is left alone.

    host_delays  the delay after a fetch, and the circuit breaker of a host: a pure policy, and
                 the facts about hosts that it needs (usual times, overloads, failures)
    host_rules   settings of single hosts (HOST_RULES); pure
    ip_clock     addresses that many hosts share (IP_DELAY), with ip_clock.lua

Keys: `health:overload:<host>`, `health:failures:<host>`, `address:<address>`; all expire. The clock
of a host is in the frontier (`host:<host>`, `host_heap`) and nowhere else: this package decides how
long a delay is, the frontier keeps it.

Entry points: `HostDelays.of(crawler).after(host, fetch)`, `IpClock.of(crawler).wait_ms(host)`.
Public: nothing.
"""
