"""Read plain text, Markdown and JSON, in time proportional to their size. Pure.

Markdown is read line by line for its title, headings, links and words. It is not rendered.
"""

import json
import re
from collections.abc import Iterator

from crawler.parsing.document import (
    MAX_DESCRIPTION,
    MAX_LANGUAGE,
    MAX_TITLE,
    Document,
    DocumentLimits,
    time_of,
)
from crawler.parsing.paragraphs import MAX_HEADING_CHARS, MAX_HEADINGS


def read_plain(text: str, _limits: DocumentLimits) -> Document:
    """Read plain text. It has no links."""
    return Document(text=" ".join(text.split()))


# The facts before a text: lines of "name: value" between two lines of dashes.
_FACTS = re.compile(r"\s*---[ \t]*\n(.{0,10000}?)\n(?:---|\.\.\.)[ \t]*(?:\n|$)", re.DOTALL)
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+|$)")
# Below a line, it makes a heading of it.
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*$")
# An address with one pair of brackets at most, as in [text](address "title").
_ADDRESS = r"<?([^\s<>()]*+(?:\([^\s<>()]*+\)[^\s<>()]*+)?)>?(?:\s+[\"'(][^\"']{0,500}[\"')])?\s*"
_LINK = re.compile(rf"(!?)\[([^\[\]]{{0,1000}})\]\({_ADDRESS}\)")
# [name]: address
_DEFINITION = re.compile(r" {0,3}\[(?!\^)[^\[\]]{1,200}\]:\s*<?([^\s<>]+)>?")
_BARE = re.compile(r"https?://[^\s<>\"`\])]+")
_TAG = re.compile(r"<(?!https?:)[A-Za-z/!][^<>]{0,5000}>")
_HREF = re.compile(r"\shref\s*=\s*[\"']([^\"'<>]+)", re.IGNORECASE)
_MARKS = re.compile(r"\*+(?=\S)|(?<=\S)\*+|(?<!\w)_+(?=\w)|(?<=\w)_+(?!\w)|`+|~~")
# The marks at the beginning of a line: of quotes, of list items and of tasks.
_LINE_MARKS = re.compile(r"\s*(?:[-*+]\s+|>\s*)+(?:\[[ xX]\]\s+)?")
# A line that begins so is code, and no heading if it is underlined.
_CODE_INDENTS = ("    ", "\t")
_AFTER_SENTENCE = ".,;:!?*_'"


def read_markdown(text: str, limits: DocumentLimits) -> Document:
    """Read Markdown: facts at its beginning, title, headings, links, text without marks."""
    document = Document()
    facts = _FACTS.match(text)
    if facts is not None:
        _take_facts(document, facts[1])
        text = text[facts.end() :]
    document.markdown = text.strip("\n")
    links: list[str] = []
    lines: list[str] = []
    fence = last = ""
    for line in text.splitlines():
        mark = _FENCE.match(line)
        if fence or mark is not None:
            if mark is not None and (not fence or mark[1].startswith(fence)):
                # A fence is closed by one of the same characters, of the same length or longer.
                fence = "" if fence else mark[1]
            else:
                lines.append(line)
            last = ""
            continue
        underline = _UNDERLINE.match(line) if last.strip() else None
        if underline is not None:
            _add_heading(document, 1 if underline[1].startswith("=") else 2, last)
            last = ""
            continue
        heading = _HEADING.match(line)
        if heading is not None:
            lines.append(_plain(line[heading.end() :].rstrip().rstrip("#"), links))
            _add_heading(document, len(heading[1]), lines[-1])
            last = ""
            continue
        lines.append(_plain(line, links))
        last = "" if line.startswith(_CODE_INDENTS) else lines[-1]
    document.links = links[: limits.max_links]
    words = (" ".join(line.split()) for line in lines)
    kept = [line for line in words if line]
    document.main_text = "\n".join(kept)
    document.text = " ".join(kept)
    if len(links) > limits.max_links:
        document.cut = "links"
    return document


