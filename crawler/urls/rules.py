"""Rules for the one spelling of a URL. Pure; the list of dropped parameters is in a file beside."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Self

MAX_LENGTH = 2048
# What may count as the same URL for URL-seen, though it is fetched as it was found.
FOLDS = ("scheme", "www", "slash", "index", "case")
# What shares one clock: a host, or all hosts of a registered domain.
GROUPS = ("host", "domain")

# As servers make session ids: 26 letters and digits of PHP, 32 of others.
_SESSION_ID = re.compile(r"(?=.*[0-9])[0-9A-Za-z,-]{24,}")
_NOTATION = re.compile(r"[^\s=&*;]+(?:\*|=id)?")


@dataclass(frozen=True, slots=True)
class Parameters:
    """Names of query parameters, in lower case: whole, by their beginning, and if session ids."""

    names: frozenset[str]
    prefixes: tuple[str, ...]
    sessions: frozenset[str]

    @classmethod
    def of(cls, lines: Iterable[str]) -> Self:
        """Read `name`, `prefix*` and `name=id`; ValueError names a line that is none of them."""
        names, prefixes, sessions = set(), set(), set()
        for line in lines:
            text = line.strip().lower()
            if not text or text.startswith("#"):
                continue
            if not _NOTATION.fullmatch(text):
                raise ValueError(
                    f"{line.strip()!r} is no parameter; write name, prefix* or name=id"
                )
            if text.endswith("*"):
                prefixes.add(text[:-1])
            elif text.endswith("=id"):
                sessions.add(text[:-3])
            else:
                names.add(text)
        return cls(frozenset(names), tuple(sorted(prefixes)), frozenset(sessions))

    def kind(self, name: str) -> str:
        """What a parameter of this name is: "dropped", "session" (if its value is one), "kept"."""
        name = name.lower()
        if name in self.names or name.startswith(self.prefixes):
            return "dropped"
        return "session" if name in self.sessions else "kept"


def is_session_id(value: str) -> bool:
    """Does it look like what servers make up?"""
    return _SESSION_ID.fullmatch(value) is not None


@cache
def dropped_parameters(more: tuple[str, ...] = ()) -> Parameters:
    """The bundled list, and more in its notation."""
    bundled = files(__package__).joinpath("dropped_parameters.txt").read_text(encoding="utf-8")
    return Parameters.of([*bundled.splitlines(), *more])


@dataclass(frozen=True, slots=True)
class UrlRules:
    """How the URLs of a crawl are spelled, told apart and grouped. The same in every process."""

    max_length: int = MAX_LENGTH
    sort_query: bool = True
    dropped: Parameters = field(default_factory=dropped_parameters)
    fold: frozenset[str] = frozenset()
    group_by: str = "host"
    # Whether domains end below private suffixes too, as github.io. No setting: crawls that began
    # with a version that did not know these go on without.
    private_suffixes: bool = True
