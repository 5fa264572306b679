"""Find who wrote an HTML page and when, as its markup says. Pure.

Of several statements the first of these counts: meta tags for articles, JSON-LD, other meta tags,
elements for authors and times, and for the date that in the URL. JSON-LD is searched and not
parsed: much of it is broken, and a page may have megabytes. A date without a time zone is in UTC.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from email.utils import parsedate_to_datetime
from itertools import islice

from selectolax.lexbor import LexborHTMLParser, LexborNode

from crawler.parsing.document import Document

# Names of meta tags, in lower case; "" is the place of JSON-LD.
_PUBLISHED = (
    *("article:published_time", "article:published", "article.published", "datepublished", ""),
    *("parsely-pub-date", "pubdate", "og:pubdate", "publish-date", "publish_date", "pub_date"),
    *("dc.date.issued", "dcterms.issued", "dcterms.created", "dc.date.created", "datecreated"),
    *("dc.date", "dcterms.date", "citation_publication_date", "sailthru.date", "date"),
)
_UPDATED = (
    *("article:modified_time", "article:modified", "article.updated", "datemodified", ""),
    *("og:updated_time", "dcterms.modified", "dc.date.modified", "last-modified", "lastmod"),
    *("updated-date", "updated_date"),
)
_AUTHOR = (
    *("author", "article:author", "", "parsely-author", "sailthru.author", "dc.creator"),
    *("dcterms.creator", "citation_author", "byl"),
)
WANTED = frozenset({*_PUBLISHED, *_UPDATED, *_AUTHOR}) - {""}

_VALUE_CHARS, _AUTHOR_CHARS = 500, 100
# Characters of JSON-LD, numbers of dates in it, of times and of links that are looked at.
_JSON_CHARS, _JSON_DATES, _TIMES, _LINKS = 200_000, 5, 20, 500
# More times than this are those of a list of pages.
_FEW_TIMES = 3
_STRING = r'"((?:[^"\\]|\\.){1,200})"'
_PUBLISHED_IN_JSON = re.compile(r'"datePublished"\s*:\s*"([^"\\]{8,60})"')
_UPDATED_IN_JSON = re.compile(r'"dateModified"\s*:\s*"([^"\\]{8,60})"')
# A name, a list, or an object before its first object within.
_AUTHOR_IN_JSON = re.compile(
    rf'"author"\s*:\s*(?:{_STRING}|\[([^\]]{{0,2000}})|(\{{[^{{}}]{{0,2000}}))'
)
_NAME_IN_JSON = re.compile(rf'"name"\s*:\s*{_STRING}')
_TEXT_IN_JSON = re.compile(_STRING)
_BY = re.compile(r"(?:(?:written|posted|published)\s+)?by\b[:\s]*", re.IGNORECASE)
_NO_NAMES = ("http://", "https://", "www.", "@", "follow ", "more ", "view ", "see ", "all ")
_BYLINES = "[itemprop=author], .byline, .author-name, .article-author, .entry-author, .post-author"
_OF_UPDATE = re.compile(r"modif|update", re.IGNORECASE)
_OF_PUBLISHING = re.compile(r"publish|posted|created|entry-date|pubdate", re.IGNORECASE)


def fill(
    document: Document,
    url: str,
    metas: Mapping[str, str],
    *,
    tree: LexborHTMLParser,
    scripts: Iterable[LexborNode],
    times: Sequence[LexborNode],
    links: Sequence[LexborNode],
) -> None:
    """Give a document its author and dates, as far as the page has them.

    `metas` has the contents of the meta tags in WANTED, `times` and `links` are its elements.
    """
    data = _linked_data(scripts)
    document.published_at = (
        _first_date(metas, _PUBLISHED, data, _PUBLISHED_IN_JSON)
        or _date_of_times(times, _OF_PUBLISHING)
        or _date_in_url(url)
    )
    document.updated_at = _first_date(metas, _UPDATED, data, _UPDATED_IN_JSON) or _date_of_times(
        times, _OF_UPDATE
    )
    document.author = _first_author(metas, data) or _author_of_elements(tree, links)


def _linked_data(scripts: Iterable[LexborNode]) -> str:
    """Return the JSON-LD of a page, as much as is looked at."""
    found = ""
    for node in scripts:
        if "ld+json" in (node.attributes.get("type") or ""):
            found += node.text_lexbor()[: _JSON_CHARS - len(found)]
    return found


def _first_date(
    metas: Mapping[str, str], names: Iterable[str], data: str, in_json: re.Pattern[str]
) -> datetime | None:
    for name in names:
        if name in metas:
            found = date_of(metas[name])
            if found is not None:
                return found
        elif not name and data:
            for said in islice(in_json.finditer(data), _JSON_DATES):
                found = date_of(said[1])
                if found is not None:
                    return found
    return None


def _date_of_times(nodes: Sequence[LexborNode], kind: re.Pattern[str]) -> datetime | None:
    """Return the first time that is marked as of this kind.

    On a page with few times the first one that is not marked is that of publishing.
    """
    for node in nodes[:_TIMES]:
        attributes = node.attributes
        marks = " ".join(filter(None, map(attributes.get, ("itemprop", "class")))) + (
            " pubdate" if "pubdate" in attributes else ""
        )
        if kind.search(marks) or (
            kind is _OF_PUBLISHING and len(nodes) <= _FEW_TIMES and not _OF_UPDATE.search(marks)
        ):
            found = date_of(attributes.get("datetime") or "")
            if found is not None:
                return found
    return None


def _first_author(metas: Mapping[str, str], data: str) -> str:
    for name in _AUTHOR:
        found = _name(metas[name]) if name in metas else _name(_author_in(data)) if not name else ""
        if found:
            return found
    return ""


def _author_in(data: str) -> str:
    """Return the name of the first author in JSON-LD, or the names of a list."""
    said = _AUTHOR_IN_JSON.search(data)
    if said is None:
        return ""
    if said[1]:
        names = [said[1]]
    else:
        names = _NAME_IN_JSON.findall(said[2] or said[3])
        if not names and said[2] and "{" not in said[2]:
            names = _TEXT_IN_JSON.findall(said[2])
    return ", ".join(dict.fromkeys(filter(None, map(_unescaped, names))))


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    try:
        # Half of a pair of surrogates cannot be stored.
        return str(json.loads(f'"{text}"', strict=False)).encode("utf-8", "replace").decode()
    except ValueError:
        return text


def _author_of_elements(tree: LexborHTMLParser, links: Sequence[LexborNode]) -> str:
    # Nested links have the texts of all links in them.
    left = _VALUE_CHARS
    for node in links[:_LINKS]:
        if left > 0 and "author" in (node.attributes.get("rel") or ""):
            text = node.text_lexbor()
            found = _name(text[:_VALUE_CHARS])
            if found:
                return found
            left -= len(text)
    byline = tree.css_first(_BYLINES)
    return "" if byline is None else _name(byline.text(separator=" ")[:_VALUE_CHARS])


def _name(text: str) -> str:
    """Return what may be the name of an author, or several; empty for addresses and the like."""
    text = " ".join(text.split())
    by = _BY.match(text)
    if by is not None:
        text = text[by.end() :]
    # What follows is a date or a place.
    text = text.partition("|")[0].rstrip()
    if len(text) > _AUTHOR_CHARS or text.lower().startswith(_NO_NAMES):
        return ""
    return text


_DATE = re.compile(
    r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})"
    r"(?:[T\s]+(\d{1,2}):(\d\d)(?::(\d\d)(?:[.,]\d+)?)?\s*(Z|UTC|GMT|([+-])(\d\d):?(\d\d))?)?",
    re.IGNORECASE,
)
_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_IN_WORDS = re.compile(
    r"\b(?P<month>[a-z]{3})[a-z]*\.?\s+(?P<day>\d{1,2})(?:st|nd|rd|th)?,?\s+(?P<year>\d{4})\b",
    re.IGNORECASE,
)
# Without a time, as those with one may have a zone.
_DAY_FIRST = re.compile(
    r"\s*(?P<day>\d{1,2})(?:st|nd|rd|th)?\s+(?P<month>[a-z]{3})[a-z]*\.?,?\s+(?P<year>\d{4})\s*",
    re.IGNORECASE,
)
_DIGITS = re.compile(r"((?:19|20)\d\d)(\d\d)(\d\d)")
# /2024/01/31/, /2024/jan/31/, /2024-01-31-title, /20240131title
_IN_URL = re.compile(
    r"/((?:19|20)\d\d)(?:([/-])(\d{1,2}|[a-z]{3})\2(\d{1,2})(?!\d)|(\d\d)(\d\d))", re.IGNORECASE
)
_DATE_CHARS, _URL_CHARS = 100, 2000
# Others are mistakes, and so is the beginning of Unix time.
_YEARS = 1500, 2500
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


def date_of(text: str) -> datetime | None:
    """Read a date as pages write it in their markup; None for anything else."""
    text = text[:_DATE_CHARS]
    found = _DATE.search(text)
    if found is not None:
        zone: tzinfo = UTC
        if found[8]:
            offset = timedelta(hours=int(found[9]), minutes=int(found[10]))
            if offset >= timedelta(hours=24):
                return None
            zone = timezone(offset if found[8] == "+" else -offset)
        year, month, day, hour, minute, second = (int(found[part] or 0) for part in range(1, 7))
        return _date((year, month, day), (hour, minute, second), zone)
    words = _IN_WORDS.search(text) or _DAY_FIRST.fullmatch(text)
    if words is not None and words["month"].lower() in _MONTHS:
        month = _MONTHS.index(words["month"].lower()) + 1
        return _date((int(words["year"]), month, int(words["day"])))
    if (digits := _DIGITS.fullmatch(text.strip())) is not None:
        return _date((int(digits[1]), int(digits[2]), int(digits[3])))
    try:
        said = parsedate_to_datetime(text)
    # The library does not foresee every text.
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return _plausible(said if said.tzinfo is not None else said.replace(tzinfo=UTC))


def _date(
    day: tuple[int, int, int], time: tuple[int, int, int] = (0, 0, 0), zone: tzinfo = UTC
) -> datetime | None:
    try:
        return _plausible(datetime(*day, *time, tzinfo=zone))
    except ValueError:
        return None


def _plausible(date: datetime) -> datetime | None:
    return date if _YEARS[0] <= date.year <= _YEARS[1] and date != _NEVER else None


def _date_in_url(url: str) -> datetime | None:
    found = _IN_URL.search(url[:_URL_CHARS])
    if found is None:
        return None
    month = (found[3] or found[5]).lower()
    if not month.isdigit() and month not in _MONTHS:
        return None
    number = int(month) if month.isdigit() else _MONTHS.index(month) + 1
    return _date((int(found[1]), number, int(found[4] or found[6])))
