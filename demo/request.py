"""Read the head of an HTTP/1.1 request. Pure; only as much as the synthetic web needs."""

from typing import NamedTuple

from demo.validators import Validators


class Request(NamedTuple):
    """What the server must know of a request; `body_bytes` is to be skipped."""

    method: str
    host: str
    target: str
    agent: str
    keep_alive: bool
    validators: Validators | None
    body_bytes: int


def _field(text: str, lower: str, name: str) -> str:
    at = lower.find(f"\r\n{name}:")
    if at < 0:
        return ""
    start = at + len(name) + 3
    end = text.find("\r\n", start)
    return text[start : end if end >= 0 else len(text)].strip()


def parse_request(head: bytes) -> Request | None:
    """Return the request of a head without its closing blank line; None if it is malformed."""
    text = head.decode("latin-1")
    lower = text.lower()
    parts = text[: text.find("\r\n") if "\r\n" in text else len(text)].split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        return None
    method, target, version = parts
    host = _field(text, lower, "host")
    if target.startswith("http://"):
        host, _, rest = target[7:].partition("/")
        target = "/" + rest
    if not target.startswith("/"):
        return None
    connection = _field(lower, lower, "connection")
    keep_alive = connection != "close" if version == "HTTP/1.1" else connection == "keep-alive"
    validators = None
    if "\r\nif-" in lower:
        validators = Validators(
            _field(text, lower, "if-none-match"), _field(text, lower, "if-modified-since")
        )
    length = _field(lower, lower, "content-length")
    body_bytes = int(length) if length.isascii() and length.isdigit() else 0
    name = host.partition(":")[0].lower().rstrip(".")
    agent = _field(text, lower, "user-agent").replace("\t", " ") or "-"
    return Request(method, name, target, agent, keep_alive, validators, body_bytes)
