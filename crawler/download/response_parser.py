"""Read one response from the bytes of a connection, and pass it on as it comes. No I/O.

llhttp reads the head. Bodies are read here, those in chunks as leniently as browsers do. A head
that llhttp refuses is mended, as browsers read it, and read once more: bytes before the status line
and lines that are not headers are left out. Equal lengths count as one, a length that is not a
number counts as absent, and chunks take precedence over a length (RFC 9112, 6.3). A head that can
be read in two ways stays refused.
"""

from __future__ import annotations

import asyncio
import math
import re
import ssl
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

# Limits of a head: one header, their number, and all of them together, as in Chrome.
MAX_HEADER_BYTES = 64 * 1024
MAX_HEADERS = 4096
MAX_HEAD_BYTES = 256 * 1024
# Bytes between two headers, between two chunks, or after the last chunk (trailers).
MAX_BETWEEN_BYTES = 128 * 1024
_HEAD_END = re.compile(rb"\n\r?\n")
# Where the head begins, after interim responses and whatever else.
_FINAL_STATUS = re.compile(rb"^HTTP/\S+[ \t]+(?:101|[2-9][0-9]{2})(?![0-9])", re.MULTILINE)
_SWITCHING = 101
_WITHOUT_BODY = frozenset({204, 304})
_CHUNKED = b"chunked"
# Longer numbers count as absent: no body has that many bytes.
_LENGTH = re.compile(rb"[0-9]{1,18}")
_KEEP_ALIVE = re.compile(rb"timeout=(\d{1,9})", re.IGNORECASE)
# Seconds to wait for bytes that should come at once and may never come: the empty line after the
# last chunk, the status line after bytes that are not HTTP.
_GRACE_S = 1.0


class Truncated(Exception):
    """Error for a body that did not end as it should; `cause` is one of CAUSES."""

    # Fewer bytes than Content-Length, chunks without a last one, a connection that broke.
    CAUSES = LENGTH, CHUNKS, RESET = "length", "chunks", "reset"

    def __init__(self, text: str, cause: str) -> None:
        super().__init__(text)
        self.cause = cause


class NoAnswer(DownloadFailedError):
    """Error for a connection that ended before the first byte of a response."""


class ResponseReceiver(Protocol):
    """Receiver of a response; its methods return whether more is wanted, or raise."""

    def head(self, status: int, version: str, headers: Headers, raw: bytes) -> bool:
        """Receive the head; `raw` are its bytes as they came."""

    def body(self, data: bytes) -> bool:
        """Receive the next part of the body."""


