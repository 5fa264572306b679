"""Explain errors of MongoDB, and tell those that pass from those that people must correct."""

from pymongo.errors import ConnectionFailure, NotPrimaryError, OperationFailure, PyMongoError

from crawler.errors import ConfigurationError, CrawlerError, ServerAway

# Error codes of MongoDB.
DUPLICATE_KEY = 11000
UNAUTHORIZED, _AUTHENTICATION_FAILED = 13, 18
_DISK_FULL = 14031
_NOT_PRIMARY = frozenset({10107, 13435, 13436, 10058, 189})
_EXPLANATIONS = {
    _AUTHENTICATION_FAILED: "it does not accept the user and the password of MONGO_URI",
    UNAUTHORIZED: "the user of MONGO_URI may not do this: give it the role readWrite on "
    "MONGO_DATABASE",
    _DISK_FULL: "its disk is full: make room there",
}
READ_ONLY = (
    "it takes no writes now, as a secondary or a replica set without a primary: name all "
    "members of the set in MONGO_URI, with ?replicaSet=…"
)
# Codes of one write in a batch that may work the next time: the document is not at fault.
_PASSING = _NOT_PRIMARY | {UNAUTHORIZED, _DISK_FULL}


def may_pass(error: PyMongoError) -> bool:
    """Return whether another attempt makes sense. Not for errors of single documents."""
    return isinstance(error, ConnectionFailure | OperationFailure)


def code_may_pass(code: int) -> bool:
    """Return whether the error of one document in a batch may pass, by its code."""
    return code in _PASSING


def start_error(error: PyMongoError | TimeoutError, text: str) -> CrawlerError:
    """Return the error with which a start ends, with this text.

    People must correct rights and passwords; nearly everything else passes by itself.
    """
    if isinstance(error, OperationFailure) and not error.timeout:
        passes = error.code is not None and code_may_pass(error.code)
        if not passes or error.code == UNAUTHORIZED:
            return ConfigurationError(text)
    return ServerAway(text)


def explain(error: PyMongoError) -> str:
    """Describe an error for people, with a remedy where there is one."""
    code = error.code if isinstance(error, OperationFailure) else None
    if code in _EXPLANATIONS:
        return _EXPLANATIONS[code]
    text = str(error).partition(", Timeout:")[0].partition(" (configured timeouts:")[0]
    is_without_primary = "Primary()" in text or "No primary available" in text
    if isinstance(error, NotPrimaryError) or code in _NOT_PRIMARY or is_without_primary:
        return READ_ONLY
    return text.partition(", full error:")[0]