def _add_heading(document: Document, level: int, text: str) -> None:
    text = " ".join(text.split())
    if text and len(document.headings) < MAX_HEADINGS:
        document.headings.append(f"{'#' * level} {text[:MAX_HEADING_CHARS]}")
    document.title = document.title or text[:MAX_TITLE]


def _plain(line: str, links: list[str]) -> str:
    """Return a line without its marks, and add its links."""
    defined = _DEFINITION.match(line)
    if defined is not None:
        links.append(defined[1])
        return ""
    marks = _LINE_MARKS.match(line) if line[:1] in " -*+>\t" else None
    line = line[marks.end() :] if marks is not None else line
    if "](" in line:
        # Twice, for an image within a link.
        line = _LINK.sub(lambda found: _label(found, links), line)
        line = _LINK.sub(lambda found: _label(found, links), line)
    if "://" in line:
        links += (found.rstrip(_AFTER_SENTENCE) for found in _BARE.findall(line))
    if "<" in line:
        links += _HREF.findall(line)
        line = _TAG.sub(" ", line)
    return _MARKS.sub("", line)


def _label(found: re.Match[str], links: list[str]) -> str:
    """Return the text of a link; adds its address, if it is not that of an image."""
    if not found[1] and found[3]:
        links.append(found[3])
    return found[2]


def _take_facts(document: Document, lines: str) -> None:
    for line in lines.splitlines():
        name, _, value = line.partition(":")
        value = value.strip().strip("\"'")
        match name.strip().lower():
            case "title":
                document.title = value[:MAX_TITLE]
            case "description" | "summary":
                document.description = value[:MAX_DESCRIPTION]
            case "author":
                document.author = value[:MAX_TITLE]
            case "lang" | "language":
                document.language = value[:MAX_LANGUAGE]
            case "date" | "published":
                document.published_at = time_of(value)
            case "lastmod" | "updated" | "modified":
                document.updated_at = time_of(value)


# A string, and its end: with the colon after it if it is a name, none if the file is cut in it. It
# matches without an end too, or else it would be searched again at each escaped quote.
_STRING = re.compile(r'"((?:[^"\\]|\\.)*+)("\s*:|")?', re.DOTALL)
# Values of a JSON feed that are the addresses of pages.
_ADDRESSES = frozenset({"url", "external_url", "home_page_url", "next_url"})
_FEED_FACTS = frozenset({"title", "description", "language", "name"})


def read_json(text: str, _limits: DocumentLimits) -> Document:
    """Read the strings of JSON, in their order. A file that is cut or broken is read too."""
    return Document(text=" ".join(" ".join(value.split()) for _, value in _values(text)))


def read_json_feed(text: str, limits: DocumentLimits) -> Document:
    """Read a JSON feed: its title and the pages of its items."""
    facts: dict[str, str] = {}
    links: dict[str, None] = {}
    texts: list[str] = []
    for name, value in _values(text):
        if name in _ADDRESSES and len(links) < limits.max_links:
            links[value] = None
        elif name in ("title", "summary", "content_text"):
            texts.append(" ".join(value.split()))
        elif name == "content_html":
            texts.append(" ".join(_TAG.sub(" ", value).split()))
        if name in _FEED_FACTS:
            facts.setdefault(name, value)
    return Document(
        title=facts.get("title", "")[:MAX_TITLE],
        description=facts.get("description", "")[:MAX_DESCRIPTION],
        language=facts.get("language", "")[:MAX_LANGUAGE],
        author=facts.get("name", "")[:MAX_TITLE],
        text=" ".join(texts),
        links=list(links),
    )


def _values(text: str) -> Iterator[tuple[str, str]]:
    """Yield strings with the name of the value they are, or are in; not the names themselves."""
    name = ""
    for found in _STRING.finditer(text):
        value, end = found[1], found[2]
        if "\\" in value:
            try:
                value = json.loads(f'"{value}"', strict=False)
            except ValueError:
                pass
            else:
                # Half of a pair of surrogates cannot be stored.
                value = value.encode("utf-8", "replace").decode()
        if end == '"':
            yield name, value
        elif end:
            name = value
