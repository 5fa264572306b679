"""Connections to Redis, MongoDB and others, and embedded servers for crawls that name none.

    connections  one connection to each server for all components of a crawl; Scrapy extension
    health       whether a server answers; one log line when it goes away, one when it is back
    redis/       connect, share round trips, explain errors, check a server, scrapy-redis settings
    certificates recognize errors of TLS: a certificate that is refused; pure
    mongo        explain errors of MongoDB
    kafka        address and options of Kafka clients, explain their errors
    kafka_group  read topics as a member of a consumer group
    postgres     connect to PostgreSQL, explain its errors
    embedded/    private redis-server and mongod in the crawl's folder

The Redis client is imported only here, in frontier/ and in dedup/. Other packages that own keys get
a connection or a CommandBatcher. Errors of the client libraries are translated here, once. Every
call has a time limit. Owns the keys `crawler:probe`, which tests whether writes are accepted, and
`invalidated`, see redis/invalidation.py.

Entry points: `connections.Servers.of(crawler)` in a crawl, `Servers.from_settings` in commands.
Public: nothing.
"""
