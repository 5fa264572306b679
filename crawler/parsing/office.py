"""Read Office files: Word, Excel, PowerPoint (OOXML) and OpenDocument. Pure.

Parts are read without a tree and by the local names of their elements, so the strict and the
transitional form of OOXML are alike. What is deleted, commented or hidden in alternatives is left
out. A workbook's numbers are as they are stored: dates are numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from crawler.parsing import sniff
from crawler.parsing.document import (
    MAX_DESCRIPTION,
    MAX_LANGUAGE,
    MAX_TITLE,
    Document,
    DocumentLimits,
    Unreadable,
    time_of,
)
from crawler.parsing.paragraphs import Paragraphs
from crawler.parsing.zipped import Facts, Full, ZipFile, attribute, path_from, read_xml

_NOTHING: frozenset[str] = frozenset()
_MAX_LEVEL = 9
# Columns of a sheet that Excel allows, and empty cells in a row that are kept before another one.
_MAX_COLUMNS, _MAX_GAP = 16_384, 100


class _Writer:
    """The text and links of a document, which targets of all formats fill.

    It knows the open paragraphs (one may be inside another, in a text box) and tables. A table in a
    cell of another one is text of that cell.
    """

    def __init__(self, limits: DocumentLimits) -> None:
        self.paragraphs = Paragraphs(limits.max_text_chars)
        self.links: dict[str, None] = {}
        self._max_links = limits.max_links
        self._max_chars = limits.max_text_chars
        # Characters and cells that wait for the end of their paragraph or row.
        self._waiting = 0
        # Whether text was left out.
        self.is_cut = False
        self._open: list[_Paragraph] = []
        self._tables = 0
        self._row: list[list[str]] = []
        # Cells for which the last one stands if it is empty.
        self._times = 1

    @property
    def paragraph(self) -> _Paragraph | None:
        """The innermost open paragraph."""
        return self._open[-1] if self._open else None

    def write(self, text: str) -> None:
        if self._open and self._has_room(len(text)):
            self._open[-1].texts.append(text)

    def _has_room(self, size: int) -> bool:
        """Whether what has no end yet may have so much more."""
        if self._waiting > self._max_chars:
            self.is_cut = True
            return False
        self._waiting += size
        return True

    def link(self, address: str) -> None:
        if address and len(self.links) < self._max_links:
            self.links[address] = None

    def begin_paragraph(self, level: int = 0, *, is_item: bool = False) -> None:
        self._open.append(_Paragraph([], level, is_item=is_item))

    def end_paragraph(self) -> None:
        if not self._open:
            return
        ended = self._open.pop()
        text = "".join(ended.texts)
        if self._tables:
            if self._row and self._has_room(1):
                self._row[-1].append(text)
            return
        self._add(ended, text)
        self._check()

    def _add(self, ended: _Paragraph, text: str) -> None:
        if not self._open:
            self._waiting = 0
        self.paragraphs.add(text, level=ended.level, mark="- " if ended.is_item else "")

    def begin_table(self) -> None:
        self._tables += 1

    def begin_row(self) -> None:
        if self._tables == 1:
            self._row, self._times = [], 1

    def begin_cell(self, times: int = 1) -> None:
        """Begin a cell. If it stays empty, and is not the last one, it stands for some."""
        if self._tables != 1:
            return
        is_gap = self._row and not self._row[-1] and self._times <= _MAX_GAP
        for _ in range(self._times if is_gap else 1):
            if self._has_room(1):
                self._row.append([])
        self._times = times

    def end_row(self) -> None:
        if self._tables == 1:
            self.paragraphs.add_row([" ".join(cell) for cell in self._row])
            self._row, self._waiting = [], 0
            self._check()

    def end_table(self) -> None:
        self._tables = max(0, self._tables - 1)
        if not self._tables:
            self._waiting = 0
            self.paragraphs.end_table()

    def end_part(self) -> None:
        """End what a part left open that ends in its middle."""
        for paragraph in self._open:
            self._add(paragraph, "".join(paragraph.texts))
        self._open, self._row, self._tables, self._waiting = [], [], 0, 0
        self.paragraphs.end_table()

    def _check(self) -> None:
        if self.paragraphs.is_full:
            raise Full

    def fill(self, document: Document) -> None:
        self.paragraphs.fill(document)
        if self.is_cut:
            document.cut = document.cut or "text"
        document.links = list(self.links)


@dataclass(slots=True)
class _Paragraph:
    texts: list[str]
    level: int
    is_item: bool


def _take_facts(document: Document, file: ZipFile, part: str) -> None:
    """Read what a file says about itself."""
    if part not in file:
        return
    facts = Facts()
    read_xml(file.pieces(part), facts, skipped=_NOTHING)
    document.title = facts.get("title")[:MAX_TITLE]
    document.author = facts.get("initial-creator", "creator")[:MAX_TITLE]
    document.description = facts.get("description", "subject")[:MAX_DESCRIPTION]
    document.language = facts.get("language")[:MAX_LANGUAGE]
    document.published_at = time_of(facts.get("created", "creation-date"))
    document.updated_at = time_of(facts.get("modified", "date"))


def _finish(document: Document, writer: _Writer) -> Document:
    writer.fill(document)
    document.charset = "utf-8"
    if not document.title and document.headings:
        document.title = document.headings[0].lstrip("# ")[:MAX_TITLE]
    return document


# --- OOXML ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Relation:
    """Reference from a part to another one, or to an address."""

    kind: str
    target: str
    is_external: bool


class _Relations:
    """Target that collects the references of a part, by their ids."""

    _MAX = 100_000

    def __init__(self) -> None:
        self.found: dict[str, _Relation] = {}

    def opened(self, name: str, attributes: Mapping[str, str]) -> None:
        if name == "Relationship" and len(self.found) < self._MAX:
            self.found[attributes.get("Id", "")] = _Relation(
                attributes.get("Type", "").rpartition("/")[2],
                attributes.get("Target", ""),
                is_external=attributes.get("TargetMode", "").lower() == "external",
            )

    def closed(self, name: str) -> None:
        pass

    def data(self, text: str) -> None:
        pass


def _relations(file: ZipFile, part: str) -> dict[str, _Relation]:
    folder, _, name = part.rpartition("/")
    path = f"{folder}/_rels/{name}.rels".lstrip("/")
    relations = _Relations()
    if path in file:
        read_xml(file.pieces(path), relations, skipped=_NOTHING)
    return relations.found


def _main_part(file: ZipFile, default: str) -> str:
    for relation in _relations(file, "").values():
        if relation.kind == "officeDocument" and not relation.is_external:
            return path_from("", relation.target)
    return default


# What is shown instead of newer elements, and phonetic hints beside a text.
_SKIPPED = frozenset({"Fallback", "rPh", "del", "moveFrom"})
_ADDRESS_FIELD = re.compile(r'\bHYPERLINK\s+"([^"]+)"')
# Characters of the code of a field.
_MAX_FIELD = 10_000
_TITLES = frozenset({"title", "ctrTitle"})
_LINKS = frozenset({"hyperlink", "hlinkClick", "hlinkHover"})


class _TextTarget:
    """Target for the text of Word and PowerPoint: paragraphs, tables, hyperlinks."""

    def __init__(
        self, writer: _Writer, relations: Mapping[str, _Relation], styles: _Styles
    ) -> None:
        self._writer = writer
        self._relations = relations
        self._styles = styles
        self._is_text = False
        self._is_field = False
        self._field = ""
        # Level of the paragraphs of a slide's title.
        self._shape_level = 0

    def opened(self, name: str, attributes: Mapping[str, str]) -> None:  # noqa: C901, PLR0912
        writer = self._writer
        match name:
            case "t":
                self._is_text = True
            case "p":
                writer.begin_paragraph(self._shape_level)
            case "tab" | "br" | "cr":
                writer.write(" ")
            case "pStyle" | "outlineLvl" | "numPr":
                self._describe(name, attribute(attributes, "val"))
            case "tbl":
                writer.begin_table()
            case "tr":
                writer.begin_row()
            case "tc":
                writer.begin_cell()
            case "ph":
                is_title = attributes.get("type") in _TITLES
                self._shape_level = 2 if is_title else 0
            case "instrText":
                self._is_field = True
            case "fldSimple":
                self._take_field(attribute(attributes, "instr"))
            case "fldChar":
                self._take_field(self._field)
                self._field = ""
        if name in _LINKS:
            relation = self._relations.get(attribute(attributes, "id"))
            if relation is not None and relation.is_external:
                writer.link(relation.target)

    def closed(self, name: str) -> None:
        match name:
            case "t":
                self._is_text = False
            case "p":
                self._writer.end_paragraph()
            case "tr":
                self._writer.end_row()
            case "tbl":
                self._writer.end_table()
            case "sp":
                self._shape_level = 0
            case "instrText":
                self._is_field = False

    def data(self, text: str) -> None:
        if self._is_text:
            self._writer.write(text)
        elif self._is_field and len(self._field) < _MAX_FIELD:
            self._field += text

    def _describe(self, name: str, value: str) -> None:
        paragraph = self._writer.paragraph
        if paragraph is None:
            return
        if name == "pStyle":
            paragraph.level = self._styles.levels.get(value, 0)
            paragraph.is_item |= value in self._styles.items
        elif name == "outlineLvl":
            paragraph.level = _level_of(value) or paragraph.level
        else:
            paragraph.is_item = True

    def _take_field(self, text: str) -> None:
        for address in _ADDRESS_FIELD.findall(text):
            self._writer.link(address)


def _level_of(outline_level: str) -> int:
    """Return the level of a heading from 1 on; 0 for text, which is the tenth level."""
    is_level = outline_level.isascii() and outline_level.isdecimal() and len(outline_level) == 1
    level = int(outline_level) + 1 if is_level else 0
    return level if level <= _MAX_LEVEL else 0


class _Styles:
    """Target for the styles of Word: which are those of headings and of list items, and the
    language of the text."""

    _NAMED = re.compile(r"heading (\d)")

    def __init__(self) -> None:
        self.levels: dict[str, int] = {}
        # Those of list items.
        self.items: set[str] = set()
        self.language = ""
        self._style = ""
        self._based_on: dict[str, str] = {}

    def opened(self, name: str, attributes: Mapping[str, str]) -> None:
        value = attribute(attributes, "val")
        match name:
            case "style":
                self._style = attribute(attributes, "styleId")
            case "name":
                named = self._NAMED.fullmatch(value.lower())
                if named is not None:
                    self.levels[self._style] = int(named[1])
                elif value.lower() == "title":
                    self.levels[self._style] = 1
            case "outlineLvl":
                self.levels[self._style] = _level_of(value)
            case "numPr":
                self.items.add(self._style)
            case "basedOn":
                self._based_on[self._style] = value
            case "lang":
                self.language = self.language or value

    def closed(self, name: str) -> None:
        if name == "styles":
            for style, other in self._based_on.items():
                if other in self.levels:
                    self.levels.setdefault(style, self.levels[other])

    def data(self, text: str) -> None:
        pass


def read_docx(body: bytes, limits: DocumentLimits) -> Document:
    """Read a Word file."""
    file, document, writer = _opened(body, limits)
    main = _main_part(file, "word/document.xml")
    styles = _Styles()
    if (part := path_from(main, "styles.xml")) in file:
        read_xml(file.pieces(part), styles, skipped=_NOTHING)
    for name in (main, path_from(main, "footnotes.xml"), path_from(main, "endnotes.xml")):
        if name == main or name in file:
            target = _TextTarget(writer, _relations(file, name), styles)
            read_xml(file.pieces(name), target, skipped=_SKIPPED)
            writer.end_part()
    document.language = document.language or styles.language[:MAX_LANGUAGE]
    return _finish(document, writer)


def read_pptx(body: bytes, limits: DocumentLimits) -> Document:
    """Read a PowerPoint file: its slides in their order."""
    file, document, writer = _opened(body, limits)
    main = _main_part(file, "ppt/presentation.xml")
    for part, _ in _parts_of(file, main, "sldId", document, limits):
        target = _TextTarget(writer, _relations(file, part), _Styles())
        read_xml(file.pieces(part), target, skipped=_SKIPPED)
        writer.end_part()
        if writer.paragraphs.is_full:
            break
    return _finish(document, writer)


def read_xlsx(body: bytes, limits: DocumentLimits) -> Document:
    """Read an Excel file: the cells of its sheets, row by row."""
    file, document, writer = _opened(body, limits)
    main = _main_part(file, "xl/workbook.xml")
    most = limits.max_text_chars
    strings = _SharedStrings(most)
    if (part := path_from(main, "sharedStrings.xml")) in file:
        read_xml(file.pieces(part), strings, skipped=_SKIPPED)
    for part, name in _parts_of(file, main, "sheet", document, limits):
        writer.paragraphs.add(name, level=2)
        target = _SheetTarget(writer, _relations(file, part), strings.found, most)
        read_xml(file.pieces(part), target, skipped=_SKIPPED)
        writer.end_part()
        if writer.paragraphs.is_full:
            break
    writer.is_cut |= strings.is_full
    return _finish(document, writer)


def _opened(body: bytes, limits: DocumentLimits) -> tuple[ZipFile, Document, _Writer]:
    file, document = ZipFile(body, limits), Document()
    _take_facts(document, file, "docProps/core.xml")
    return file, document, _Writer(limits)


class _Members:
    """Target that lists the sheets or slides of a file: their ids, and names if they have some."""

    def __init__(self, element: str, most: int) -> None:
        self.found: list[tuple[str, str]] = []
        self._element = element
        self._most = most

    def opened(self, name: str, attributes: Mapping[str, str]) -> None:
        if name == self._element and len(self.found) <= self._most:
            # A slide has a number too, which is an "id" without a namespace.
            key = next((key for key in attributes if key.endswith("relationships}id")), "")
            self.found.append((attributes.get(key, ""), attributes.get("name", "")))

    def closed(self, name: str) -> None:
        pass

    def data(self, text: str) -> None:
        pass


def _parts_of(
    file: ZipFile, main: str, element: str, document: Document, limits: DocumentLimits
) -> Iterator[tuple[str, str]]:
    """Yield the parts of sheets or slides with their names."""
    members = _Members(element, limits.max_pages)
    read_xml(file.pieces(main), members, skipped=_NOTHING)
    relations = _relations(file, main)
    if len(members.found) > limits.max_pages:
        document.cut = "pages"
    for key, name in members.found[: limits.max_pages]:
        relation = relations.get(key)
        part = path_from(main, relation.target) if relation is not None else ""
        if part in file:
            yield part, name


class _SharedStrings:
    """Target that collects the strings of a workbook, to which its cells refer by number."""

    def __init__(self, max_chars: int) -> None:
        self.found: list[str] = []
        # Characters for which there is room, and one for each string.
        self._left = max_chars
        self._texts: list[str] = []
        self._is_text = False

    def opened(self, name: str, attributes: Mapping[str, str]) -> None:
        self._is_text = name == "t"

    def closed(self, name: str) -> None:
        self._is_text = False
        if name == "si":
            self.found.append("".join(self._texts))
            self._left -= 1
            self._texts = []
            if self.is_full:
                raise Full

    def data(self, text: str) -> None:
        if self._is_text and not self.is_full:
            self._left -= len(text)
            self._texts.append(text)

    @property
    def is_full(self) -> bool:
        """Whether strings were left out."""
        return self._left < 0


_PLACE = re.compile(r"([A-Z]{1,3})[0-9]{1,7}")


class _SheetTarget:
    """Target for the cells of a sheet."""

    def __init__(
        self,
        writer: _Writer,
        relations: Mapping[str, _Relation],
        strings: list[str],
        max_chars: int,
    ) -> None:
        self._writer = writer
        self._relations = relations
        self._strings = strings
        # Characters that a row may have, and for which it has room left.
        self._max_chars = self._left = max_chars
        self._kind = ""
        self._cells: list[str] = []
        self._texts: list[str] = []
        self._is_value = False

    def opened(self, name: str, attributes: Mapping[str, str]) -> None:
        if name == "c":
            self._kind = attributes.get("t", "")
            self._texts = []
            self._add_empty(attributes.get("r", ""))
        elif name in ("v", "t"):
            self._is_value = True
        elif name == "hyperlink":
            relation = self._relations.get(attribute(attributes, "id"))
            if relation is not None and relation.is_external:
                self._writer.link(relation.target)

    def closed(self, name: str) -> None:
        if name in ("v", "t"):
            self._is_value = False
        elif name == "c":
            self._cells.append(self._value("".join(self._texts)))
            if len(self._cells) > _MAX_COLUMNS or self._left < 0:
                self._end_row()
                self._writer.is_cut = True
                raise Full
        elif name == "row":
            self._end_row()

    def _add_empty(self, place: str) -> None:
        """Add the empty cells before a cell, which files leave out; `place` is such as "C2"."""
        found = _PLACE.fullmatch(place)
        if found is not None:
            column = 0
            for letter in found[1]:
                column = 26 * column + ord(letter) - ord("A") + 1
            number = column - 1 - len(self._cells)
            self._cells += [""] * (number if number <= _MAX_GAP else 0)

    def _end_row(self) -> None:
        self._writer.paragraphs.add_row(self._cells)
        self._cells, self._left = [], self._max_chars
        if self._writer.paragraphs.is_full:
            raise Full

    def data(self, text: str) -> None:
        if self._is_value and self._left >= 0:
            self._left -= len(text)
            self._texts.append(text)

    def _value(self, text: str) -> str:
        if self._kind == "s":
            number = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else -1
            string = self._strings[number] if 0 <= number < len(self._strings) else ""
            self._left -= len(string)
            return string
        return "" if self._kind == "e" else text


# A stream of the old container, which Office files with a password are packed into.
_ENCRYPTED_PACKAGE = "EncryptedPackage".encode("utf-16-le")


def read_ole(body: bytes, _limits: DocumentLimits) -> Document:
    """Tell why a file in Microsoft's old container is not read."""
    raise Unreadable("encrypted" if _ENCRYPTED_PACKAGE in body else "unsupported")


