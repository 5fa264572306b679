"""Fixtures for all tests; the servers' own are in servers.py."""

from hypothesis import settings

pytest_plugins = [
    "tests.support.servers",
    "tests.support.cluster",
    "tests.support.browser",
    "tests.support.s3_server",
    "tests.support.kafka_broker",
    "tests.support.postgres_server",
]

# The same examples in every run, and no deadline: a busy machine is no failure.
settings.register_profile("tests", deadline=None, derandomize=True, database=None)
settings.load_profile("tests")
