"""Tools for Redis that know nothing of the frontier.

    connection    connect to a server, Sentinel or a cluster; locks that end by themselves
    sentinel      stay with the master that Sentinel names
    batching      commands of many tasks in one round trip
    invalidation  let all processes drop a cached entry from memory
    errors        errors of calls: which of them pass, and the remedy for others
    checks        whether a crawl may trust a server
    settings      address of Redis and key of pushed seeds, in the words of scrapy-redis

Entry points: `connection.connect`, `batching.CommandBatcher`. Public: nothing.
"""