# --- OpenDocument ---------------------------------------------------------------------------------

_ODF_SKIPPED = frozenset({"annotation", "tracked-changes", "notes", "note-citation", "forms"})
_ENCRYPTED = b"encryption-data"


class _OdfTarget:
    """Target for the content of a text, a spreadsheet or a presentation."""

    def __init__(self, writer: _Writer, document: Document, kind: str, max_pages: int) -> None:
        self._writer = writer
        self._document = document
        self._kind = kind
        self._pages_left = max_pages
        self._items = 0
        self._frame_level = 0

    def opened(self, name: str, attributes: Mapping[str, str]) -> None:
        writer = self._writer
        match name:
            case "p":
                writer.begin_paragraph(self._frame_level, is_item=self._items > 0)
            case "h":
                level = attribute(attributes, "outline-level")
                writer.begin_paragraph(int(level) if level in _DIGITS else 1)
            case "s" | "tab" | "line-break":
                writer.write(" ")
            case "a":
                writer.link(attribute(attributes, "href"))
            case "list-item":
                self._items += 1
            case "frame":
                is_title = attribute(attributes, "class") == "title"
                self._frame_level = 2 if is_title else 0
            case "table":
                if self._kind == sniff.ODS:
                    self._take_page()
                    writer.paragraphs.add(attribute(attributes, "name"), level=2)
                writer.begin_table()
            case "table-row":
                writer.begin_row()
            case "table-cell" | "covered-table-cell":
                times = attribute(attributes, "number-columns-repeated")
                writer.begin_cell(int(times) if _NUMBER.fullmatch(times) else 1)
            case "page":
                self._take_page()

    def closed(self, name: str) -> None:
        match name:
            case "p" | "h":
                self._writer.end_paragraph()
            case "list-item":
                self._items -= 1
            case "frame":
                self._frame_level = 0
            case "table-row":
                self._writer.end_row()
            case "table":
                self._writer.end_table()

    def data(self, text: str) -> None:
        self._writer.write(text)

    def _take_page(self) -> None:
        if self._pages_left <= 0:
            self._document.cut = "pages"
            raise Full
        self._pages_left -= 1


_DIGITS = frozenset("123456789")
_NUMBER = re.compile(r"[1-9][0-9]{0,5}")


def read_odt(body: bytes, limits: DocumentLimits) -> Document:
    """Read an OpenDocument text."""
    return _read_odf(body, limits, sniff.ODT)


def read_ods(body: bytes, limits: DocumentLimits) -> Document:
    """Read an OpenDocument spreadsheet."""
    return _read_odf(body, limits, sniff.ODS)


def read_odp(body: bytes, limits: DocumentLimits) -> Document:
    """Read an OpenDocument presentation."""
    return _read_odf(body, limits, sniff.ODP)


def _read_odf(body: bytes, limits: DocumentLimits, kind: str) -> Document:
    file, document, writer = ZipFile(body, limits), Document(), _Writer(limits)
    manifest = "META-INF/manifest.xml"
    if manifest in file and _ENCRYPTED in file.read(manifest):
        raise Unreadable("encrypted")
    _take_facts(document, file, "meta.xml")
    target = _OdfTarget(writer, document, kind, limits.max_pages)
    read_xml(file.pieces("content.xml"), target, skipped=_ODF_SKIPPED)
    return _finish(document, writer)
