"""Middlewares: robots.txt, the outcome of a fetch, and the settlement of leases."""
