"""TLS of every kind of wrong. The crawl verifies certificates, by the zoo's own authority."""

from __future__ import annotations

import struct
from random import Random
from typing import Final

from demo.hostile.behaviour import CUT, STORED, WAITS, Answer, Behaviour, Certificate
from demo.hostile.talk import Talk, harmless, head

_NOISE: Final = Random(4).randbytes(4_096)
# The handshake fails already for robots.txt.
_UNREACHABLE: Final = "robots/unreachable"
_ALERT, _HANDSHAKE, _DATA = 21, 22, 23


def _record(kind: int, content: bytes) -> bytes:
    return struct.pack(">BHH", kind, 0x0303, len(content)) + content


async def _harmless(talk: Talk) -> None:
    await harmless(talk)


async def _stalls(talk: Talk) -> None:
    await talk.read()
    await talk.hang()


async def _plain(talk: Talk) -> None:
    await talk.read()
    await harmless(talk)


async def _resets(talk: Talk) -> None:
    await talk.read()
    talk.reset()


async def _closes(talk: Talk) -> None:
    await talk.read()
    talk.close()


async def _noise(talk: Talk) -> None:
    await talk.read()
    await talk.endlessly(_NOISE)


async def _alert(talk: Talk) -> None:
    await talk.read()
    await talk.send(_record(_ALERT, b"\x02\x28"))
    talk.close()


async def _warnings(talk: Talk) -> None:
    await talk.read()
    await talk.endlessly(_record(_ALERT, b"\x01\x5a"))


async def _empty_records(talk: Talk) -> None:
    await talk.read()
    await talk.endlessly(_record(_HANDSHAKE, b""))


async def _endless_hello(talk: Talk) -> None:
    """Begin a message of 16 MB and send it slowly."""
    await talk.read()
    await talk.send(_record(_HANDSHAKE, b"\x02\xff\xff\xff\x03\x03"))
    await talk.drip(_record(_HANDSHAKE, b"x"))


async def _garbage_in_body(talk: Talk) -> None:
    await talk.send(head(length=1_000) + b"x" * 500)
    talk.send_below_tls(_record(_DATA, _NOISE))
    await talk.hang()


async def _garbage_for_answer(talk: Talk) -> None:
    talk.send_below_tls(_record(_DATA, _NOISE))
    await talk.hang()


def _raw(name: str, does: str, answer: Answer) -> Behaviour:
    return Behaviour(name, does, WAITS, answer, is_raw=True, counted=_UNREACHABLE)


def _with(name: str, does: str, certificate: Certificate, outcome: str = WAITS) -> Behaviour:
    counted = _UNREACHABLE if outcome == WAITS else ""
    return Behaviour(name, does, outcome, _harmless, certificate=certificate, counted=counted)


HANDSHAKES: Final = (
    _with("tls-good", "has a certificate that is as it should be", Certificate.GOOD, STORED),
    _with("tls-expired", "has an expired certificate", Certificate.EXPIRED),
    _with("tls-not-yet", "has a certificate of next year", Certificate.NOT_YET),
    _with("tls-other-name", "has the certificate of another name", Certificate.OTHER_NAME),
    _with("tls-self-signed", "has a certificate that nobody vouches for", Certificate.SELF_SIGNED),
    _with("tls-long-chain", "has 600 certificates", Certificate.LONG_CHAIN),
    _raw("tls-stalls", "takes the first message of TLS and is silent", _stalls),
    _raw("tls-endless-hello", "sends its first message of TLS slowly, for ever", _endless_hello),
    _raw("tls-plain-text", "speaks HTTP where TLS is meant", _plain),
    _raw("tls-resets", "resets in the handshake", _resets),
    _raw("tls-closes", "closes in the handshake", _closes),
    _raw("tls-noise", "sends noise in the handshake, without end", _noise),
    _raw("tls-alert", "refuses the handshake by an alert", _alert),
    _raw("tls-warnings", "sends warnings in the handshake, without end", _warnings),
    _raw("tls-empty-records", "sends empty records in the handshake, without end", _empty_records),
    Behaviour(
        "tls-garbage-in-body",
        "sends a damaged record inside of its page",
        f"{CUT}reset",
        _garbage_in_body,
        certificate=Certificate.GOOD,
    ),
    Behaviour(
        "tls-garbage",
        "sends a damaged record instead of an answer",
        "connection",
        _garbage_for_answer,
        certificate=Certificate.GOOD,
    ),
)
