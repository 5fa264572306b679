"""Connections to Redis and MongoDB, and embedded servers for crawls that were given none.

    connections  one connection to each for all components of a crawl; Scrapy extension
    redis/       plumbing: connect, batches, errors, health, checks, scrapy-redis settings
    mongo        what errors of MongoDB mean, and whether it answers now
    embedded/    a private redis-server and mongod in the crawl's folder

The Redis client is imported only here, in frontier/ and in dedup/; others that own keys get a
connection or a CommandBatcher. Errors of the client libraries are translated here, once. Every call
has a time limit. Owns no keys but `crawler:probe`, which says whether writes are taken.

Entry points: `connections.Servers.of(crawler)` in a crawl, `Servers.from_settings` in commands.
Public: nothing.
"""
