"""Why a fetch fails: the errors of a fetch, and one table of what follows from each.

A new reason is a row of KINDS, and an error class here if Scrapy has none that fits. Retries,
delays, figures and the advice at the end of a crawl read the table.
"""

from dataclasses import dataclass

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

from crawler.dns.lookup import NoSuchHost


class PrivateAddress(DownloadCancelledError):
    """Address of a host that is in a network which is not crawled."""


class TooBig(DownloadCancelledError):
    """Body of more bytes than DOWNLOAD_MAXSIZE."""


class TooBigUnpacked(IgnoreRequest):
    """Compressed body that has more bytes than DOWNLOAD_MAXSIZE when it is unpacked."""


class BadEncoding(DownloadFailedError):
    """Compressed body that cannot be unpacked."""


class TooManyDocuments(DownloadCancelledError):
    """Document that is not fetched now: too many wait to be read. Its URL is fetched later."""


class RenderingFull(DownloadCancelledError):
    """Page that is not rendered now: too many wait for a browser, its crawl ends, or this process
    may have lost its lease. Its URL is fetched later.
    """


class NotRendered(DownloadFailedError):
    """Browser that crashed, hung or took too much memory while it rendered a page."""


class StoppedTooLong(DownloadFailedError):
    """Pause of this process while it connected; another one may own the host by now."""


class Malformed(DownloadFailedError):
    """Answer of a host that is not HTTP."""


class ProxyFailed(DownloadFailedError):
    """Proxy that cannot be used or reached, or that opens no tunnel: not the host's fault."""


class Forbidden(IgnoreRequest):
    """URL that must not be fetched; `reason` is one of REASONS. That is not a failure."""

    BY_ROBOTS, BY_HOST_RULES = "robots", "host_rules"
    REASONS = (BY_ROBOTS, BY_HOST_RULES)

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class FailureKind:
    """Kind of failures: its reason, as it is counted and stored, and what follows from it."""

    reason: str
    errors: tuple[type[Exception], ...] = ()
    # Another attempt would fail the same way.
    is_final: bool = False
    # Whether the host answered. False counts for its breaker; None says nothing about the host.
    answered: bool | None = None
    # For people whose crawl got no page.
    advice: str = ""


_NO_ANSWER = "the host does not answer; does a browser on this machine reach it?"
KINDS = (
    FailureKind("timeout", (DownloadTimeoutError,), answered=False, advice=_NO_ANSWER),
    FailureKind("refused", (DownloadConnectionRefusedError,), answered=False, advice=_NO_ANSWER),
    FailureKind(
        "connection",
        (DownloadFailedError,),
        answered=False,
        advice="the connection broke, or TLS failed: with DOWNLOAD_VERIFY_CERTIFICATES, is the "
        "certificate valid? `-L DEBUG` says why",
    ),
    FailureKind(
        "malformed",
        (Malformed,),
        answered=True,
        advice="the answer of the host is not HTTP; are the scheme and the port right?",
    ),
    FailureKind("truncated", (ResponseDataLossError,), answered=True),
    FailureKind("encoding", (BadEncoding,), answered=True),
    FailureKind(
        "rendering",
        (NotRendered,),
        answered=True,
        advice="the browser fails on the page; -a render=never fetches it without one",
    ),
    FailureKind("stood_still", (StoppedTooLong,)),
    FailureKind(
        "proxy",
        (ProxyFailed,),
        advice="the proxy cannot be used, as the log says; check its address and credentials",
    ),
    FailureKind(
        "dns_nxdomain",
        (NoSuchHost,),
        advice="DNS has no address for the host; is it spelt right, and is this machine on the "
        "network? `scrapy doctor` checks it",
    ),
    FailureKind(
        "dns",
        (CannotResolveHostError,),
        advice="no DNS server answered; `scrapy doctor` checks it, DNS_SERVERS names others",
    ),
    FailureKind("too_big", (TooBig, TooBigUnpacked), is_final=True),
    FailureKind(
        "private_address",
        (PrivateAddress,),
        is_final=True,
        advice="the host is in a private network; ALLOW_NETWORKS lets a crawl into it",
    ),
    FailureKind("cancelled", (DownloadCancelledError,), is_final=True),
    FailureKind("scheme", (UnsupportedURLSchemeError,), is_final=True),
    # After the fetch; the first two are followed by the name of an exception.
    FailureKind("callback_error"),
    FailureKind("item_error"),
    # Entries that cannot be read, or that killed process after process.
    FailureKind("unreadable", is_final=True),
    FailureKind("damaged", is_final=True),
    FailureKind("poison", is_final=True),
)
_BY_ERROR = {error: kind for kind in KINDS for error in kind.errors}


def failure_of(error: BaseException | None) -> FailureKind:
    """Return the kind of an error: that of its nearest class, or one named like the error."""
    if isinstance(error, Forbidden):
        return FailureKind(error.reason, is_final=True)
    for each in type(error).__mro__:
        if each in _BY_ERROR:
            return _BY_ERROR[each]
    return FailureKind(type(error).__name__, is_final=isinstance(error, IgnoreRequest))
