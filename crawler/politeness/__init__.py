"""How long a host or an IP address is left alone.

    delay        the policy: the delay after a fetch, and the breaker of a host; pure
    host_delays  the policy with what is remembered of hosts: usual times, overloads, failures
    host_rules   what people say of single hosts (HOST_RULES); pure
    ip_clock     addresses that many hosts share (IP_DELAY), with ip_clock.lua

Keys: `health:overload:<host>`, `health:failures:<host>`, `address:<address>`; all end by
themselves. The clock of a host is in the frontier (`host:<host>`, `host_heap`) and nowhere else:
this package says how long, the frontier keeps it.

Entry points: `host_delays.HostDelays.of(crawler)`, `ip_clock.IpClock`. Public: nothing.
"""
