"""Read domains that are trusted to be worth while: a list, or a file such as Tranco's ranks."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from crawler.errors import ConfigurationError
from crawler.urls import Rejected, canonical, host_of

# The first of a file; about 100 bytes each.
MAX_DOMAINS = 100_000


def read(given: str | Iterable[str] | None) -> frozenset[str]:
    """The domains of a list, of a text with commas or blanks, or of a file.

    A line of a file is a domain, or a rank, a comma and a domain.
    """
    if not given:
        return frozenset()
    if not isinstance(given, str):
        return frozenset(_domain(text) for text in given)
    if "/" in given or _is_file(given):
        return _of_file(Path(given))
    return frozenset(_domain(text) for text in given.replace(",", " ").split())


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except (OSError, ValueError):
        return False


def _of_file(path: Path) -> frozenset[str]:
    found = set()
    try:
        with path.open(encoding="utf-8-sig", errors="replace") as lines:
            for line in islice(lines, MAX_DOMAINS):
                text = line.rpartition(",")[2].strip()
                if text and not text.startswith("#"):
                    found.add(_domain(text))
    except OSError as error:
        raise ConfigurationError(
            f"TRUSTED_DOMAINS: {path} cannot be read: {error.strerror}."
        ) from error
    return frozenset(found)


def _domain(text: str) -> str:
    url = canonical(f"http://{text.strip()}/")
    if isinstance(url, Rejected) or url.count("/") != 3:
        raise ConfigurationError(
            f"TRUSTED_DOMAINS has {text!r}, which is neither a domain such as example.com nor a "
            "file with one a line."
        )
    return host_of(url)
