"""Find the type of a body where the server's is missing or wrong. Pure.

A type is the server's own unless the body shows another: by its first bytes, by the names in its
ZIP file, by its markup. Text that a server declares as plain is plain, as in browsers.
"""

import re
import struct
from collections.abc import Collection

HTML, XHTML, PLAIN, MARKDOWN, JSON, JSON_FEED, XML, RSS, ATOM, RDF, PDF, ZIP, OLE, EPUB = (
    *("text/html", "application/xhtml+xml", "text/plain", "text/markdown", "application/json"),
    *("application/feed+json", "application/xml", "application/rss+xml", "application/atom+xml"),
    *("application/rdf+xml", "application/pdf", "application/zip", "application/x-ole-storage"),
    "application/epub+zip",
)
_OOXML = "application/vnd.openxmlformats-officedocument"
DOCX, XLSX, PPTX = (
    f"{_OOXML}.{name}"
    for name in ("wordprocessingml.document", "spreadsheetml.sheet", "presentationml.presentation")
)
ODT, ODS, ODP = (
    f"application/vnd.oasis.opendocument.{name}" for name in ("text", "spreadsheet", "presentation")
)
# Other names of the same types; those of templates, and of files with macros, which are not run.
_ALIASES = {
    "application/x-pdf": PDF,
    "text/pdf": PDF,
    "text/json": JSON,
    "text/x-json": JSON,
    "text/xml": XML,
    "text/x-markdown": MARKDOWN,
    "application/x-epub+zip": EPUB,
    "application/vnd.ms-word.document.macroenabled.12": DOCX,
    "application/vnd.ms-excel.sheet.macroenabled.12": XLSX,
    "application/vnd.ms-powerpoint.presentation.macroenabled.12": PPTX,
    f"{_OOXML}.wordprocessingml.template": DOCX,
    f"{_OOXML}.spreadsheetml.template": XLSX,
    f"{_OOXML}.presentationml.template": PPTX,
    f"{_OOXML}.presentationml.slideshow": PPTX,
    **{f"{kind}-template": kind for kind in (ODT, ODS, ODP)},
}
# Types that say nothing: those of servers that do not know.
_UNKNOWN = frozenset(
    """application/octet-stream binary/octet-stream application/binary unknown/unknown
    application/download application/force-download application/x-download""".split()
) | {""}
_PACKED = frozenset({ZIP, "application/x-zip-compressed", "application/x-zip"})
_PAGES = frozenset({HTML, XHTML})
# Files that are documents by their ending, if the server declares no more than text.
_MARKDOWN_ENDINGS = (".md", ".markdown")
# Bytes in which the signs of a type are searched: at the beginning, and at the end of a ZIP file,
# which has the names of its entries.
_START_BYTES, _END_BYTES = 1024, 262_144
_ZIP, _OLE, _PDF = b"PK\x03\x04", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", b"%PDF-"
# The head of a ZIP file's first entry from its method on: method, time and checksum, packed and
# whole size, length of its name and of what follows the name.
_FIRST_ENTRY, _FIRST_ENTRY_AT, _FIRST_NAME_AT = struct.Struct("<H8xLLHH"), 8, 30
_TYPE_NAMED, _TYPE_CHARS = b"mimetype", 100
_CONTENT_TYPES = b"[Content_Types].xml"
_OFFICE_PARTS = ((b"word/document", DOCX), (b"xl/workbook", XLSX), (b"ppt/presentation", PPTX))
# Byte order marks and zeros too.
_BLANKS = b"\xef\xbb\xbf \t\r\n\f\0"
_XML_STARTS = (b"<?xml", b"<rss", b"<feed", b"<rdf:RDF")
_ROOTS = re.compile(rb"<(rss|feed|rdf:rdf|html)[\s>]", re.IGNORECASE)
_ROOT_TYPES = {b"rss": RSS, b"feed": ATOM, b"rdf:rdf": RDF, b"html": XHTML}
# Markdown may begin with other markup: "<p align=center>".
_WHOLE_PAGE = re.compile(rb"<(?:!doctype html|html|head)[\s>]", re.IGNORECASE)
_MARKUP = re.compile(
    rb"<(?:!doctype html|html|head|body|script|iframe|h1|div|font|table|a|style|title|b|br|p|!--)"
    rb"[\s>]",
    re.IGNORECASE,
)


