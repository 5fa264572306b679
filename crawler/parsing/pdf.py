"""Read PDF by pdfium: text, outline, title, author, dates, language, links. Pure.

Pages, characters and links are counted here. pdfium bounds neither its memory nor its time, and is
not safe for threads: PDF is read in a process of its own.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from itertools import islice
from typing import Any

from crawler.parsing.document import (
    MAX_DESCRIPTION,
    MAX_LANGUAGE,
    MAX_TITLE,
    Document,
    DocumentLimits,
    Unreadable,
    in_utc,
)
from crawler.parsing.paragraphs import MAX_HEADINGS, Paragraphs, heading_of

try:
    import pypdfium2
    import pypdfium2.raw as pdfium
except ModuleNotFoundError:
    pypdfium2 = None

_OUTLINE_LEVELS = 6
# Characters of an address; longer ones are not crawled.
_MAX_URL = 8192
# "D:20240131120000+01'00'", of which all but the year may be missing.
_DATE = re.compile(
    r"(?:D:)?(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?\s*(?:([+-])(\d\d)'?(\d\d)?|Z)?"
)
# A hyphen at the end of a line, which pdfium marks, and characters that are no text.
_HYPHEN = re.compile("[\x02\ufffe]\r?\n?")
_BREAKS = re.compile(r"\r?\n")


def read_pdf(body: bytes, limits: DocumentLimits) -> Document:
    """Read a PDF file."""
    if pypdfium2 is None:
        raise Unreadable("missing_reader")
    # pdfium remembers the last error until the next one: that of an earlier file would be told of
    # one without pages.
    pdfium.FPDF_LoadMemDocument(b"", 0, None)
    try:
        with closing(pypdfium2.PdfDocument(body)) as pdf:
            return _read(pdf, limits)
    except pypdfium2.PdfiumError as error:
        is_locked = error.err_code in (pdfium.FPDF_ERR_PASSWORD, pdfium.FPDF_ERR_SECURITY)
        raise Unreadable("encrypted" if is_locked else "damaged") from error


def _read(pdf: Any, limits: DocumentLimits) -> Document:
    facts = pdf.get_metadata_dict()
    document = Document(
        title=_line(facts["Title"])[:MAX_TITLE],
        description=_line(facts["Subject"])[:MAX_DESCRIPTION],
        author=_line(facts["Author"])[:MAX_TITLE],
        published_at=_date(facts["CreationDate"]),
        updated_at=_date(facts["ModDate"]),
        language=_language(pdf),
        charset="utf-8",
    )
    text = Paragraphs(limits.max_text_chars)
    links: dict[str, None] = {}
    number = len(pdf)
    damaged = 0
    for at in range(min(number, limits.max_pages)):
        room = max(0, limits.max_links - len(links))
        try:
            with closing(pdf[at]) as page, closing(page.get_textpage()) as words:
                links.update(dict.fromkeys(islice(_links(pdf, page, words), room)))
                if not text.is_full:
                    text.add_lines(_BREAKS.split(_HYPHEN.sub("", words.get_text_bounded())))
        except pypdfium2.PdfiumError:
            # The others may be whole.
            damaged += 1
        if text.is_full and len(links) >= limits.max_links:
            break
    if number and damaged == min(number, limits.max_pages):
        raise Unreadable("damaged")
    text.fill(document)
    document.links = list(links)
    if number > limits.max_pages:
        document.cut = document.cut or "pages"
    outline = islice(pdf.get_toc(max_depth=_OUTLINE_LEVELS), MAX_HEADINGS)
    titles = ((_line(mark.get_title()), mark.level + 1) for mark in outline)
    document.headings = [heading_of(title, level) for title, level in titles if title]
    return document


def _links(pdf: Any, page: Any, words: Any) -> Iterator[str]:
    """Yield the addresses of a page's annotations, and those that its text spells out."""
    at, link = ctypes.c_int(0), pdfium.FPDF_LINK()
    while pdfium.FPDFLink_Enumerate(page, at, link):
        action = pdfium.FPDFLink_GetAction(link)
        if not action or pdfium.FPDFAction_GetType(action) != pdfium.PDFACTION_URI:
            continue
        size = pdfium.FPDFAction_GetURIPath(pdf, action, None, 0)
        if 1 < size <= _MAX_URL:
            address = ctypes.create_string_buffer(size)
            pdfium.FPDFAction_GetURIPath(pdf, action, address, size)
            yield address.value.decode("utf-8", "replace")
    spelled = pdfium.FPDFLink_LoadWebLinks(words)
    if not spelled:
        return
    try:
        for number in range(pdfium.FPDFLink_CountWebLinks(spelled)):
            size = pdfium.FPDFLink_GetURL(spelled, number, None, 0)
            if 1 < size <= _MAX_URL:
                units = (ctypes.c_ushort * size)()
                pdfium.FPDFLink_GetURL(spelled, number, units, size)
                yield _utf16(units)
    finally:
        pdfium.FPDFLink_CloseWebLinks(spelled)


def _language(pdf: Any) -> str:
    size = pdfium.FPDFCatalog_GetLanguage(pdf, None, 0)
    if not 2 < size <= 2 * (MAX_LANGUAGE + 1):
        return ""
    buffer = (ctypes.c_ushort * (size // 2))()
    pdfium.FPDFCatalog_GetLanguage(pdf, buffer, size)
    return _utf16(buffer)


def _utf16(units: ctypes.Array[ctypes.c_ushort]) -> str:
    """Return a text that ends with a zero."""
    return bytes(units).decode("utf-16-le", "replace").rstrip("\0")


def _line(text: str) -> str:
    return " ".join(text.replace("\0", " ").split())


def _date(text: str) -> datetime | None:
    found = _DATE.match(text.strip())
    if found is None:
        return None
    year, month, day, hour, minute, second = (
        int(part) if part else default
        for part, default in zip(found.groups()[:6], (1, 1, 1, 0, 0, 0), strict=True)
    )
    zone = UTC
    try:
        if found[7]:
            offset = timedelta(hours=int(found[8]), minutes=int(found[9] or 0))
            zone = timezone(offset if found[7] == "+" else -offset)
        return in_utc(datetime(year, month, day, hour, minute, second, tzinfo=zone))
    except ValueError:
        return None
