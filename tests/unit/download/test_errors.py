"""The table of failures: the reason of an error, and what follows from it."""

import pytest
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    IgnoreRequest,
    ResponseDataLossError,
    UnsupportedURLSchemeError,
)

from crawler.dns.lookup import DnsFailed, NoSuchHost
from crawler.download.errors import (
    KINDS,
    Forbidden,
    Malformed,
    PrivateAddress,
    StoppedTooLong,
    TooBig,
    TooBigUnpacked,
    failure_of,
)


@pytest.mark.parametrize(
    ("error", "reason", "is_final", "answered"),
    [
        (DownloadTimeoutError(), "timeout", False, False),
        (DownloadConnectionRefusedError(), "refused", False, False),
        (DownloadFailedError(), "connection", False, False),
        # These are DownloadFailedError too: the nearest class decides.
        (Malformed(), "malformed", False, True),
        (StoppedTooLong(), "stood_still", False, None),
        (ResponseDataLossError(), "truncated", False, True),
        (NoSuchHost(), "dns_nxdomain", False, None),
        (DnsFailed(), "dns", False, None),
        (CannotResolveHostError(), "dns", False, None),
        (DownloadCancelledError(), "cancelled", True, None),
        (PrivateAddress(), "private_address", True, None),
        (TooBig(), "too_big", True, None),
        (TooBigUnpacked(), "too_big", True, None),
        (UnsupportedURLSchemeError(), "scheme", True, None),
        (Forbidden(Forbidden.BY_ROBOTS, "no"), "robots", True, None),
        (IgnoreRequest(), "IgnoreRequest", True, None),
        (KeyError(), "KeyError", False, None),
    ],
)
def test_an_error_has_the_kind_of_its_nearest_class(
    error: Exception, reason: str, is_final: bool, answered: bool | None
) -> None:
    kind = failure_of(error)
    assert (kind.reason, kind.is_final, kind.answered) == (reason, is_final, answered)


def test_each_reason_and_each_error_is_in_the_table_once() -> None:
    reasons = [kind.reason for kind in KINDS]
    errors = [error for kind in KINDS for error in kind.errors]
    assert len(set(reasons)) == len(reasons)
    assert len(set(errors)) == len(errors)
