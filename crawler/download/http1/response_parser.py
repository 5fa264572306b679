"""Read one response from the bytes of a connection, and pass it on as it comes. No I/O.

The head is read by llhttp; bodies in chunks are read here, as leniently as browsers do.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Iterator
from typing import Protocol

from httptools import (
    HttpParserCallbackError,
    HttpParserError,
    HttpParserUpgrade,
    HttpResponseParser,
)
from scrapy.exceptions import DownloadFailedError
from scrapy.http import Headers

from crawler.download.errors import Malformed
from crawler.download.http1.lenient_head import NotBegun, Unmendable, after_heads, mended

# What a server may send besides the body (and MAX_BETWEEN_BYTES that are neither): a header, how
# many of them, and all headers of an answer together, as much as Chrome takes.
MAX_HEADER_BYTES = 64 * 1024
MAX_HEADERS = 4096
MAX_HEAD_BYTES = 256 * 1024
_SWITCHING = 101
_WITHOUT_BODY = frozenset({204, 304})
_CHUNKED = b"chunked"
# So much of an answer in chunks is kept as it came, to be read once more if the parser refuses it.
_MAX_KEPT_BYTES = 1 << 20
_LAST_CHUNK = b"0\r\n"
# For what should follow at once and never may: the empty line after the last chunk, the status line
# after something that is no HTTP.
_GRACE_S = 1.0
_TIMEOUT = re.compile(rb"timeout=(\d{1,9})", re.IGNORECASE)


class Truncated(Exception):
    """The head of an answer came, and its body did not end as it should; `cause` tells how."""

    # Fewer bytes than Content-Length says, chunks without a last one, a connection that broke.
    CAUSES = LENGTH, CHUNKS, RESET = "length", "chunks", "reset"

    def __init__(self, text: str, cause: str) -> None:
        super().__init__(text)
        self.cause = cause


class NoAnswer(DownloadFailedError):
    """The connection ended before a byte of an answer came."""


class ResponseReceiver(Protocol):
    """Receiver of a response; its methods return whether more is wanted, or raise."""

    def head(self, status: int, version: str, headers: Headers) -> bool:
        """Receive the head."""

    def body(self, data: bytes) -> bool:
        """Receive the next part of the body."""


class _Enough(Exception):
    """The rest is not wanted."""


class _NotForParser(Exception):
    """The rest is in chunks, which the parser does not know."""


class ResponseParser:
    """Fed until `done`, which has a result when all that is wanted has come, else an error."""

    def __init__(
        self, receiver: ResponseReceiver, *, only_head: bool, is_first: bool = True
    ) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # It ended where it should, and the server goes on listening, for so many seconds.
        self.keeps = False
        self.listens_s = math.inf
        self._receiver = receiver
        self._only_head = only_head
        # Of its connection. Else what goes before it may be more of the answer before.
        self._is_first = is_first
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
        # Heads before that of the answer itself (1xx).
        self._interims = 0
        # What came of an answer in chunks, while that is not too much, and the bytes of its body
        # that were taken; and what reads the chunks that the parser refused.
        self._kept: list[bytes] | None = None
        self._kept_bytes = self._taken_bytes = 0
        self._is_chunked = False
        self._chunks: Chunks | None = None
        self._grace: asyncio.TimerHandle | None = None
        self._parser = self._new_parser()

    def feed(self, data: bytes) -> None:
        """The next bytes of the connection."""
        if self.done.done():
            # The server does not know where its answer ends.
            self.keeps = False
            return
        if self._chunks is not None:
            self._take_chunks(self._chunks, data)
            return
        self._between += len(data)
        raw = self._raw
        if raw is not None:
            # The first part is kept without a copy; most heads have one.
            self._raw = raw + data if len(raw) <= MAX_HEAD_BYTES else None
            if self._refusal:
                self._mend(known=len(raw))
                return
        elif self._is_chunked:
            self._keep(data)
        self._parse(data)

    def _parse(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except HttpParserCallbackError as error:
            # Raised by what is below, by the receiver, or by the parser's own part of a call.
            cause = error.__context__
            if isinstance(cause, _NotForParser):
                self._read_again()
            elif cause is None or isinstance(cause, HttpParserError):
                self._broken(f"it is no HTTP: {cause or error}")
            else:
                self._end(cause)
        except (HttpParserError, HttpParserUpgrade) as error:
            self._refusal = f"it is no HTTP: {error}"
        else:
            if self._between > MAX_BETWEEN_BYTES:
                self._broken("it has a line without end")
        # Not above: what is raised while an error is handled has that one as its cause.
        if self._refusal:
            self._refused()
        elif self._is_chunked and _may_be_last(data) and not self.done.done():
            self._wait_a_little()

    def _refused(self) -> None:
        """The parser did not go on: something may be mended."""
        if self.done.done():
            # It is what follows the answer.
            self.keeps = False
        elif not self._has_head:
            self._mend()
        elif not self._is_chunked or self._read_again() is None:
            self._broken(self._refusal)

    def closed(self, error: BaseException | None) -> None:
        """There is no more: the connection was closed."""
        if self.done.done():
            return
        # A reset is no end. TLS that is not ended in form is one: servers often leave it out.
        broke = isinstance(error, ConnectionError)
        if self._is_chunked:
            chunks = self._read_again()
            is_whole = chunks is not None and chunks.is_whole(at_close=not broke)
        else:
            is_whole = self._has_head and self._until_close and not broke
        if is_whole:
            self._end(None)
        elif self._refusal:
            self._broken(self._refusal)
        else:
            kind = NoAnswer if self._raw == b"" else DownloadFailedError
            reason = f"the connection broke: {error}" if error else "the server closed it"
            self._broken(reason, kind, cause=Truncated.RESET if broke else "")

    def leave(self) -> None:
        """Let go of the parser, which knows this object too: no work for the collector."""
        del self._parser
        self._stop_waiting()

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
            if self._raw is None or self._is_mended:
                raise Unmendable
            data = mended(self._raw, known, may_begin_late=self._is_first)
        except NotBegun:
            self._wait_a_little()
            return
        except Unmendable:
            self._broken(self._refusal)
            return
        self._stop_waiting()
        if data is not None:
            self._raw, self._refusal, self._is_mended = data, "", True
            self._fields, self._count, self._between, self._interims = {}, 0, 0, 0
            self._parser = self._new_parser()
            self._parse(data)

    def _keep(self, data: bytes) -> None:
        self._kept_bytes += len(data)
        if self._kept is not None and self._kept_bytes <= _MAX_KEPT_BYTES:
            self._kept.append(data)
        else:
            self._kept = None

    def _read_again(self) -> Chunks | None:
        """Read the chunks that came once more, and all that follow, without the parser.

        None if more came than is kept.
        """
        if self._chunks is None and self._kept is not None:
            data = after_heads(b"".join(self._kept), self._interims + 1)
            self._kept, self._chunks = None, Chunks()
            self._refusal, self._may_keep = "", False
            self._take_chunks(self._chunks, data)
        return self._chunks

    def _take_chunks(self, chunks: Chunks, data: bytes) -> None:
        try:
            for part in chunks.feed(data):
                known = min(len(part), self._taken_bytes)
                self._taken_bytes -= known
                if known < len(part) and not self._receiver.body(part[known:]):
                    self._end(None)
                    return
        except BadChunks as error:
            if chunks.is_last:
                self._end(None)
            else:
                self._broken(str(error))
        except Exception as error:  # noqa: BLE001 - of the receiver, for who waits for the answer
            self._end(error)
        else:
            if chunks.is_ended:
                self._end(None, whole=not chunks.is_odd)
            elif chunks.is_last:
                self._wait_a_little()

    def _wait_a_little(self) -> None:
        if self._grace is None:
            self._grace = asyncio.get_running_loop().call_later(_GRACE_S, self._waited)

    def _stop_waiting(self) -> None:
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None

    def _waited(self) -> None:
        """What should have followed did not."""
        self._grace = None
        if not self._is_chunked:
            self._broken(self._refusal)
        elif (chunks := self._read_again()) is not None and chunks.is_last:
            self._end(None)

    def _broken(self, reason: str, kind: type[Exception] = Malformed, *, cause: str = "") -> None:
        text = f"The answer cannot be read: {reason}"
        if self._has_head:
            usual = Truncated.CHUNKS if self._is_chunked else Truncated.LENGTH
            self._end(Truncated(text, cause or usual))
        else:
            self._end(kind(text))

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
            self._interims += 1
            self._fields, self._count, self._head_bytes = {}, 0, 0
            return
        raw, self._has_head, self._raw = self._raw, True, None
        # A server that is wrong about one answer may be wrong about its end.
        self._may_keep = parser.should_keep_alive() and not self._is_mended
        if promise := fields.get(b"Keep-Alive"):
            self.listens_s = _promised_s(promise[-1])
        codings = fields.get(b"Transfer-Encoding")
        if codings:
            self._is_chunked = codings == [_CHUNKED] or _last_coding(codings) == _CHUNKED
            self._until_close = not self._is_chunked
        else:
            self._until_close = b"Content-Length" not in fields
        headers = Headers()
        dict.update(headers, fields)
        wants = self._receiver.head(status, parser.get_http_version(), headers)
        if self._only_head or status == _SWITCHING:
            self._end(None, whole=self._only_head)
        elif not wants:
            raise _Enough
        elif codings and self._is_chunked and status not in _WITHOUT_BODY:
            self._kept = [raw] if raw is not None else None
            if not codings[-1].lower().endswith(_CHUNKED):
                raise _NotForParser
            # It would take a line feed at the beginning of a chunk for the end of its line.
            parser.set_dangerous_leniencies(lenient_optional_cr_before_lf=False)

    def on_body(self, body: bytes) -> None:
        self._between = 0
        if not self._has_head:
            self._refuse("there is a body before it")
        if self.done.done() or not self._receiver.body(body):
            raise _Enough
        self._taken_bytes += len(body)

    def on_message_complete(self) -> None:
        if self._has_head:
            self._end(None, whole=True)

    def _refuse(self, reason: str) -> None:
        self._broken(reason)
        raise _Enough


def _may_be_last(data: bytes) -> bool:
    """Do these bytes end as the last chunk does, or are they too few to tell?"""
    return data.endswith(_LAST_CHUNK) or len(data) < len(_LAST_CHUNK)


def _last_coding(values: list[bytes]) -> bytes:
    """The transfer coding that was applied last, of those that change something."""
    names = [name.strip().lower() for value in values for name in value.split(b",")]
    return next((name for name in reversed(names) if name not in (b"", b"identity")), b"")


def _promised_s(keep_alive: bytes) -> float:
    """For how long a server says that it listens for another request."""
    found = _TIMEOUT.search(keep_alive)
    return int(found[1]) if found else math.inf


# What may come between two chunks, or after the last one: a length with its extension, trailers.
MAX_BETWEEN_BYTES = 128 * 1024
_SIZE = re.compile(rb"[0-9A-Fa-f]{1,16}")
_LAST = re.compile(rb"0+[ \t]*\r?")


class BadChunks(Exception):
    """The bytes where a chunk should begin or end that are neither."""


class Chunks:
    """The reader of one body: takes bytes as they come, gives the parts of the body in them."""

    def __init__(self) -> None:
        # The last chunk came, so that the body is whole; and the empty line after it.
        self.is_last = False
        self.is_ended = False
        # Some line had another form than it should, or something followed the end.
        self.is_odd = False
        # Of the data of the current chunk.
        self._left = 0
        self._is_after_data = False
        # What came of a line that has not ended, and the bytes since the last part of the body.
        self._line = b""
        self._between = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the parts of the body in these bytes; raises BadChunks after the last good one."""
        at, end = 0, len(data)
        while at < end:
            if self._left:
                part = data[at : at + self._left]
                self._left -= len(part)
                at += len(part)
                self._between = 0
                yield part
                continue
            if self.is_ended:
                self.is_odd = True
                return
            stop = data.find(b"\n", at) + 1 or end
            line, at = self._line + data[at:stop], stop
            self._between += len(line) - len(self._line)
            if self._between > MAX_BETWEEN_BYTES:
                raise BadChunks("it has a line without end between its chunks")
            self._line = b"" if line.endswith(b"\n") else line
            if not self._line:
                self._read(line)

    def is_whole(self, *, at_close: bool) -> bool:
        """Did the last chunk come? At the end of a connection its line may have no end."""
        is_begun = not self._is_after_data and _LAST.fullmatch(self._line) is not None
        return self.is_last or (at_close and is_begun)

    def _read(self, line: bytes) -> None:
        """Take a whole line."""
        if not line.endswith(b"\r\n"):
            self.is_odd = True
        text = line.rstrip(b"\r\n")
        if self._is_after_data:
            if text:
                raise BadChunks("a chunk is longer than it says")
            self._is_after_data = False
        elif self.is_last:
            # Trailers are for nobody.
            self.is_ended = not text
        else:
            size = text.partition(b";")[0].strip(b" \t")
            if _SIZE.fullmatch(size) is None:
                raise BadChunks("a chunk has no length")
            self._left = int(size, 16)
            self._is_after_data = self._left > 0
            self.is_last = not self._left
