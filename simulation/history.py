"""Write the history of a schedule for people: what happened, when, in which process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from crawler.frontier.entry import decode

# (seconds, who, what): a text, or a verb that Redis executed, with its command and reply.
Line = tuple[float, str, Any]
# URLs of leases, by the tag of their shard and their token.
Urls = dict[tuple[str, bytes], str]


def lines(history: Iterable[Line]) -> list[str]:
    """Return the lines of a history, without calls that change nothing."""
    found = []
    urls: Urls = {}
    for at_s, who, what in history:
        text = what if isinstance(what, str) else _call(*what, urls)
        if text:
            found.append(f"{at_s:9.4f} {who:8} {text}")
    return found


def _call(verb: str, command: Sequence[Any], reply: Any, urls: Urls) -> str:
    if isinstance(reply, Exception):
        return f"{verb}: {reply}"
    show = _SHOWN.get(verb)
    text = show(command, reply, urls) if show is not None else None
    shard = command[3].decode() if isinstance(command[3], bytes) else command[3]
    return f"redis: {verb} {text} {shard}" if text else ""


def _add(command: Sequence[Any], reply: bytes, _: Urls) -> str:
    data, lengths, at, found = command[4], command[5], 0, []
    for i in range(0, len(lengths), 4):
        length = int.from_bytes(lengths[i : i + 4])
        found.append(decode(data[at : at + length]).url)
        at += length
    words = {"1": "new", "0": "known"}
    answers = (words.get(answer, "refused") for answer in reply.decode())
    return ", ".join(f"{url} ({answer})" for url, answer in zip(found, answers, strict=True))


def _named(tag: str, leases: Iterable[bytes], urls: Urls) -> str:
    found = []
    for lease in leases:
        token, _, data = lease.split(b" ", 2)
        url = urls[tag, token] = decode(data).url
        found.append(f"{url} ({token[-3:].decode()})")
    return ", ".join(found)


def _claim(command: Sequence[Any], reply: Sequence[Any], urls: Urls) -> str:
    state = reply[0].decode()
    if state not in ("ok", "paced"):
        return state
    return _named(command[3], reply[1], urls)


def _beat(command: Sequence[Any], reply: Sequence[Any], urls: Urls) -> str:
    if not reply[0]:
        return f"of {command[4]}: it was declared dead"
    strays = _named(command[3], reply[2], urls)
    if strays:
        return f"does not name {strays}"
    return f"registers {command[4]}" if str(command[6]) == "1" else ""


def _tokens(first: int, step: int) -> Callable[..., str]:
    def show(command: Sequence[Any], _reply: Any, urls: Urls) -> str:
        tokens = command[first::step]
        return ", ".join(f"{urls.get((command[3], t), '?')} ({t[-3:].decode()})" for t in tokens)

    return show


def _number(_: Sequence[Any], reply: int, __: Urls) -> str:
    return f"{reply} URLs" if reply else ""


_SHOWN: dict[str, Callable[..., str]] = {
    "add": _add,
    "claim": _claim,
    "beat": _beat,
    "done": _tokens(6, 2),
    "retry": _tokens(8, 3),
    "bury": _tokens(7, 2),
    "hand_back": _tokens(6, 2),
    "release": _tokens(7, 3),
    "reclaim": _number,
    "promote": _number,
    "leave": lambda command, reply, _: f"of {command[4]}" + ("" if reply else ": it has leases"),
}