class ResponseParser:
    """Parser of one response; `done` has a result when all that is wanted came, or an error."""

    def __init__(
        self, receiver: ResponseReceiver, *, only_head: bool, is_first: bool = True
    ) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # The response ended where it should, and the server listens for another request, for
        # this many seconds.
        self.keeps = False
        self.listens_s = math.inf
        self._receiver = receiver
        self._only_head = only_head
        # The first response of a connection may begin late. Before others, odd bytes may belong
        # to the response before.
        self._is_first = is_first
        # Bytes of the head so far, and how many of them the parser has read.
        self._raw = b""
        self._read = 0
        # Where the head begins after interim responses, and the bytes of a head before it was
        # mended.
        self._begin = 0
        self._unmended = b""
        self._parser = self._new_parser()
        self._fields: dict[bytes, list[bytes]] = {}
        self._count = self._head_bytes = self._between = 0
        self._status = 0
        self._may_keep = False
        # Why the parser refused the head. It is mended when all of it has come.
        self._refusal = ""
        self._is_mended = False
        # How the body ends: with its last chunk, after so many bytes, or with the connection.
        self._chunks: Chunks | None = None
        self._left: int | None = None
        self._grace: asyncio.TimerHandle | None = None

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the connection."""
        if self.done.done():
            # The server does not know where its response ends.
            self.keeps = False
        elif self._status:
            self._take(data)
        else:
            known = len(self._raw)
            # The first part is kept without a copy: most heads come in one.
            self._raw = self._raw + data if known else data
            if self._refusal:
                self._mend(known=known)
            else:
                self._parse()

    def closed(self, error: BaseException | None) -> None:
        """Take the end of the connection."""
        if self.done.done():
            return
        # A reset is not an end, nor are damaged or cut records of TLS. TLS without its closing
        # message is one: servers often omit it.
        broke = isinstance(error, ConnectionError | ssl.SSLError)
        if self._chunks is not None:
            is_whole = self._chunks.is_whole(at_close=not broke)
        else:
            is_whole = bool(self._status) and self._left is None and not broke
        if is_whole:
            self._end(None)
        elif self._refusal:
            self._broken(self._refusal)
        else:
            kind = DownloadFailedError if self._raw else NoAnswer
            reason = f"the connection broke: {error}" if error else "the server closed it"
            self._broken(reason, kind, cause=Truncated.RESET if broke else "")

    def leave(self) -> None:
        """Drop the parser, which refers to this object: nothing is left for the collector."""
        del self._parser
        self._stop_waiting()

    # --- the head --------------------------------------------------------------------------------

    def _new_parser(self) -> HttpResponseParser:
        parser = HttpResponseParser(self)
        # Servers send odd bytes in headers, and lines that end with a line feed only.
        parser.set_dangerous_leniencies(lenient_headers=True, lenient_optional_cr_before_lf=True)
        return parser

    def _parse(self) -> None:
        """Let the parser read up to the end of the head, and no byte of the body."""
        raw, size = self._raw, len(self._raw)
        while self._read < size and not (self._status or self._refusal or self.done.done()):
            end = _empty_line_end(raw, self._read)
            start, self._read = self._read, size if end is None else end
            self._between += self._read - start
            # The last byte of an empty line goes alone: only there a head may end.
            if self._feed_parser(raw[start : self._read - (end is not None)]):
                self._status, self._refusal = 0, "it is no HTTP: its head ends within a line"
            elif end is not None and not self._refusal:
                self._feed_parser(raw[end - 1 : end])
        if self.done.done():
            return
        if self._status:
            # The parser may have refused to read on, as before another protocol (101).
            self._refusal, self._raw = "", b""
            self._begin_body(self._head(raw), raw[self._read :])
        elif self._refusal:
            self._mend()
        elif self._between > MAX_BETWEEN_BYTES or size > MAX_HEAD_BYTES + MAX_BETWEEN_BYTES:
            self._broken("it has a line without end")

    def _feed_parser(self, data: bytes) -> bool:
        """Feed the parser; return whether the head has ended."""
        try:
            self._parser.feed_data(data)
        except HttpParserCallbackError as error:
            cause = error.__context__
            reason = cause if isinstance(cause, Malformed) else f"it is no HTTP: {error}"
            self._broken(str(reason))
        except (HttpParserError, HttpParserUpgrade) as error:
            self._refusal = f"it is no HTTP: {error}"
        return bool(self._status)

    def _mend(self, *, known: int = 0) -> None:
        """Read the head that was refused again, without what is wrong with it."""
        try:
            if len(self._raw) > MAX_HEAD_BYTES or self._is_mended:
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
            self._unmended, self._begin = self._raw, 0
            self._raw, self._refusal, self._is_mended = data, "", True
            self._fields, self._count, self._between, self._read = {}, 0, 0, 0
            self._parser = self._new_parser()
            self._parse()

    def _head(self, raw: bytes) -> bytes:
        """Return the bytes of the head as they came; `raw` are those that were parsed."""
        if self._unmended:
            # Only the head was mended: what follows it is the same.
            head = self._unmended[: len(self._unmended) - (len(raw) - self._read)]
        else:
            head = raw[self._begin : self._read]
            if head.startswith(b"HTTP/"):
                return head
        begin = _FINAL_STATUS.search(head)
        return head[begin.start() :] if begin else head

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header. Called by the parser."""
        self._between = 0
        self._count += 1
        size = len(name) + len(value)
        self._head_bytes += size
        if (
            self._count > MAX_HEADERS
            or size > MAX_HEADER_BYTES
            or self._head_bytes > MAX_HEAD_BYTES
        ):
            raise Malformed("its headers are too many or too long")
        if b"\0" in value:
            raise Malformed("a header has a zero byte in it")
        # In the form in which Scrapy's Headers keep them; "Content-Length : 3" is accepted too.
        key = name.rstrip(b" \t").title()
        self._fields.setdefault(key, []).append(value.rstrip(b" \t"))

    def on_headers_complete(self) -> None:
        """Take the end of a head. Called by the parser."""
        status = self._parser.get_status_code()
        if status < 200 and status != _SWITCHING:
            # An interim response (1xx): the final one follows.
            self._fields, self._count, self._head_bytes = {}, 0, 0
            self._begin = self._read
            return
        self._status = status
        # A server that writes one head wrong may be wrong about the end of the body.
        self._may_keep = self._parser.should_keep_alive() and not self._is_mended

    def on_body(self, _data: bytes) -> None:
        """Refuse an interim response with a body. Called by the parser."""
        if not self._status:
            raise Malformed("there is a body before it")

    # --- the body --------------------------------------------------------------------------------

    def _begin_body(self, head: bytes, data: bytes) -> None:
        """Pass the head on, and take the bytes that came with it."""
        status, fields = self._status, self._fields
        if promise := fields.get(b"Keep-Alive"):
            found = _KEEP_ALIVE.search(promise[-1])
            self.listens_s = int(found[1]) if found else math.inf
        lengths = fields.get(b"Content-Length")
        if codings := fields.get(b"Transfer-Encoding"):
            if codings == [_CHUNKED] or _last_coding(codings) == _CHUNKED:
                self._chunks = Chunks()
        elif lengths and _LENGTH.fullmatch(lengths[-1]):
            self._left = int(lengths[-1])
        headers = Headers()
        dict.update(headers, fields)
        try:
            wants = self._receiver.head(status, self._parser.get_http_version(), headers, head)
        except Exception as error:  # noqa: BLE001 - the fetch raises it
            self._end(error)
            return
        if self._only_head or status == _SWITCHING or not wants:
            self._end(None, whole=self._only_head)
        elif status in _WITHOUT_BODY or self._left == 0:
            self._end(None, whole=True)
        if data:
            self.feed(data)

    def _take(self, data: bytes) -> None:
        """Pass the next part of the body on."""
        try:
            if self._chunks is not None:
                self._take_chunks(self._chunks, data)
            elif self._left is None:
                if not self._receiver.body(data):
                    self._end(None)
            else:
                part = data[: self._left]
                self._left -= len(part)
                if not self._receiver.body(part):
                    self._end(None)
                elif not self._left:
                    self._end(None, whole=len(part) == len(data))
        except Exception as error:  # noqa: BLE001 - of the receiver; the fetch raises it
            self._end(error)

    def _take_chunks(self, chunks: Chunks, data: bytes) -> None:
        # Joined, since a hostile body has chunks of a byte each.
        parts: list[bytes] = []
        bad: BadChunks | None = None
        try:
            # Those before a bad chunk stay.
            parts.extend(chunks.feed(data))
        except BadChunks as error:
            bad = error
        if parts and not self._receiver.body(parts[0] if len(parts) == 1 else b"".join(parts)):
            self._end(None)
            return
        if bad is not None:
            self._broken(str(bad))
            return
        if chunks.is_ended:
            self._end(None, whole=not chunks.is_odd)
        elif chunks.is_last:
            self._wait_a_little()

    # --- the end ---------------------------------------------------------------------------------

    def _wait_a_little(self) -> None:
        if self._grace is None:
            self._grace = asyncio.get_running_loop().call_later(_GRACE_S, self._waited)

    def _stop_waiting(self) -> None:
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None

    def _waited(self) -> None:
        """Go on without the bytes that should have come."""
        self._grace = None
        if self._status:
            self._end(None)
        else:
            self._broken(self._refusal)

    def _broken(self, reason: str, kind: type[Exception] = Malformed, *, cause: str = "") -> None:
        text = f"The response cannot be read: {reason}"
        if self._status:
            usual = Truncated.LENGTH if self._chunks is None else Truncated.CHUNKS
            self._end(Truncated(text, cause or usual))
        else:
            self._end(kind(text))

    def _end(self, error: BaseException | None, *, whole: bool = False) -> None:
        if self.done.done():
            return
        self.keeps = self._may_keep and whole
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)


