"""Decode a page: byte order mark, header, meta tag, or else a guess that takes no time. Pure.

The guess is UTF-8 if the bytes are, else what pages of the host's country were written in before
UTF-8. Detectors that weigh letters would take longer than all the rest of reading a page.
"""

from __future__ import annotations

from functools import lru_cache

from w3lib.encoding import (
    html_body_declared_encoding,
    http_content_type_encoding,
    read_bom,
    resolve_encoding,
)

FALLBACK = "cp1252"
# What is read of a Content-Type.
_HEADER_CHARS = 200
# Codecs of Python that are no encodings of pages must not be reached from outside.
_KNOWN = frozenset(
    """utf-8 utf-16 utf-16-le utf-16-be cp866 cp874 cp932 cp949 big5 big5hkscs gb18030 gbk euc_jp
    euc_kr iso2022_jp shift_jis koi8-r koi8-u mac-roman mac-cyrillic ascii""".split()
    + [f"cp{number}" for number in range(1250, 1259)]
    + [f"iso8859-{number}" for number in range(1, 17)]
)
# Where a meta tag could be read at all, the page is not in one of these.
_NOT_BY_META = ("utf-16", "utf-16-le", "utf-16-be")
# By top-level domain; of several the first that fits.
_BY_COUNTRY = {
    country: encodings
    for countries, encodings in (
        ("jp", ("iso2022_jp", "euc_jp", "cp932")),
        ("cn sg", ("gb18030",)),
        ("tw hk mo", ("big5hkscs",)),
        ("kr", ("cp949",)),
        ("ru by ua bg kz kg mk su", ("cp1251",)),
        ("pl cz sk hu hr si ro", ("cp1250",)),
        ("gr", ("cp1253",)),
        ("tr", ("cp1254",)),
        ("il", ("cp1255",)),
        ("ae eg ir iq sa sy", ("cp1256",)),
        ("ee lt lv", ("cp1257",)),
        ("vn", ("cp1258",)),
        ("th", ("cp874",)),
    )
    for country in countries.split()
}


def decode(body: bytes, content_type: str = "", url: str = "") -> tuple[str, str]:
    """Text of a page and the name of its encoding. Total: what cannot be read is replaced."""
    encoding, mark = read_bom(body)
    if encoding is not None and mark is not None:
        return body[len(mark) :].decode(encoding, "replace"), encoding
    encoding = _by_header(content_type[:_HEADER_CHARS]) if content_type else None
    if encoding is None:
        encoding = _known(html_body_declared_encoding(body))
        if encoding in _NOT_BY_META:
            encoding = "utf-8"
    if encoding is None:
        return _guessed(body, url)
    return body.decode(encoding, "replace"), encoding


@lru_cache(maxsize=256)
def _by_header(content_type: str) -> str | None:
    return _known(http_content_type_encoding(content_type))


def _known(encoding: str | None) -> str | None:
    found = resolve_encoding(encoding) if encoding else None
    return found if found in _KNOWN else None


def _guessed(body: bytes, url: str) -> tuple[str, str]:
    host = url.partition("://")[2].partition("/")[0]
    country = host.partition(":")[0].rpartition(".")[2]
    candidates = ["utf-8", *_BY_COUNTRY.get(country, ())]
    if country == "jp" and b"\x1b$" in body:
        candidates.remove("utf-8")  # such bytes are ASCII too
    for encoding in candidates:
        try:
            return body.decode(encoding), encoding
        except ValueError:
            continue
    last = candidates[-1] if len(candidates) > 1 else FALLBACK
    return body.decode(last, "replace"), last
