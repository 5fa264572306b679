"""The admin API: see and steer a crawl over HTTP, in a crawl's own process or alone for a fleet.

All state is in Redis and MongoDB, so that any instance answers for the whole crawl.
"""
