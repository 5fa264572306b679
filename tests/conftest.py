"""Fixtures for all tests; the servers' own are in servers.py."""

pytest_plugins = ["tests.servers", "tests.cluster"]
