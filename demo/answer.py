"""One response as it goes over the wire. Pure data and formatting."""

from dataclasses import dataclass
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Final

from demo.node import Behaviour

_REASONS: Final = {status.value: status.phrase for status in HTTPStatus}
SERVER: Final = "demo"


@dataclass(frozen=True, slots=True)
class Answer:
    """`wire` is the head and the body; `status` 0 means that nothing is answered."""

    status: int
    wire: bytes = b""
    head_bytes: int = 0
    behaviour: Behaviour = Behaviour.PAGE
    etag: str = ""
    modified_s: int = 0
    retry_after_s: float = 0.0
    delay_s: float = 0.0


@lru_cache(maxsize=4096)
def http_date(epoch_s: int) -> str:
    """Return a time as HTTP writes it."""
    return formatdate(epoch_s, usegmt=True)


def head(status: int, length: int, fields: dict[str, str]) -> bytes:
    """Return the head of a response with a body of `length` bytes."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items() if value)
    reason = _REASONS.get(status, "Unknown")
    size = "" if status == 304 else f"Content-Length: {length}\r\n"
    return f"HTTP/1.1 {status} {reason}\r\nServer: {SERVER}\r\n{size}{lines}\r\n".encode("latin-1")


def whole(status: int, body: bytes, fields: dict[str, str], **more: object) -> Answer:
    """Return an answer with head and body."""
    start = head(status, len(body), fields)
    return Answer(status, start + body, len(start), **more)  # type: ignore[arg-type]


def not_modified(answer: Answer) -> Answer:
    """Return the 304 that stands for `answer`."""
    fields = {"ETag": answer.etag, "Last-Modified": http_date(answer.modified_s)}
    start = head(304, 0, fields)
    return Answer(304, start, len(start))
