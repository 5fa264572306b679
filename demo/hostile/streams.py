"""Connections and heads: too slow, broken off, without end, or no HTTP at all."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from demo.hostile.behaviour import CUT, STORED, WAITS, Answer, Behaviour
from demo.hostile.talk import Talk, harmless, head, page

_START: Final = b"HTTP/1.1 200 OK\r\n"
_SMALL: Final = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\nContent-Type: text/html\r\n\r\n"
_BODY: Final = b"<p>twelve</p"


def _sends(data: bytes, end: Callable[[Talk], None] = Talk.close) -> Answer:
    async def answer(talk: Talk) -> None:
        await talk.send(data)
        end(talk)

    return answer


def _sends_endlessly(data: bytes, piece: bytes) -> Answer:
    async def answer(talk: Talk) -> None:
        await talk.send(data)
        await talk.endlessly(piece)

    return answer


def _drips(data: bytes, piece: bytes) -> Answer:
    async def answer(talk: Talk) -> None:
        await talk.send(data)
        await talk.drip(piece)

    return answer


async def _silent(talk: Talk) -> None:
    await talk.hang()


async def _closes(talk: Talk) -> None:
    talk.close()


async def _resets(talk: Talk) -> None:
    talk.reset()


async def _resets_in_head(talk: Talk) -> None:
    if talk.number:
        await talk.send(_SMALL[: talk.number])
    talk.reset()


async def _resets_in_body(talk: Talk) -> None:
    await talk.send(_SMALL + _BODY[: talk.number])
    talk.reset()


async def _answers_twice(talk: Talk) -> None:
    body = page("another page that nobody asked for")
    await harmless(talk)
    await talk.send(head(length=len(body)) + body)
    await talk.hang()


def _with_lines(lines: bytes) -> Answer:
    async def answer(talk: Talk) -> None:
        body = page(talk.host)
        length = b"Content-Length: %d\r\n" % len(body)
        await talk.send(_START + length + lines + b"\r\n" + body)
        talk.close()

    return answer


_NOISE: Final = Random(1).randbytes(65_536).replace(b"\n", b" ")
_COOKIES: Final = b"".join(b"Set-Cookie: c%d=%060d\r\n" % (at, at) for at in range(3_000))

STREAMS: Final = (
    Behaviour("refused", "listens on no port", WAITS, _closes, is_closed=True),
    Behaviour("silence", "never answers", "timeout", _silent),
    Behaviour(
        "slow-loris-head", "sends a header in bytes, for ever", "timeout", _drips(_START, b"x")
    ),
    Behaviour(
        "slow-loris-headers",
        "sends a short header now and then",
        "timeout",
        _drips(_START, b"A: b\r\n"),
    ),
    Behaviour("slow-loris-body", "sends a page byte by byte", "timeout", _drips(head(), b"x")),
    Behaviour(
        "slow-loris-chunks",
        "sends chunks of a byte now and then",
        "timeout",
        _drips(head(fields="Transfer-Encoding: chunked\r\n"), b"1\r\nx\r\n"),
    ),
    Behaviour("closes-at-once", "closes instead of an answer", "connection", _closes),
    Behaviour("resets-at-once", "resets instead of an answer", "connection", _resets),
    Behaviour(
        "resets-in-head",
        "resets after each byte of a head",
        "connection",
        _resets_in_head,
        hosts=64,
    ),
    Behaviour(
        "resets-in-body",
        "resets after each byte of a body",
        f"{CUT}reset",
        _resets_in_body,
        hosts=12,
    ),
    Behaviour("half-a-head", "closes inside of its head", "connection", _sends(_SMALL[:30])),
    Behaviour("answers-twice", "sends a second page after the first", STORED, _answers_twice),
    Behaviour("no-http", "sends noise without end", "malformed", _sends_endlessly(b"", _NOISE)),
    Behaviour("other-protocol", "greets as SSH does", "malformed", _sends(b"SSH-2.0-x\r\n")),
    Behaviour("no-head", "sends a page without a head", "malformed", _sends(page("no head"))),
    Behaviour(
        "tls-on-http",
        "answers HTTP with an alert of TLS",
        "malformed",
        _sends(b"\x15\x03\x03\x00\x02\x02\x28"),
    ),
    Behaviour(
        "endless-status-line",
        "sends a status line without end",
        "malformed",
        _sends_endlessly(b"HTTP/1.1 200 ", b"x" * 1000),
    ),
    Behaviour(
        "endless-header",
        "sends a header without end",
        "malformed",
        _sends_endlessly(_START + b"A: ", b"x" * 1000),
    ),
    Behaviour(
        "endless-header-name",
        "sends the name of a header without end",
        "malformed",
        _sends_endlessly(_START, b"x" * 1000),
    ),
    Behaviour(
        "endless-headers",
        "sends headers without end",
        "malformed",
        _sends_endlessly(_START, b"A: b\r\n"),
    ),
    Behaviour(
        "endless-folding",
        "continues a header on the next line, for ever",
        "malformed",
        _sends_endlessly(_START + b"A: b\r\n", b" c\r\n"),
    ),
    Behaviour(
        "endless-blank-lines",
        "sends empty lines before its head, for ever",
        "malformed",
        _sends_endlessly(b"", b"\r\n"),
    ),
    Behaviour(
        "endless-hints",
        "sends interim responses (1xx) without end",
        "malformed",
        _sends_endlessly(b"", b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"),
    ),
    Behaviour(
        "many-headers",
        "sends 5,000 headers",
        "malformed",
        _with_lines(b"".join(b"X-%d: y\r\n" % at for at in range(5_000))),
    ),
    Behaviour(
        "long-header",
        "sends a header of 100 KB",
        "malformed",
        _with_lines(b"X: " + b"y" * 100_000 + b"\r\n"),
    ),
    Behaviour("cookie-flood", "sets 3,000 cookies", STORED, _with_lines(_COOKIES)),
    Behaviour(
        "zero-byte-header", "has a zero byte in a header", "malformed", _with_lines(b"X: a\0b\r\n")
    ),
    Behaviour(
        "odd-header-names",
        "has headers with control characters and without names",
        STORED,
        _with_lines(b": x\r\nna me: x\r\n\x01\x02: x\r\n\xff\xfe: x\r\nno colon\r\n"),
    ),
    Behaviour(
        "status-0", "answers with the status 000", "connection", _sends(b"HTTP/1.1 000 X\r\n\r\n")
    ),
    Behaviour(
        "status-999", "answers with the status 999", "status_999", _sends(head(999, length=0))
    ),
    Behaviour(
        "switches-protocols",
        "answers 101 and speaks something else, for ever",
        "status_101",
        _sends_endlessly(b"HTTP/1.1 101 X\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", _NOISE),
    ),
)
