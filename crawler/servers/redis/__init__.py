"""Redis plumbing that knows nothing of the frontier.

    connection  connect to a server, Sentinel or a cluster; locks that end by themselves
    batching    commands of many tasks in one round trip
    errors      what a call may raise, and the remedy
    health      does Redis answer? one log line when it goes away, one when it is back
    checks      may a crawl trust this server?
    settings    where Redis is, in the words of scrapy-redis

Entry points: `connection.connect`, `batching.CommandBatcher`. Public: nothing.
"""