def sniff(body: bytes, content_type: str = "", url: str = "") -> str:
    """Return the type of a body, in lower case and without parameters; empty if nothing tells."""
    declared = declared_type(content_type)
    declared = _ALIASES.get(declared, declared)
    start = body[:_START_BYTES].lstrip(_BLANKS)
    if not start.startswith(b"<"):
        return _by_magic(body, start, declared, url)
    if declared in _PAGES:
        return _xml_type(start, declared) if start.startswith(_XML_STARTS) else declared
    if declared in (PLAIN, MARKDOWN):
        if declared == MARKDOWN and _WHOLE_PAGE.match(start):
            return HTML
        return _of_text(declared, url)
    if declared.endswith(("/xml", "+xml")):
        return _xml_type(start, declared)
    if declared in _UNKNOWN:
        return _xml_type(start, XML) if start.startswith(_XML_STARTS) else HTML
    # Error pages are served with the type of the file that is not there.
    return HTML if _MARKUP.match(start) else declared


def declared_type(content_type: str) -> str:
    """Return the type in a Content-Type, in lower case, without parameters; of several the first.

    Empty for one that is invalid: it says nothing.
    """
    # A comma is also written for the semicolon: "text/html, charset=utf-8".
    found = content_type.partition(";")[0].partition(",")[0].strip().lower()
    return found if "/" in found else ""


def names_of(kinds: Collection[str]) -> frozenset[str]:
    """Return the types that servers may declare for files of some types."""
    return frozenset(kinds).union(name for name, kind in _ALIASES.items() if kind in kinds)


def says_nothing(content_type: str) -> bool:
    """Return whether a Content-Type may be that of any file, or of any that is packed as ZIP."""
    declared = declared_type(content_type)
    return declared in _UNKNOWN or declared in _PACKED


def _by_magic(body: bytes, start: bytes, declared: str, url: str) -> str:
    if start.startswith(_PDF) or (declared == PDF and _PDF in start):
        return PDF
    if start.startswith(_ZIP):
        return _packed_type(body, declared)
    if start.startswith(_OLE):
        return OLE
    if declared == PLAIN:
        return _of_text(declared, url)
    if declared in _UNKNOWN and start[:1] in (b"{", b"["):
        return JSON if body[-_START_BYTES:].rstrip(_BLANKS)[-1:] in (b"}", b"]") else declared
    if declared == JSON and b"jsonfeed.org/version" in start:
        return JSON_FEED
    return declared


def _of_text(declared: str, url: str) -> str:
    is_markdown = url.partition("?")[0].lower().endswith(_MARKDOWN_ENDINGS)
    return MARKDOWN if is_markdown else declared


def _packed_type(body: bytes, declared: str) -> str:
    """Return the type of a ZIP file by its contents."""
    named = _declared_inside(body[:_START_BYTES])
    if named:
        return _ALIASES.get(named, named)
    end = body[-_END_BYTES:]
    if _CONTENT_TYPES in end:
        for part, kind in _OFFICE_PARTS:
            if part in end:
                return kind
    if b"META-INF/container.xml" in end and b".opf" in end:
        return EPUB
    return ZIP if declared in _UNKNOWN or declared in _PACKED or declared in _PAGES else declared


def _declared_inside(start: bytes) -> str:
    """Return the type that a ZIP file declares by an unpacked first entry; empty for none."""
    if len(start) < _FIRST_NAME_AT:
        return ""
    method, size, _, name_size, more = _FIRST_ENTRY.unpack_from(start, _FIRST_ENTRY_AT)
    at = _FIRST_NAME_AT + name_size
    if method or start[_FIRST_NAME_AT:at] != _TYPE_NAMED or size > _TYPE_CHARS:
        return ""
    return start[at + more : at + more + size].decode("ascii", "replace").strip().lower()


def _xml_type(start: bytes, declared: str) -> str:
    """Return the type of XML by its first element that tells: of a feed, of a page."""
    found = _ROOTS.search(start)
    if found is None:
        return declared
    root = _ROOT_TYPES[found[1].lower()]
    return declared if root == XHTML and declared in _PAGES else root
