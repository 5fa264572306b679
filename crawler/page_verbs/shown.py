"""How pages are written for people and for programs. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

# What a terminal would obey instead of showing it, line ends and tabs aside.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def as_json(value: Mapping[str, Any], *, indent: int | None = None) -> str:
    """As one JSON object."""
    return json.dumps(value, indent=indent, ensure_ascii=False, default=_as_json)


def fields(values: Mapping[str, Any]) -> str:
    """A line a field, for people."""
    width = max(len(name) for name in values)
    return "\n".join(f"{name:<{width}}  {_shown(value)}" for name, value in values.items())


def harmless(text: str) -> str:
    """A text from the web that steers no terminal."""
    return _CONTROLS.sub("\ufffd", text)


def time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S %Z}"


def decoded(body: bytes, charset: str | None) -> str:
    """A body as text, by the charset that the page has."""
    try:
        return body.decode(charset or "utf-8", "replace")
    except LookupError:
        return body.decode("utf-8", "replace")


def _shown(value: object) -> object:
    if isinstance(value, datetime):
        return time(value)
    if isinstance(value, list | dict):
        return harmless(json.dumps(value, ensure_ascii=False, default=_as_json))
    return harmless(value) if isinstance(value, str) else value


def _as_json(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
