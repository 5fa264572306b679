"""One kind of hostility: what a server does, and how a crawl of it must end. Pure data."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from demo.hostile.talk import Talk

Answer = Callable[["Talk"], Awaitable[None]]

DOMAIN: Final = "hostile.test"
# That of hosts that are looked up.
DNS_DOMAIN: Final = "hostile.example"
# The outcome of a page that is stored, with its flags after it; others are reasons of failures.
STORED: Final = "stored"
# Its body broke off; the second flag says how.
CUT: Final = "stored, truncated, truncated:"
# The crawl holds the URL back for longer than it is willing to wait, since robots.txt is not there.
WAITS: Final = "waits"


class Certificate(StrEnum):
    """What is wrong with the certificate of a host that speaks TLS."""

    GOOD = "good"
    EXPIRED = "expired"
    NOT_YET = "not yet valid"
    OTHER_NAME = "other name"
    SELF_SIGNED = "self-signed"
    # Far more intermediate certificates than anybody needs.
    LONG_CHAIN = "long chain"


@dataclass(frozen=True, slots=True)
class Behaviour:
    """A row of the zoo: `answer` is given to each request, but for robots.txt."""

    name: str
    does: str
    # STORED, perhaps with flags, or the reason why there is no page, as the crawl counts it.
    outcome: str
    answer: Answer
    # So many hosts do it, each in its own way, by `Talk.number`.
    hosts: int = 1
    # What is answered to /robots.txt; None: 404.
    robots: Answer | None = None
    # A figure of the crawl that counts it too: "sitemaps/cut".
    counted: str = ""
    # TLS with such a certificate; None: no TLS.
    certificate: Certificate | None = None
    # Without TLS of the server's own: `answer` gets the bytes of the handshake.
    is_raw: bool = False
    # Addresses that DNS gives, question by question, the last ones for ever. Empty: DNS_OVERRIDES.
    addresses: tuple[tuple[str, ...], ...] = ()
    # A port on which nobody listens.
    is_closed: bool = False
    path: str = "/"
    # The URL that its page is stored under, after redirects; empty: its own.
    ends_at: str = ""

    @property
    def scheme(self) -> str:
        """The scheme of its URLs."""
        return "https" if self.certificate is not None or self.is_raw else "http"

    @property
    def names(self) -> list[str]:
        """The names of its hosts."""
        if self.hosts == 1:
            return [f"{self.name}.{DNS_DOMAIN if self.addresses else DOMAIN}"]
        return [f"{self.name}-{number}.{DOMAIN}" for number in range(self.hosts)]
