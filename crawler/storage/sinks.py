"""Read SINKS: the names, URLs or class paths of the places where pages go."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from scrapy.utils.misc import load_object

from crawler import config
from crawler.errors import ConfigurationError, CrawlerError
from crawler.servers import postgres
from crawler.servers.objects import SCHEMES
from crawler.storage.sink import Sink, SinkContext
from crawler.util.secrets import Mask, url_passwords, without_secrets

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from crawler.servers.connections import Servers

# The name of SINKS in earlier versions.
FORMER = "PAGES_STORE"
NONE = "none"
MONGO = "mongo"
WARC = "warc"
KAFKA = "kafka"
POSTGRESQL = "postgresql"
# By the name or the scheme in SINKS. Loaded when used, as each may need packages of its own.
_BUILT_IN = {
    MONGO: "crawler.storage.mongo.sink.MongoSink",
    WARC: "crawler.storage.warc.sink.WarcSink",
    KAFKA: "crawler.storage.kafka.sink.KafkaSink",
    **dict.fromkeys(postgres.SCHEMES, "crawler.storage.postgres.sink.PostgresSink"),
    **dict.fromkeys(SCHEMES, "crawler.storage.objects.ObjectSink"),
    **dict.fromkeys(("elasticsearch", "opensearch"), "crawler.storage.elastic.ElasticSink"),
}
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
        except Exception as error:  # the module is not ours: it may raise anything
            raise ConfigurationError(
                f"SINKS names {self.path}, which cannot be loaded ({_explained(error)}); correct "
                "its path or its module."
            ) from error
        if not (isinstance(found, type) and issubclass(found, Sink)):
            raise ConfigurationError(
                f"SINKS names {self.path}, which is no subclass of crawler.storage.Sink."
            )
        return found

    def make(self, crawl: str, settings: BaseSettings, servers: Servers) -> Sink:
        """Make the sink of a crawl; ConfigurationError if that fails."""
        kind = self.load()
        try:
            return kind.from_context(SinkContext(crawl, self.target, settings, servers))
        except CrawlerError:
            raise
        except Exception as error:  # the class is not ours: it may raise anything
            mask = Mask(url_passwords(self.target))
            raise ConfigurationError(
                f"The sink {self.name} cannot be made ({mask(_explained(error))}); correct "
                f"{self.path}."
            ) from error


def _explained(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def named_sinks(settings: BaseSettings) -> list[NamedSink]:
    """Read SINKS; an empty list for "none", ConfigurationError for what is unknown."""
    if settings[FORMER] is not None:
        raise ConfigurationError(
            f"{FORMER} is {settings[FORMER]!r}, and SINKS has taken its place: use SINKS=mongo, "
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
    return bool(targets(settings, MONGO))


def targets(settings: BaseSettings, name: str) -> list[str]:
    """Return the targets of the sinks of a built-in kind."""
    return [sink.target for sink in named_sinks(settings) if sink.path == _BUILT_IN[name]]


def has_archive(settings: BaseSettings) -> bool:
    """Return whether a sink archives the bytes on the wire."""
    return any(sink.load().archives for sink in named_sinks(settings))


def shown_sinks(settings: BaseSettings) -> str:
    """Return SINKS for people, without credentials."""
    text = " ".join(_words(settings))
    return Mask(url_passwords(text))(text)


def _words(settings: BaseSettings) -> list[str]:
    given = config.value(settings, "SINKS")
    if isinstance(given, str):
        words = _listed(given) if given.lstrip().startswith("[") else given.split()
    elif isinstance(given, (list, tuple)) or given is None:
        words = [str(each) for each in given or ()]
    else:
        raise ConfigurationError("SINKS is neither a text nor a list of texts; use SINKS=mongo.")
    if not words:
        raise ConfigurationError("SINKS is empty; use mongo, or none if a feed takes the pages.")
    return words


def _listed(text: str) -> list[str]:
    try:
        return [str(word) for word in json.loads(text)]
    except ValueError as error:
        raise ConfigurationError(
            f"SINKS is {without_secrets(text)!r}, which is no list in JSON; separate sinks by "
            "blanks."
        ) from error


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
        hint = "Use the name mongo, and give the address as MONGO_URI. "
    elif "," in head:
        hint = "Separate sinks by blanks. "
    else:
        hint = f"Did you mean {meant[0]}? " if meant else ""
    shown = Mask(url_passwords(word))(word)
    others = f"There are {', '.join(known)}, and classes of your own by their path"
    raise ConfigurationError(
        f"SINKS has {shown!r}, which is no sink. {hint}{others}, as myproject.sinks.Files."
    )
