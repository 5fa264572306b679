"""Read seeds: URLs, files with one URL a line, and standard input. Topics of Kafka are named."""

import gzip
import io
import re
import sys
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from crawler.errors import ConfigurationError
from crawler.frontier.entry import Entry
from crawler.urls import DEFAULT, Rejected, Spelling, Urls
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
    # Of elements that are pushed, and of messages of Kafka.
    "no_json": "it begins as JSON, and is none",
    "no_url": "the JSON has no url",
    "no_utf8": "it is no UTF-8",
}
# Up to a blank: commas separate its hosts and topics.
_TOPIC_URL = re.compile(r"kafka://\S*")
_GZIP = b"\x1f\x8b"
# Enough to tell text from other data.
_PEEKED_BYTES = 1024
# More than a URL can have; the rest of such a line is skipped.
_LINE_MAX = 100_000
_COMMENT = re.compile(r"\s+#.*", re.DOTALL)
# Columns or several URLs: the parser would take the whole line for one URL.
_NOT_ALONE = re.compile(r"""["\s]|[,;]https?://""", re.IGNORECASE)
_ONE_A_LINE = "a line must have one URL and nothing else; a blank in a URL is written as %20"
# The decoder puts it in place of bytes that it cannot read.
_UNREADABLE = "\ufffd"
_NO_UTF8 = "it is no UTF-8; write the file in UTF-8, or the URL with %-escapes"


@dataclass(frozen=True, slots=True)
class BadSeed:
    """Line of a file that is no URL to crawl."""

    where: str
    text: str
    reason: str

    def __str__(self) -> str:
        return f"{self.where}: {shown(self.text)!r} was left out: {self.reason}."


def split_topics(seeds: str) -> tuple[str, str]:
    """Return a `seeds` argument without its topics of Kafka, and their URL; both may be empty.

    Raises ConfigurationError for several clusters.
    """
    if _is_file(seeds):
        return seeds, ""
    found = _TOPIC_URL.findall(seeds)
    if len(found) > 1:
        raise ConfigurationError(
            "seeds has several kafka:// URLs; give one, with commas between its topics: "
            "kafka://host:9092/topic,other."
        )
    return _TOPIC_URL.sub("", seeds).strip(", "), "".join(found)


def parse(seeds: str, urls: Urls = DEFAULT) -> list[Spelling | str]:
    """Return the parts of a `seeds` argument: URLs, parsed, and names of files ("-": stdin).

    Raises ConfigurationError for a part that is neither. No file is read.
    """
    if _is_file(seeds):
        return [seeds]  # whatever blanks and commas its name has
    parts = seeds.replace(",", " ").split()
    if not parts:
        raise ConfigurationError(
            "seeds is empty; give URLs, a file with one URL a line, or - for standard input: "
            "-a seeds=https://example.com"
        )
    found: list[Spelling | str] = []
    for part in parts:
        if "://" in part:
            found.append(_spelling("seeds", part, urls))
        elif part == "-" or _is_file(part):
            found.append(part)
        else:
            # Perhaps the comma was part of a URL.
            is_cut = "://" in seeds and "," in seeds
            hint = " Commas separate seeds: write one that belongs to a URL as %2C."
            raise ConfigurationError(
                f"seeds: {shown(part)!r} is neither a URL (http:// or https://) nor a file."
                f"{hint if is_cut else ''}"
            )
    return found


def parse_sitemaps(given: str, urls: Urls) -> dict[str, str]:
    """Return the URLs of a `sitemaps` argument, each with how it is written."""
    parts = given.replace(",", " ").split()
    if not parts:
        raise ConfigurationError(
            "sitemaps is empty; give URLs: -a sitemaps=https://example.com/sitemap.xml"
        )
    found: dict[str, str] = {}
    for part in parts:
        found.setdefault(*_spelling("sitemaps", part, urls))
    return found


