"""Read a document that is no HTML by its type: text, JSON, PDF, Office, books. Pure.

    text     plain text, Markdown, JSON and JSON feeds
    pdf      PDF, by pdfium (optional: pypdfium2)
    office   Word, Excel, PowerPoint and their OpenDocument counterparts
    epub     books

Each format has a function that makes a Document of a body, or of a text, within limits; it is
imported when it is needed. Links are as the document has them: absolute, or relative to its URL.
DocumentReader makes them canonical by the rules of the crawl.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from crawler.parsing import sniff
from crawler.parsing.document import Document, DocumentLimits, Unreadable
from crawler.parsing.encoding import decode

__all__ = [
    "HEAVY",
    "HEAVY_NAMES",
    "LIGHT",
    "Document",
    "DocumentLimits",
    "Unreadable",
    "read_document",
]

_TEXTS = {
    sniff.PLAIN: "text:read_plain",
    sniff.MARKDOWN: "text:read_markdown",
    sniff.JSON: "text:read_json",
    sniff.JSON_FEED: "text:read_json_feed",
}
_FILES = {
    sniff.PDF: "pdf:read_pdf",
    sniff.DOCX: "office:read_docx",
    sniff.XLSX: "office:read_xlsx",
    sniff.PPTX: "office:read_pptx",
    sniff.ODT: "office:read_odt",
    sniff.ODS: "office:read_ods",
    sniff.ODP: "office:read_odp",
    sniff.EPUB: "epub:read_epub",
    sniff.OLE: "office:read_ole",
}
# Types that take little time and no foreign code: they are read where pages are.
LIGHT = frozenset(_TEXTS)
# Types that must run in a worker process: a hostile file may hang or crash the code that reads it.
HEAVY = frozenset(_FILES)
# As servers may declare them.
HEAVY_NAMES = sniff.names_of(HEAVY)
# Of any other encoding JSON is no JSON.
_AS_UTF8 = "text/plain; charset=utf-8"
_CHAR_BYTES = 4


def read_document(
    media_type: str,
    body: bytes,
    url: str,
    *,
    limits: DocumentLimits,
    content_type: str = "",
) -> Document:
    """Read a document of one of the types in LIGHT and HEAVY; raises Unreadable.

    The encoding of a text is found by its `content_type` and `url`.
    """
    if media_type in HEAVY:
        document = _reader(_FILES[media_type])(body, limits)
    elif media_type in LIGHT:
        if media_type in (sniff.JSON, sniff.JSON_FEED):
            content_type = _AS_UTF8
        start = _beginning(body, _CHAR_BYTES * limits.max_text_chars)
        text, charset = decode(start, content_type, url)
        document = _reader(_TEXTS[media_type])(text[: limits.max_text_chars], limits)
        document.charset = charset
        if len(text) > limits.max_text_chars or len(start) < len(body):
            document.cut = "text"
    else:
        raise Unreadable("unsupported")
    document.media_type = media_type
    return document


def _beginning(body: bytes, most: int) -> bytes:
    """Return at most so many bytes, which do not end in the middle of a character of UTF-8.

    With half a character they would be taken for another encoding.
    """
    end = most
    while most - _CHAR_BYTES < end < len(body) and body[end] & 0xC0 == 0x80:
        end -= 1
    return body[:end]


def _reader(place: str) -> Callable[[Any, DocumentLimits], Document]:
    module, _, name = place.partition(":")
    found: Callable[[Any, DocumentLimits], Document] = getattr(
        import_module(f"crawler.parsing.{module}"), name
    )
    return found
