"""Readers of users: READERS names a function for each type."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from scrapy.utils.misc import load_object

from crawler import config
from crawler.errors import ConfigurationError

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+-]+")
_ADVICE = 'give {"type/subtype": "path.of.a.function"}'


def own_readers(settings: BaseSettings) -> dict[str, str]:
    """Return the path of the reader for each type of READERS; ConfigurationError if one is wrong.

    Each is imported here once, so that a wrong path is noticed at the start of the crawl.
    """
    given: Mapping[Any, Any] = config.value(settings, "READERS")
    return {_type_of(kind): _path_of(kind, reader) for kind, reader in given.items()}


def _type_of(kind: Any) -> str:
    name = str(kind).strip().lower()
    if not _TYPE.fullmatch(name):
        raise ConfigurationError(f"READERS has the type {kind!r}; {_ADVICE}.")
    return name


def _path_of(kind: Any, reader: Any) -> str:
    if callable(reader):
        # A worker imports it by its path.
        reader = f"{reader.__module__}.{getattr(reader, '__qualname__', '')}"
    what = f"READERS[{kind!r}] is {reader!r}"
    if not isinstance(reader, str):
        raise ConfigurationError(f"{what}; {_ADVICE}.")
    try:
        function = load_object(reader)
    except (ImportError, ValueError, NameError) as error:
        raise ConfigurationError(f"{what}, which cannot be imported ({error}).") from error
    if not callable(function):
        raise ConfigurationError(f"{what}, which is no function.")
    try:
        inspect.signature(function).bind(b"", "")
    except TypeError as error:
        raise ConfigurationError(
            f"{what}, which does not take two arguments, the body and its URL ({error})."
        ) from error
    except ValueError:
        # One of a library that does not say what it takes.
        pass
    return reader