def _empty_line_end(raw: bytes, read: int) -> int | None:
    """Find where the next empty line ends, after the first `read` bytes."""
    found = _HEAD_END.search(raw, max(read - 2, 0))
    if found is not None and found.end() <= read:
        found = _HEAD_END.search(raw, read - 1)
    return None if found is None else found.end()


def _last_coding(values: list[bytes]) -> bytes:
    """Return the transfer coding that was applied last, of those that change something."""
    names = [name.strip().lower() for value in values for name in value.split(b",")]
    return next((name for name in reversed(names) if name not in (b"", b"identity")), b"")


_SIZE = re.compile(rb"[0-9A-Fa-f]{1,16}")
_LAST = re.compile(rb"0+[ \t]*\r?")
# The length of a chunk that is not the last one, also with the end of the chunk before.
_FIRST_CHUNK = re.compile(rb"([1-9A-Fa-f][0-9A-Fa-f]{0,7})\r\n")
_END = b"\r\n0\r\n\r\n"
_NEXT_CHUNK = re.compile(rb"\r\n([1-9A-Fa-f][0-9A-Fa-f]{0,7})\r\n")


class BadChunks(Exception):
    """Error for bytes that are not chunks."""


class Chunks:
    """Reader of a body in chunks."""

    def __init__(self) -> None:
        # The last chunk came, so the body is whole; and the empty line after it.
        self.is_last = False
        self.is_ended = False
        # A line was irregular, or something followed the end.
        self.is_odd = False
        # Bytes left of the current chunk.
        self._left = 0
        self._is_after_data = False
        # The begin of a line that has not ended, and the bytes since the last part of the body.
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
            if not (self._line or self.is_last):
                # Regular lines, in one step.
                usual = _NEXT_CHUNK if self._is_after_data else _FIRST_CHUNK
                if found := usual.match(data, at):
                    self._left, at, self._is_after_data = int(found[1], 16), found.end(), True
                    continue
                if self._is_after_data and data[at:] == _END:
                    self.is_last = self.is_ended = True
                    return
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
        """Return whether the last chunk came; at the end of a connection its line may be cut."""
        is_begun = not self._is_after_data and _LAST.fullmatch(self._line) is not None
        return self.is_last or (at_close and is_begun)

    def _read(self, line: bytes) -> None:
        """Read a whole line."""
        if not line.endswith(b"\r\n"):
            self.is_odd = True
        text = line.rstrip(b"\r\n")
        if self._is_after_data:
            if text:
                raise BadChunks("a chunk is longer than its length")
            self._is_after_data = False
        elif self.is_last:
            # Trailers are ignored.
            self.is_ended = not text
            self.is_odd = self.is_odd or (bool(text) and b":" not in text)
        else:
            size = text.partition(b";")[0].strip(b" \t")
            if _SIZE.fullmatch(size) is None:
                raise BadChunks("a chunk has no length")
            self._left = int(size, 16)
            self._is_after_data = self._left > 0
            self.is_last = not self._left


