"""Read SINKS: the names, URLs or class paths of the places where pages go."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from scrapy.utils.misc import load_object

from crawler import config
from crawler.errors import ConfigurationError
from crawler.storage.sink import Sink
from crawler.util.secrets import without_secrets

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

# The name of SINKS in earlier versions.
_FORMER = "PAGES_STORE"
NONE = "none"
MONGO = "mongo"
# By the name or the scheme in SINKS. Loaded when used, as each may need packages of its own.
_BUILT_IN = {MONGO: "crawler.storage.mongo.sink.MongoSink"}
# A name of its own before a sink, as in first=myproject.sinks.Files:a/.
_NAME = re.compile(r"([A-Za-z][\w.+]{0,29})=")
_CLASS_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")


@dataclass(frozen=True, slots=True)
class NamedSink:
    """One of SINKS. Its target may have credentials, its name has none."""

    # Short and unique: for logs, stats and metrics.
    name: str
    # Class of the sink.
    path: str
    target: str

    def load(self) -> type[Sink]:
        """Load the class; ConfigurationError if there is none, or it is no sink."""
        try:
            found = load_object(self.path)
        except (ImportError, NameError, ValueError) as error:
            raise ConfigurationError(
                f"SINKS names {self.path}, which cannot be loaded ({error}); correct its path."
            ) from error
        if not (isinstance(found, type) and issubclass(found, Sink)):
            raise ConfigurationError(
                f"SINKS names {self.path}, which is no subclass of crawler.storage.Sink."
            )
        return found


def named_sinks(settings: BaseSettings) -> list[NamedSink]:
    """Read SINKS; an empty list for "none", ConfigurationError for what is unknown."""
    if settings[_FORMER] is not None:
        raise ConfigurationError(
            f"{_FORMER} is {settings[_FORMER]!r}, and SINKS has taken its place: use SINKS=mongo, "
            "SINKS=none with a feed, or any of the sinks in docs/sinks.md."
        )
    words = _words(settings)
    if words == [NONE]:
        return []
    found: dict[str, NamedSink] = {}
    for word in words:
        sink = _named(word)
        if sink.name in found:
            raise ConfigurationError(
                f"SINKS has two sinks with the name {sink.name}; give each its own, as "
                f"first={sink.path}:… second={sink.path}:…"
            )
        found[sink.name] = sink
    return list(found.values())


def uses_mongo(settings: BaseSettings) -> bool:
    """Return whether pages go to MongoDB."""
    return any(sink.path == _BUILT_IN[MONGO] for sink in named_sinks(settings))


def shown_sinks(settings: BaseSettings) -> str:
    """Return SINKS for people, without credentials."""
    return without_secrets(" ".join(_words(settings)))


def _words(settings: BaseSettings) -> list[str]:
    given = config.value(settings, "SINKS")
    words = given.split() if isinstance(given, str) else [str(each) for each in given or ()]
    if not words:
        raise ConfigurationError("SINKS is empty; use mongo, or none if a feed takes the pages.")
    return words


def _named(word: str) -> NamedSink:
    given = _NAME.match(word)
    word = word[given.end() :] if given else word
    head, _, rest = word.partition(":")
    target = word if rest.startswith("//") else rest
    if head in _BUILT_IN:
        return NamedSink(given[1] if given else head, _BUILT_IN[head], target)
    if _CLASS_PATH.fullmatch(head):
        name = given[1] if given else head.rpartition(".")[2]
        return NamedSink(name, head, target)
    if head == NONE:
        raise ConfigurationError("SINKS has none and others; use none alone, or leave it out.")
    known = [*_BUILT_IN, NONE]
    meant = get_close_matches(head, known, n=1)
    if head == "mongodb":
        hint = "Use the name mongo, and give the address as MONGO_URI."
    elif "," in head:
        hint = "Separate sinks by blanks."
    else:
        hint = f"Did you mean {meant[0]}?" if meant else ""
    raise ConfigurationError(
        f"SINKS has {without_secrets(word)!r}, which is no sink. {hint} There are "
        f"{', '.join(known)}, and classes of your own by their path, as myproject.sinks.Files."
    )
