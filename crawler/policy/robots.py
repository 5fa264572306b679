"""What a robots.txt answer allows, after RFC 9309. Pure: parses bytes, fetches nothing."""

from __future__ import annotations

from dataclasses import dataclass

from protego import Protego

# RFC 9309 section 2.5: parse at least 500 KiB.
MAX_BYTES = 512 * 1024


@dataclass(frozen=True, slots=True)
class Unreachable:
    """RFC 9309 section 2.3.1.4: server errors and network errors disallow everything."""

    reason: str


class Rules:
    """The rules of one authority for one user agent."""

    def __init__(self, body: bytes, user_agent: str) -> None:
        self._parser = Protego.parse(text_of(body)) if body.strip() else None
        self._user_agent = user_agent

    def allows(self, url: str) -> bool:
        """May this URL be fetched?"""
        return self._parser is None or bool(self._parser.can_fetch(url, self._user_agent))

    @property
    def crawl_delay_s(self) -> float:
        """Seconds to rest between two fetches, 0 when nothing is asked for."""
        if self._parser is None:
            return 0.0
        return float(self._parser.crawl_delay(self._user_agent) or 0.0)


def judge(status: int, body: bytes) -> bytes | Unreachable:
    """Body of the rules that an answer stands for: its own, or none at all for a 4xx."""
    if status == 429 or status >= 500:
        return Unreachable(f"status {status}")
    if 200 <= status < 300:
        return body
    return b""


def text_of(body: bytes) -> str:
    """Text of a robots.txt: cut at the limit without its broken last line, any line end, no BOM."""
    if len(body) > MAX_BYTES:
        body = body[:MAX_BYTES]
        body = body[: max(body.rfind(b"\n"), body.rfind(b"\r")) + 1]
    text = body.decode("utf-8", "replace").removeprefix("\ufeff").replace("\0", "")
    return text.replace("\r\n", "\n").replace("\r", "\n")
