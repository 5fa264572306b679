"""Find the encoding of a page, and decode it. Pure.

The encoding comes from the byte order mark, the header or a meta tag. Else it is UTF-8 if the bytes
are that, or a guess by the top-level domain, or by the bytes themselves (uchardet).
"""

import re
from functools import lru_cache

from resiliparse.parse.encoding import detect_encoding
from w3lib.encoding import (
    html_body_declared_encoding,
    http_content_type_encoding,
    read_bom,
    resolve_encoding,
)

FALLBACK = "cp1252"
# An encoding is guessed by the bytes from the first one that is no ASCII: 0.1 to 0.9 ms, and 3.4 ms
# for random bytes.
_GUESS_BYTES = 8_000
_NOT_ASCII = re.compile(rb"[\x80-\xff]")
# Bytes below are ASCII, or quotes and dashes of cp1252. With fewer others a guess is worth nothing.
_FIRST_LETTER, _LEAST_LETTERS = 0xC0, 4
_NO_LETTERS = bytes(range(_FIRST_LETTER))
# Characters that are read of a Content-Type.
_HEADER_CHARS = 200
# Python has codecs that are no encodings of pages; a page must not reach them.
_KNOWN = frozenset(
    """utf-8 utf-16 utf-16-le utf-16-be cp866 cp874 cp932 cp949 big5 big5hkscs gb18030 gbk euc_jp
    euc_kr iso2022_jp shift_jis koi8-r koi8-u mac-roman mac-cyrillic ascii""".split()
    + [f"cp{number}" for number in range(1250, 1259)]
    + [f"iso8859-{number}" for number in range(1, 17)]
)
# A page whose meta tag can be read as ASCII is in none of these.
_NOT_BY_META = ("utf-16", "utf-16-le", "utf-16-be")
# Guesses by top-level domain; the first that fits is taken.
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
    """Decode a page; returns its text and encoding. Undecodable bytes are replaced."""
    encoding, start = _encoding(body, content_type, url)
    return body[start:].decode(encoding, "replace"), encoding


def as_utf8(body: bytes, content_type: str = "", url: str = "") -> tuple[bytes, str]:
    """Return a page in UTF-8, and its encoding. UTF-8 with errors stays as it is."""
    encoding, start = _encoding(body, content_type, url)
    if encoding == "utf-8":
        return body[start:], encoding
    return body[start:].decode(encoding, "replace").encode(errors="replace"), encoding


def _encoding(body: bytes, content_type: str, url: str) -> tuple[str, int]:
    """Find the encoding of a page, and where its text begins."""
    marked, mark = read_bom(body)
    if marked is not None and mark is not None:
        return str(marked), len(mark)
    encoding = _by_header(content_type[:_HEADER_CHARS]) if content_type else None
    if encoding is None:
        encoding = _known(html_body_declared_encoding(body))
        if encoding in _NOT_BY_META:
            encoding = "utf-8"
    return encoding or _guessed(body, url), 0


@lru_cache(maxsize=256)
def _by_header(content_type: str) -> str | None:
    return _known(http_content_type_encoding(content_type))


def _known(encoding: str | None) -> str | None:
    found = resolve_encoding(encoding) if encoding else None
    return found if found in _KNOWN else None


def _guessed(body: bytes, url: str) -> str:
    host = url.partition("://")[2].partition("/")[0]
    country = host.partition(":")[0].rpartition(".")[2]
    by_country = _BY_COUNTRY.get(country, ())
    candidates: list[str] = ["utf-8", *by_country]
    if country == "jp" and b"\x1b$" in body:
        candidates.remove("utf-8")  # ISO-2022-JP is valid ASCII
    for encoding in candidates:
        try:
            body.decode(encoding)
        except ValueError:
            continue
        return encoding
    return by_country[-1] if by_country else _detected(body)


def _detected(body: bytes) -> str:
    """Guess an encoding by the bytes of a page that is no UTF-8."""
    first = _NOT_ASCII.search(body)
    start = first.start() if first else 0
    # Some ASCII before it, which may be half of a character.
    sample = body[max(0, start - 200) : start + _GUESS_BYTES]
    if len(sample.translate(None, _NO_LETTERS)) < _LEAST_LETTERS:
        return FALLBACK
    found = detect_encoding(sample)
    # UTF-8 is its answer if it finds none.
    return FALLBACK if found == "utf-8" else _known(found) or FALLBACK
