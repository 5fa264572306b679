"""Read one answer out of the bytes of a connection, and hand it over as it comes. No I/O.

llhttp (httptools) reads it, as leniently as the web needs; a head that it refuses is mended and
read once more. How much of an answer is no body is bounded here, how much of the body is taken is
the reception's affair.
"""

from __future__ import annotations

import asyncio
import math
import re
from typing import TYPE_CHECKING

from httptools import (
    HttpParserCallbackError,
    HttpParserError,
    HttpParserUpgrade,
    HttpResponseParser,
)
from scrapy.exceptions import DownloadFailedError
from scrapy.http import Headers

from crawler.fetch_errors import Malformed
from crawler.http1.mending import Unmendable, mended

if TYPE_CHECKING:
    from crawler.reception import Reception

# What a server may send besides the body: a header, how many of them, what is neither, and all
# headers of an answer together.
MAX_HEADER_BYTES = 32 * 1024
MAX_HEADERS = 256
MAX_BETWEEN_BYTES = 2 * MAX_HEADER_BYTES
MAX_HEAD_BYTES = 8 * MAX_HEADER_BYTES
_SWITCHING = 101
_TIMEOUT = re.compile(rb"timeout=(\d{1,9})", re.IGNORECASE)


class Truncated(Exception):
    """The head of an answer came, and its body did not end as it should."""


class NoAnswer(DownloadFailedError):
    """The connection ended before a byte of an answer came."""


class _Enough(Exception):
    """The rest is not wanted."""


class Answer:
    """Fed until `done`, which has a result when all that is wanted has come, else an error."""

    def __init__(self, reception: Reception, *, only_head: bool) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # It ended where it should, and the server goes on listening, for so many seconds.
        self.keeps = False
        self.listens_s = math.inf
        self._reception = reception
        self._only_head = only_head
        self._fields: dict[bytes, list[bytes]] = {}
        self._count = 0
        self._head_bytes = 0
        # Bytes since the last header or part of the body.
        self._between = 0
        self._has_head = self._until_close = self._may_keep = False
        # What came so far; None when there is a head, or too much to mend one.
        self._raw: bytes | None = b""
        # Why the parser refused the head; then it is mended when all of it is there.
        self._refusal = ""
        self._is_mended = False
        self._parser = self._new_parser()

    def feed(self, data: bytes) -> None:
        """The next bytes of the connection."""
        if self.done.done():
            # The server does not know where its answer ends.
            self.keeps = False
            return
        self._between += len(data)
        raw = self._raw
        if raw is not None:
            # The first part is kept without a copy; most heads have one.
            self._raw = raw + data if len(raw) <= MAX_BETWEEN_BYTES else None
            if self._refusal:
                self._mend(known=len(raw))
                return
        self._parse(data)

    def _parse(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except HttpParserCallbackError as error:
            # Raised by what is below, by the reception, or by the parser's own part of a call.
            cause = error.__context__
            if cause is None or isinstance(cause, HttpParserError):
                self._broken(f"it is no HTTP: {cause or error}")
            else:
                self._end(cause)
        except (HttpParserError, HttpParserUpgrade) as error:
            self._refusal = f"it is no HTTP: {error}"
            self._mend()
        else:
            if self._between > MAX_BETWEEN_BYTES:
                self._broken("it has a line without end")

    def closed(self, error: BaseException | None) -> None:
        """There is no more: the connection was closed."""
        # A reset is no end. TLS that is not ended in form is one: servers often leave it out.
        broke = isinstance(error, ConnectionError)
        if self._has_head and self._until_close and not broke:
            self._end(None)
        elif self._refusal:
            self._broken(self._refusal)
        else:
            kind = NoAnswer if self._raw == b"" else DownloadFailedError
            reason = f"the connection broke: {error}" if error else "the server closed it"
            self._broken(reason, kind)

    def leave(self) -> None:
        """Let go of the parser, which knows this object too: no work for the collector."""
        del self._parser

    def _new_parser(self) -> HttpResponseParser:
        parser = HttpResponseParser(self)
        # Servers send odd bytes in headers, and lines that end with a line feed only.
        parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )
        return parser

    def _mend(self, *, known: int = 0) -> None:
        """Read the head that was refused once more, without what is wrong with it."""
        try:
            if self._raw is None:
                raise Unmendable
            data = mended(self._raw, known)
        except Unmendable:
            self._broken(self._refusal)
            return
        if data is not None:
            self._raw, self._refusal, self._is_mended = None, "", True
            self._fields, self._count, self._between = {}, 0, 0
            self._parser = self._new_parser()
            self._parse(data)

    def _broken(self, reason: str, kind: type[Exception] = Malformed) -> None:
        if self._has_head:
            kind = Truncated
        self._end(kind(f"The answer cannot be read: {reason}"))

    def _end(self, error: BaseException | None, *, whole: bool = False) -> None:
        if self.done.done():
            self.keeps = self.keeps and whole
            return
        self.keeps = self._may_keep and whole
        if error is None or isinstance(error, _Enough):
            self.done.set_result(None)
        else:
            self.done.set_exception(error)

    # --- called by the parser --------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self.done.done():
            # A second answer: which request it belongs to cannot be told.
            raise _Enough

    def on_header(self, name: bytes, value: bytes) -> None:
        self._between = 0
        self._count += 1
        size = len(name) + len(value)
        self._head_bytes += size
        if (
            self._count > MAX_HEADERS
            or size > MAX_HEADER_BYTES
            or self._head_bytes > MAX_HEAD_BYTES
        ):
            self._refuse("its headers are too many or too long")
        if b"\0" in value:
            self._refuse("a header has a zero byte in it")
        # What follows a body is for nobody.
        if not self._has_head:
            # In the form in which Scrapy's Headers keep them; "Content-Length : 3" is taken too.
            key = name.rstrip(b" \t").title()
            self._fields.setdefault(key, []).append(value.rstrip(b" \t"))

    def on_headers_complete(self) -> None:
        parser, fields = self._parser, self._fields
        status = parser.get_status_code()
        if status < 200 and status != _SWITCHING:
            # The answer itself is still to come.
            self._fields, self._count, self._head_bytes = {}, 0, 0
            return
        self._has_head, self._raw = True, None
        # A server that is wrong about one answer may be wrong about its end.
        self._may_keep = parser.should_keep_alive() and not self._is_mended
        if promise := fields.get(b"Keep-Alive"):
            self.listens_s = _promised_s(promise[-1])
        codings = fields.get(b"Transfer-Encoding")
        if codings:
            self._until_close = not codings[-1].lower().endswith(b"chunked")
        else:
            self._until_close = b"Content-Length" not in fields
        headers = Headers()
        dict.update(headers, fields)
        wants = self._reception.head(status, parser.get_http_version(), headers)
        if self._only_head or status == _SWITCHING:
            self._end(None, whole=self._only_head)
        elif not wants:
            raise _Enough

    def on_body(self, body: bytes) -> None:
        self._between = 0
        if not self._has_head:
            self._refuse("there is a body before it")
        if self.done.done() or not self._reception.body(body):
            raise _Enough

    def on_message_complete(self) -> None:
        if self._has_head:
            self._end(None, whole=True)

    def _refuse(self, reason: str) -> None:
        self._broken(reason)
        raise _Enough


def _promised_s(keep_alive: bytes) -> float:
    """For how long a server says that it listens for another request."""
    found = _TIMEOUT.search(keep_alive)
    return int(found[1]) if found else math.inf
