"""Read seeds: URLs, files with one URL a line, standard input, and what others push to Redis."""

from __future__ import annotations

import gzip
import io
import re
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from crawler.errors import ConfigurationError
from crawler.frontier.entry import Entry
from crawler.urls import DEFAULT, Rejected, Urls
from crawler.util.secrets import shown

_WHY = {
    "no_scheme": "it is no URL; write it with http:// or https://",
    "malformed": "it is no valid URL",
    "scheme": "only http and https are crawled",
    "credentials": (
        "a URL with a user name or password is not crawled; leave them out and set HTTPAUTH_USER, "
        "HTTPAUTH_PASS and HTTPAUTH_DOMAIN"
    ),
    "too_long": "it is too long (URL_LENGTH_LIMIT, max_url_length)",
    "excluded": "its domain is excluded from this crawl",
}
_GZIP = b"\x1f\x8b"
# Enough to tell text from other data.
_PEEKED_BYTES = 1024
# More than a URL can have; the rest of such a line is not even kept.
_LINE_MAX = 100_000
_COMMENT = re.compile(r"\s+#.*", re.DOTALL)
# Columns, or several URLs: the parser would take all of it for one strange URL.
_NOT_ALONE = re.compile(r"""["\s]|[,;]https?://""", re.IGNORECASE)
_ONE_A_LINE = "a line must have one URL and nothing else; a blank in a URL is written as %20"
# What the decoder puts in the place of bytes that it cannot read.
_UNREADABLE = "\ufffd"
_NO_UTF8 = "it is no UTF-8; write the file in UTF-8, or the URL with %-escapes"


@dataclass(frozen=True, slots=True)
class BadSeed:
    """A line of a file that is no URL to crawl."""

    where: str
    text: str
    reason: str

    def __str__(self) -> str:
        return f"{self.where}: {shown(self.text)!r} was left out: {self.reason}."


def check(seeds: str | None, urls: Urls = DEFAULT) -> list[str]:
    """The parts of a `seeds` argument, or ConfigurationError: nothing is read from files yet."""
    if seeds and _is_file(seeds):
        return [seeds]  # whatever blanks and commas its name has
    parts = (seeds or "").replace(",", " ").split()
    if not parts:
        raise ConfigurationError(
            "seeds is empty; give URLs, a file with one URL a line, or - for standard input: "
            "-a seeds=https://example.com"
        )
    for part in parts:
        if part == "-":
            continue
        if "://" in part:
            seed_entry(part, urls)
        elif not _is_file(part):
            raise ConfigurationError(
                f"seeds: {shown(part)!r} is neither a URL (http:// or https://) nor a file."
                f"{_hint(seeds)}"
            )
    return parts


def read(seeds: str, urls: Urls = DEFAULT) -> Iterator[Entry | BadSeed]:
    """The seeds of a checked argument. Blocking: files and standard input are read here."""
    for part in check(seeds, urls):
        if "://" in part:
            yield seed_entry(part, urls)
            continue
        name = "standard input" if part == "-" else part
        try:
            with _opened(part) as file, _text(name, file) as text:
                yield from _lines(name, text, urls)
        except (OSError, EOFError, zlib.error) as error:
            reason = getattr(error, "strerror", None) or error
            raise ConfigurationError(f"seeds: {name} cannot be read: {reason}.") from error


def seed_entry(url: str, urls: Urls = DEFAULT, *, argument: str = "seeds") -> Entry:
    """The entry of one seed, or ConfigurationError."""
    found = parse_seed(url, urls)
    if isinstance(found, Rejected):
        raise ConfigurationError(f"{argument}: {shown(url)!r}: {why(found.reason)}.")
    return found


def parse_seed(text: str, urls: Urls = DEFAULT) -> Entry | Rejected:
    """The entry of one URL, or why there is none."""
    found = urls.spelling(text)
    if isinstance(found, Rejected):
        return found
    url, written = found
    return Entry(
        id=urls.fingerprint(url), url=url, queue=1, group_skip=urls.group_skip(url), written=written
    )


def why(reason: str) -> str:
    """Why a URL is no seed, in words."""
    return _WHY.get(reason, reason)


def _hint(seeds: str | None) -> str:
    """What else a comma may have been meant for."""
    is_cut = "://" in (seeds or "") and "," in (seeds or "")
    return " Commas separate seeds: write one that belongs to a URL as %2C." if is_cut else ""


def _is_file(name: str) -> bool:
    try:
        # A pipe will do, as the shell's <(…) makes one.
        return Path(name).exists() and not Path(name).is_dir()
    except OSError:
        return False


def _opened(part: str) -> IO[bytes]:
    if part != "-":
        return Path(part).open("rb")
    if sys.stdin is None:
        raise ConfigurationError("seeds: - is standard input, but that is closed.")
    # Its bytes: as text they are in the terminal's encoding, and fail where they are not.
    return open(sys.stdin.fileno(), "rb", closefd=False)


def _text(name: str, file: IO[bytes]) -> io.TextIOWrapper:
    """The text of a file, unpacked if need be."""
    if cast(io.BufferedReader, file).peek(len(_GZIP)).startswith(_GZIP):
        file = cast(IO[bytes], io.BufferedReader(gzip.GzipFile(fileobj=file)))
    if b"\0" in cast(io.BufferedReader, file).peek(_PEEKED_BYTES)[:_PEEKED_BYTES]:
        raise ConfigurationError(
            f"seeds: {name} is no text in UTF-8; give a file with one URL a line, gzipped or not."
        )
    return io.TextIOWrapper(file, encoding="utf-8-sig", errors="replace")


def _short(text: IO[str]) -> Iterator[str]:
    """Its lines, but of one that is far too long the beginning."""
    while line := text.readline(_LINE_MAX):
        yield line
        while len(line) == _LINE_MAX and not line.endswith("\n"):
            line = text.readline(_LINE_MAX)


def _lines(where: str, lines: IO[str], urls: Urls) -> Iterator[Entry | BadSeed]:
    for number, line in enumerate(_short(lines), start=1):
        # Files that were put together have marks of their order of bytes in their middle.
        text = _COMMENT.sub("", line.replace("\ufeff", "").strip())
        if not text or text.startswith("#"):
            continue
        if _UNREADABLE in text:
            yield BadSeed(f"{where}, line {number}", text, _NO_UTF8)
            continue
        if _NOT_ALONE.search(text):
            yield BadSeed(f"{where}, line {number}", text, _ONE_A_LINE)
            continue
        found = parse_seed(text, urls)
        if isinstance(found, Rejected):
            yield BadSeed(f"{where}, line {number}", text, why(found.reason))
        else:
            yield found