def read(parts: Sequence[Spelling | str], urls: Urls = DEFAULT) -> Iterator[Entry | BadSeed]:
    """Yield the seeds of a parsed argument. Blocking: reads files and standard input."""
    for part in parts:
        if isinstance(part, tuple):
            yield _entry(part, urls, time.time())
            continue
        name = "standard input" if part == "-" else part
        try:
            with _opened(part) as file, _text(name, file) as text:
                yield from _lines(name, text, urls)
        except (OSError, EOFError, zlib.error) as error:
            reason = getattr(error, "strerror", None) or error
            raise ConfigurationError(f"seeds: {name} cannot be read: {reason}.") from error


def parse_seed(text: str, urls: Urls = DEFAULT, *, now_s: float) -> Entry | Rejected:
    """Return the entry of one URL that is given now, or why there is none."""
    found = urls.spelling(text)
    return found if isinstance(found, Rejected) else _entry(found, urls, now_s)


def _spelling(argument: str, text: str, urls: Urls) -> Spelling:
    found = urls.spelling(text)
    if isinstance(found, Rejected):
        raise ConfigurationError(f"{argument}: {shown(text)!r}: {why(found.reason)}.")
    return found


def _entry(spelling: Spelling, urls: Urls, now_s: float) -> Entry:
    url, written = spelling
    return Entry(
        id=urls.fingerprint(url),
        url=url,
        queue=1,
        group_skip=urls.group_skip(url),
        written=written,
        discovered_s=int(now_s),
    )


def why(reason: str) -> str:
    """Say in words why a URL is rejected."""
    return _WHY.get(reason, reason)


def _is_file(name: str) -> bool:
    try:
        # A pipe is fine too: the shell's <(…) makes one.
        return Path(name).exists() and not Path(name).is_dir()
    except OSError:
        return False


def _opened(part: str) -> IO[bytes]:
    if part != "-":
        return Path(part).open("rb")
    if sys.stdin is None:
        raise ConfigurationError("seeds: - is standard input, but that is closed.")
    # As bytes: text would be decoded in the terminal's encoding, and may fail.
    return open(sys.stdin.fileno(), "rb", closefd=False)


def _text(name: str, file: IO[bytes]) -> io.TextIOWrapper:
    """Return the text of a file, unpacked if it is gzipped."""
    if cast(io.BufferedReader, file).peek(len(_GZIP)).startswith(_GZIP):
        file = cast(IO[bytes], io.BufferedReader(gzip.GzipFile(fileobj=file)))
    if b"\0" in cast(io.BufferedReader, file).peek(_PEEKED_BYTES)[:_PEEKED_BYTES]:
        raise ConfigurationError(
            f"seeds: {name} is no text in UTF-8; give a file with one URL a line, gzipped or not."
        )
    return io.TextIOWrapper(file, encoding="utf-8-sig", errors="replace")


def _short(text: IO[str]) -> Iterator[str]:
    """Yield the lines of a text; of a line that is far too long only the beginning."""
    while line := text.readline(_LINE_MAX):
        yield line
        while len(line) == _LINE_MAX and not line.endswith("\n"):
            line = text.readline(_LINE_MAX)


def _lines(where: str, lines: IO[str], urls: Urls) -> Iterator[Entry | BadSeed]:
    for number, line in enumerate(_short(lines), start=1):
        # Files that were concatenated have byte order marks in their middle.
        text = _COMMENT.sub("", line.replace("\ufeff", "").strip())
        if not text or text.startswith("#"):
            continue
        if _UNREADABLE in text:
            yield BadSeed(f"{where}, line {number}", text, _NO_UTF8)
            continue
        if _NOT_ALONE.search(text):
            yield BadSeed(f"{where}, line {number}", text, _ONE_A_LINE)
            continue
        # Its own time: standard input may be open for hours.
        found = parse_seed(text, urls, now_s=time.time())
        if isinstance(found, Rejected):
            yield BadSeed(f"{where}, line {number}", text, why(found.reason))
        else:
            yield found