_STATUS_LINE = re.compile(
    rb"HTTP(?:/[0-9]+(?:\.[0-9]+)?)?[ \t]+([1-9][0-9]{2})(?![0-9])[ \t]*(.*)", re.IGNORECASE
)
# After lines that are not HTTP the status line must be strict.
_LATE_STATUS_LINE = re.compile(rb"(?<=\n)HTTP/[0-9]\.[0-9] [1-9][0-9]{2}(?![0-9])")
_GARBAGE_MAX = 4096
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+)[ \t]*:[ \t]*(.*)")
_EMPTY_LINE = re.compile(rb"\n\r{0,2}\n")
# Bytes of an end that may have come earlier than its last byte.
_END_BEGUN = 3
_BLANK_LINES = re.compile(rb"[\r\n]*")
_BEGIN = b"HTTP"
_SWITCHING_TEXT = b"101"
# Codings that change nothing: a length beside them is valid.
_NO_CODING = frozenset({b"", b"identity"})
# Longer numbers are invalid: no body has that many bytes.
_LENGTH_DIGITS = 18


class Unmendable(Exception):
    """Error for a head that cannot be mended."""


class NotBegun(Exception):
    """Error for a response whose status line has not come yet, and may never come."""


def mended(raw: bytes, known: int = 0, *, may_begin_late: bool = True) -> bytes | None:
    """Return the response so far with a valid head; None while the head has not ended.

    The first `known` bytes were passed before and do not contain the end. If the response
    `may_begin_late`, bytes before its status line are left out, and NotBegun is raised while there
    is no status line. Raises Unmendable.
    """
    heads, at = [], _status_line(raw) if may_begin_late else 0
    has_end = _EMPTY_LINE.search(raw, max(at, known - _END_BEGUN)) is not None
    while True:
        at = _start(raw, at)
        end = _EMPTY_LINE.search(raw, at) if has_end else None
        if end is None:
            _check_begin(raw[at:])
            return None
        status, head = _mended_head(raw[at : end.start()])
        heads.append(head)
        at = end.end()
        if not status.startswith(b"1") or status == _SWITCHING_TEXT:
            return b"".join((*heads, raw[at:]))


