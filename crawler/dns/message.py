"""A question to a DNS server as bytes, and what a plain answer says (RFC 1035). Pure.

Plain is what nearly all answers are. The others are NotPlain: they are for a whole DNS library.
"""

from __future__ import annotations

import re
import secrets
import socket
import struct
from typing import NamedTuple

_HEADER = struct.Struct("!6H")
# Of a record, after its name: kind, class, time to live, size.
_RECORD = struct.Struct("!HHIH")
_KINDS = {"A": 1, "AAAA": 28}
_FAMILIES = {1: socket.AF_INET, 28: socket.AF_INET6}
_ALIAS = 5
_INTERNET = 1
_LABEL = re.compile(rb"[A-Za-z0-9_-]{1,63}")
_NAME_MAX, _LABEL_MAX = 255, 63
_ALIASES_MAX = 16
_TTL_MAX = 2**31 - 1

_RECURSE = 0x0100
_IS_ANSWER, _OPCODE, _IS_CUT, _RCODE = 0x8000, 0x7800, 0x0200, 0x000F
_NO_ERROR, _NO_SUCH_NAME = 0, 3

Name = tuple[bytes, ...]


class NotPlain(Exception):
    """An answer that is cut, damaged or out of the ordinary, or that is none."""


class Found(NamedTuple):
    """The addresses of a name, none if it has none of the kind, and how long they may be used."""

    addresses: tuple[str, ...]
    ttl_s: int = 0


def question(host: str, kind: str) -> bytes:
    """Ask for the addresses of a name with dots, of the kind A or AAAA; NotPlain for odd names."""
    try:
        labels = host.encode("ascii").split(b".")
    except UnicodeEncodeError as error:
        raise NotPlain from error
    if len(host) > _NAME_MAX - 2 or not all(map(_LABEL.fullmatch, labels)):
        raise NotPlain
    name = b"".join(bytes((len(label),)) + label for label in labels)
    header = _HEADER.pack(secrets.randbits(16), _RECURSE, 1, 0, 0, 0)
    return header + name + b"\0" + _KINDS[kind].to_bytes(2) + _INTERNET.to_bytes(2)


def read(answer: bytes, asked: bytes) -> Found | None:
    """What is said to a question; None for what is no answer to it, or NotPlain."""
    start = _HEADER.size
    if len(answer) < len(asked) or answer[:2] != asked[:2]:
        return None
    _, flags, questions, records, _, _ = _HEADER.unpack_from(answer)
    if not flags & _IS_ANSWER or questions != 1:
        return None
    if answer[start : len(asked)].lower() != asked[start:].lower():
        return None
    rcode = flags & _RCODE
    if flags & (_OPCODE | _IS_CUT) or rcode not in (_NO_ERROR, _NO_SUCH_NAME):
        raise NotPlain
    if rcode == _NO_SUCH_NAME:
        return Found(())
    kind = int.from_bytes(asked[-4:-2])
    try:
        return _follow(answer, len(asked), records, kind)
    except (IndexError, ValueError, OSError, struct.error) as error:
        raise NotPlain from error


def _follow(answer: bytes, at: int, records: int, kind: int) -> Found:
    """The addresses at the end of the aliases."""
    addresses: dict[Name, dict[str, int]] = {}
    aliases: dict[Name, tuple[Name, int]] = {}
    for _ in range(records):
        owner, at = _name(answer, at)
        found, network, ttl_s, size = _RECORD.unpack_from(answer, at)
        at += _RECORD.size
        if ttl_s > _TTL_MAX:
            # RFC 2181, section 8.
            ttl_s = 0
        if network == _INTERNET and found == kind:
            address = socket.inet_ntop(_FAMILIES[kind], answer[at : at + size])
            addresses.setdefault(owner, {})[address] = ttl_s
        elif network == _INTERNET and found == _ALIAS:
            aliases[owner] = (_name(answer, at)[0], ttl_s)
        at += size
        if at > len(answer):
            raise NotPlain
    name, _ = _name(answer, _HEADER.size)
    least_s = _TTL_MAX
    for _ in range(_ALIASES_MAX):
        if name in addresses:
            known = addresses[name]
            return Found(tuple(known), min(least_s, *known.values()))
        if name not in aliases:
            return Found(())
        name, ttl_s = aliases[name]
        least_s = min(least_s, ttl_s)
    raise NotPlain


def _name(answer: bytes, at: int) -> tuple[Name, int]:
    """The name that begins here, and where what follows it does."""
    labels: list[bytes] = []
    end, length = 0, 0
    while size := answer[at]:
        if size >= 0xC0:
            # The rest of the name stands further ahead.
            target = (size & 0x3F) << 8 | answer[at + 1]
            end = end or at + 2
            if target >= at:
                raise NotPlain
            at = target
            continue
        length += size + 1
        label = answer[at + 1 : at + 1 + size]
        # A name that leads into itself gets too long.
        if length >= _NAME_MAX or size > _LABEL_MAX or size != len(label):
            raise NotPlain
        labels.append(label.lower())
        at += size + 1
    return tuple(labels), end or at + 1
