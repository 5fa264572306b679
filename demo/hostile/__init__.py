"""The zoo of hostile servers: hosts that would take a careless crawler's time, memory or trust.

    behaviour   one kind of hostility: its name, what it does, and how a crawl of it must end
    talk        one connection, as behaviours see it
    streams     connections and heads: too slow, broken off, without end, no HTTP
    bodies      lengths, chunks, compression
    pages       pages that parsers choke on
    discovery   redirects, robots.txt, sitemaps, names of hosts
    handshakes  TLS of every kind of wrong
    zoo         all of them, in the order of the docs
    server      serves them, each on a host of its own

The server, the tests and the table of the docs are made of the same list. What is called endless is
streamed until the client leaves. What has a size is about as large as a response may be.
"""