def _status_line(raw: bytes) -> int:
    """Find where the first head begins."""
    at = _start(raw, 0)
    try:
        _check_begin(raw[at:])
    except Unmendable:
        found = _LATE_STATUS_LINE.search(raw, at, at + _GARBAGE_MAX)
        if found is not None:
            return found.start()
        if len(raw) - at >= _GARBAGE_MAX:
            raise
        raise NotBegun from None
    return at


def _start(raw: bytes, at: int) -> int:
    found = _BLANK_LINES.match(raw, at)
    return found.end() if found else at


def _check_begin(begun: bytes) -> None:
    """Raise Unmendable unless these bytes may be the begin of a head."""
    end = begun.find(b"\n")
    if end < 0:
        is_head = _BEGIN.startswith(begun[: len(_BEGIN)].upper())
    else:
        is_head = _STATUS_LINE.fullmatch(_spaced(begun[:end])) is not None
    if not is_head:
        raise Unmendable


def _mended_head(head: bytes) -> tuple[bytes, bytes]:
    """Return the status of a head, and the head as it should be."""
    first, *lines = head.split(b"\n")
    found = _STATUS_LINE.fullmatch(_spaced(first))
    if found is None:
        raise Unmendable
    status, reason = found.groups()
    fields: list[tuple[bytes, bytes]] = []
    # Whether the last line was a header, which the next one may continue.
    is_field = False
    for line in lines:
        text = _spaced(line)
        if text.startswith((b" ", b"\t")):
            if is_field:
                name, value = fields[-1]
                fields[-1] = (name, b"%b %b" % (value, text.strip()))
            continue
        field = _FIELD.fullmatch(text)
        is_field = field is not None
        if field is not None:
            fields.append((field[1], field[2]))
    written = b"".join(b"%b: %b\r\n" % field for field in _framed(fields))
    return status, b"HTTP/1.1 %b %b\r\n%b\r\n" % (status, reason, written)


def _spaced(line: bytes) -> bytes:
    """Replace carriage returns inside of a line by blanks (RFC 9112, 2.2)."""
    return line.rstrip(b"\r").replace(b"\r", b" ")


def _framed(fields: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return the headers with at most one header that tells where the body ends."""
    lengths = _listed(fields, b"content-length")
    codings = _listed(fields, b"transfer-encoding")
    is_coded = not _NO_CODING.issuperset(codings)
    left_out = {b"content-length"} if is_coded else {b"content-length", b"transfer-encoding"}
    kept = [field for field in fields if field[0].lower() not in left_out]
    if not is_coded:
        digits = {length.lstrip(b"0") or b"0" for length in lengths if length.isdigit()}
        numbers = {number for number in digits if len(number) <= _LENGTH_DIGITS}
        if len(numbers) > 1:
            raise Unmendable
        kept += [(b"Content-Length", number) for number in numbers]
    return kept


def _listed(fields: list[tuple[bytes, bytes]], wanted: bytes) -> list[bytes]:
    return [
        part.strip().lower()
        for name, value in fields
        if name.lower() == wanted
        for part in value.split(b",")
    ]
