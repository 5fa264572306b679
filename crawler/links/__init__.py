"""Read a page: what it says of itself, its text, and where it points to. Pure."""

from crawler.links.document import Document, Link
from crawler.links.html import HtmlReader
from crawler.links.reader import Reader, is_light

__all__ = ["Document", "HtmlReader", "Link", "Reader", "is_light"]
