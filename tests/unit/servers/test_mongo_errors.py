"""Errors of MongoDB in words that say what to do."""

import pytest
from pymongo.errors import (
    AutoReconnect,
    InvalidOperation,
    NotPrimaryError,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
)

from crawler.errors import ConfigurationError, CrawlerError, ServerAway
from crawler.servers.mongo import explain, may_pass, start_error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OperationFailure("Authentication failed.", 18), "does not accept the user"),
        (OperationFailure("not authorized", 13), "role readWrite on MONGO_DATABASE"),
        (OperationFailure("no space left", 14031), "disk is full"),
        (NotPrimaryError("not primary"), "takes no writes now"),
        (OperationFailure("not primary", 10107), "takes no writes now"),
        (ServerSelectionTimeoutError("No primary available for writes"), "takes no writes now"),
        (AutoReconnect("h:1: connection refused, Timeout: 5s, Topology …"), "h:1: connection refu"),
    ],
)
def test_what_is_the_matter(error: PyMongoError, said: str) -> None:
    assert said in explain(error)
    assert "Topology" not in explain(error)
    assert may_pass(error)


def test_a_mistake_of_ours_does_not_pass() -> None:
    assert not may_pass(InvalidOperation("closed"))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OperationFailure("Authentication failed.", 18), ConfigurationError),
        (OperationFailure("not authorized", 13), ConfigurationError),
        (OperationFailure("no space left", 14031), ServerAway),
        (OperationFailure("not primary", 10107), ServerAway),
        (NotPrimaryError("not primary"), ServerAway),
        (ServerSelectionTimeoutError("No servers found yet"), ServerAway),
    ],
)
def test_a_start_tells_an_absence_from_a_mistake(
    error: PyMongoError, kind: type[CrawlerError]
) -> None:
    found = start_error(error, "MongoDB does not answer")
    assert type(found) is kind
    assert str(found) == "MongoDB does not answer"
