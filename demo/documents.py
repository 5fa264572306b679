"""Files of the formats of documents, as programs write them: PDF, Office, books.

For tests, and for the sites of benchmarks. Built by hand, so that hostile ones can be built alike
(hostile_files.py).
"""

import codecs
import io
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from xml.sax.saxutils import escape, quoteattr


class PdfFile:
    """Objects of a PDF file, numbered from 1 on, and its table of them."""

    def __init__(self) -> None:
        self._objects: list[bytes] = []

    def add(self, content: str | bytes) -> int:
        """Add an object; returns its number."""
        self._objects.append(content.encode("latin-1") if isinstance(content, str) else content)
        return len(self._objects)

    def add_stream(self, data: bytes, entries: str = "", *, packed: bool = False) -> int:
        """Add a stream of this content; with `packed` it is deflated."""
        if packed:
            data, entries = zlib.compress(data, 9), f"{entries} /Filter /FlateDecode"
        head = f"<< /Length {len(data)} {entries} >>\nstream\n".encode("latin-1")
        return self.add(head + data + b"\nendstream")

    def reserve(self) -> int:
        """Return the number of an object that `put` gives later."""
        return self.add("null")

    def put(self, number: int, content: str) -> None:
        self._objects[number - 1] = content.encode("latin-1")

    def data(self, trailer: str) -> bytes:
        """Return the file; `trailer` has the entries of its trailer, such as /Root 1 0 R."""
        parts, size, places = [b"%PDF-1.7\n"], 9, []
        for number, content in enumerate(self._objects, 1):
            places.append(size)
            parts.append(b"%d 0 obj\n%b\nendobj\n" % (number, content))
            size += len(parts[-1])
        parts.append(b"xref\n0 %d\n0000000000 65535 f \n" % (len(places) + 1))
        parts += (b"%010d 00000 n \n" % place for place in places)
        parts.append(
            b"trailer\n<< /Size %d %b >>\nstartxref\n%d\n%%%%EOF\n"
            % (len(places) + 1, trailer.encode("latin-1"), size)
        )
        return b"".join(parts)


def pdf(
    pages: Sequence[str],
    *,
    links: Iterable[str] = (),
    facts: Mapping[str, str] | None = None,
    language: str = "",
    outline: Sequence[str] = (),
) -> bytes:
    """Return a PDF file with a text on each page, in Latin-1, and links on the first one.

    `facts` are entries such as Title and CreationDate.
    """
    file = PdfFile()
    font = file.add(
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"
    )
    tree = file.reserve()
    annotations = [
        file.add(
            "<< /Type /Annot /Subtype /Link /Rect [0 0 9 9] "
            f"/A << /S /URI /URI {_pdf_text(url)} >> >>"
        )
        for url in links
    ]
    numbers = []
    for at, text in enumerate(pages):
        lines = " T* ".join(f"({_pdf_escaped(line)}) Tj" for line in text.split("\n"))
        content = file.add_stream(
            f"BT /F1 12 Tf 14 TL 72 720 Td {lines} ET".encode("cp1252"), packed=True
        )
        notes = " ".join(f"{number} 0 R" for number in annotations) if at == 0 else ""
        numbers.append(
            file.add(
                f"<< /Type /Page /Parent {tree} 0 R /MediaBox [0 0 612 792] /Contents {content} 0 R"
                f" /Resources << /Font << /F1 {font} 0 R >> >> /Annots [{notes}] >>"
            )
        )
    kids = " ".join(f"{number} 0 R" for number in numbers)
    file.put(tree, f"<< /Type /Pages /Count {len(numbers)} /Kids [{kids}] >>")
    catalog = f"/Type /Catalog /Pages {tree} 0 R"
    if language:
        catalog += f" /Lang {_pdf_text(language)}"
    if outline:
        catalog += f" /Outlines {_outline(file, outline)} 0 R"
    root = file.add(f"<< {catalog} >>")
    entries = " ".join(f"/{name} {_pdf_text(value)}" for name, value in (facts or {}).items())
    return file.data(f"/Root {root} 0 R /Info {file.add(f'<< {entries} >>')} 0 R")


def _outline(file: PdfFile, titles: Sequence[str]) -> int:
    root = file.reserve()
    items = [file.reserve() for _ in titles]
    for at, (item, title) in enumerate(zip(items, titles, strict=True)):
        after = f"/Next {items[at + 1]} 0 R" if at + 1 < len(items) else ""
        file.put(item, f"<< /Title {_pdf_text(title)} /Parent {root} 0 R {after} >>")
    file.put(root, f"<< /First {items[0]} 0 R /Last {items[-1]} 0 R /Count {len(items)} >>")
    return root


def _pdf_text(text: str) -> str:
    """Return a text of any alphabet as a string of PDF."""
    if text.isascii():
        return f"({_pdf_escaped(text)})"
    return f"<{(codecs.BOM_UTF16_BE + text.encode('utf-16-be')).hex()}>"


def _pdf_escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")


# --- Office files and books -----------------------------------------------------------------------

_HEAD: Final = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
_REL: Final = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE: Final = "http://schemas.openxmlformats.org/package/2006"
_WORD: Final = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_SHEET: Final = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_SLIDE: Final = "http://schemas.openxmlformats.org/presentationml/2006/main"
_DRAWING: Final = "http://schemas.openxmlformats.org/drawingml/2006/main"
_DC: Final = "http://purl.org/dc/elements/1.1/"


def zipped(parts: Mapping[str, str | bytes]) -> bytes:
    """Return a ZIP file of these parts; one named mimetype is stored as it is."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in parts.items():
            is_plain = name == "mimetype"
            method = zipfile.ZIP_STORED if is_plain else zipfile.ZIP_DEFLATED
            # The time of all entries is the same, so that the same file is made each time.
            file.writestr(zipfile.ZipInfo(name), content, method)
    return data.getvalue()


def ooxml(
    main: str,
    content: str,
    *,
    parts: Mapping[str, str | bytes] | None = None,
    facts: Mapping[str, str] | None = None,
    links: Mapping[str, str] | None = None,
    members: Mapping[str, str] | None = None,
) -> bytes:
    """Return an Office file with this main part.

    `facts`: elements of its properties, such as dc:title. `links` and `members` are the addresses
    and the parts, by their ids, to which the main part refers.
    """
    folder, _, name = main.rpartition("/")
    core = "".join(f"<{name}>{escape(text)}</{name}>" for name, text in (facts or {}).items())
    return zipped(
        {
            "[Content_Types].xml": f'{_HEAD}<Types xmlns="{_PACKAGE}/content-types"/>',
            "_rels/.rels": relations({}, {"rId1": main}, kind="officeDocument"),
            "docProps/core.xml": f'{_HEAD}<cp:coreProperties xmlns:cp="{_PACKAGE}/metadata/'
            f'core-properties" xmlns:dc="{_DC}" xmlns:dcterms="http://purl.org/dc/terms/">{core}'
            "</cp:coreProperties>",
            main: _HEAD + content,
            f"{folder}/_rels/{name}.rels": relations(links or {}, members or {}),
            **(parts or {}),
        }
    )


def relations(links: Mapping[str, str], members: Mapping[str, str], kind: str = "part") -> str:
    """Return the part that says to what another one refers."""
    external = "".join(
        f'<Relationship Id="{key}" Type="{_REL}/hyperlink" Target={quoteattr(url)}'
        ' TargetMode="External"/>'
        for key, url in links.items()
    )
    internal = "".join(
        f'<Relationship Id="{key}" Type="{_REL}/{kind}" Target={quoteattr(part)}/>'
        for key, part in members.items()
    )
    content = external + internal
    return f'{_HEAD}<Relationships xmlns="{_PACKAGE}/relationships">{content}</Relationships>'


def docx(body: str, **more: Mapping[str, str] | None) -> bytes:
    """Return a Word file with this body, in elements of WordprocessingML."""
    styles = "".join(
        f'<w:style w:styleId="H{level}"><w:name w:val="heading {level}"/></w:style>'
        for level in range(1, 4)
    )
    content = f'<w:document xmlns:w="{_WORD}" xmlns:r="{_REL}"><w:body>{body}</w:body></w:document>'
    parts = {"word/styles.xml": f'<w:styles xmlns:w="{_WORD}">{styles}</w:styles>'}
    return ooxml("word/document.xml", content, parts=parts, **more)


def word_paragraph(text: str, style: str = "") -> str:
    """Return a paragraph for `docx`; `style` H1 to H3 makes a heading of it."""
    looks = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{looks}<w:r><w:t>{escape(text)}</w:t></w:r></w:p>"


def xlsx(sheets: Mapping[str, Sequence[Sequence[str | float]]], links: Sequence[str] = ()) -> bytes:
    """Return an Excel file with these rows in its sheets, and links on the first one."""
    strings: dict[str, int] = {}
    parts: dict[str, str | bytes] = {}
    for number, rows in enumerate(sheets.values(), 1):
        cells = "".join(
            f"<row>{''.join(_cell(value, strings) for value in row)}</row>" for row in rows
        )
        ids = {f"rId{at}": url for at, url in enumerate(links, 1)} if number == 1 else {}
        hyperlinks = "".join(f'<hyperlink ref="A1" r:id="{key}"/>' for key in ids)
        parts[f"xl/worksheets/sheet{number}.xml"] = (
            f'<worksheet xmlns="{_SHEET}" xmlns:r="{_REL}"><sheetData>{cells}</sheetData>'
            f"<hyperlinks>{hyperlinks}</hyperlinks></worksheet>"
        )
        parts[f"xl/worksheets/_rels/sheet{number}.xml.rels"] = relations(ids, {})
    items = "".join(f"<si><t>{escape(text)}</t></si>" for text in strings)
    parts["xl/sharedStrings.xml"] = f'<sst xmlns="{_SHEET}">{items}</sst>'
    named = "".join(
        f'<sheet name={quoteattr(name)} sheetId="{number}" r:id="rId{number}"/>'
        for number, name in enumerate(sheets, 1)
    )
    workbook = f'<workbook xmlns="{_SHEET}" xmlns:r="{_REL}"><sheets>{named}</sheets></workbook>'
    members = {
        f"rId{number}": f"worksheets/sheet{number}.xml" for number in range(1, len(sheets) + 1)
    }
    return ooxml("xl/workbook.xml", workbook, parts=parts, members=members)


def _cell(value: str | float, strings: dict[str, int]) -> str:
    if isinstance(value, str):
        return f'<c t="s"><v>{strings.setdefault(value, len(strings))}</v></c>'
    return f"<c><v>{value}</v></c>"


def pptx(slides: Sequence[tuple[str, str]], links: Sequence[str] = ()) -> bytes:
    """Return a PowerPoint file of slides with a title and a text, and links on the first one."""
    parts: dict[str, str | bytes] = {}
    for number, (title, text) in enumerate(slides, 1):
        ids = {f"rId{at}": url for at, url in enumerate(links, 1)} if number == 1 else {}
        clicks = "".join(f'<a:rPr><a:hlinkClick r:id="{key}"/></a:rPr>' for key in ids)
        shapes = "".join(
            f"<p:sp><p:nvSpPr><p:nvPr>{place}</p:nvPr></p:nvSpPr><p:txBody><a:p><a:r>{clicks}"
            f"<a:t>{escape(words)}</a:t></a:r></a:p></p:txBody></p:sp>"
            for place, words in (('<p:ph type="title"/>', title), ("", text))
        )
        parts[f"ppt/slides/slide{number}.xml"] = (
            f'<p:sld xmlns:p="{_SLIDE}" xmlns:a="{_DRAWING}" xmlns:r="{_REL}"><p:cSld><p:spTree>'
            f"{shapes}</p:spTree></p:cSld></p:sld>"
        )
        parts[f"ppt/slides/_rels/slide{number}.xml.rels"] = relations(ids, {})
    listed = "".join(f'<p:sldId id="{255 + n}" r:id="rId{n}"/>' for n in range(1, len(slides) + 1))
    content = (
        f'<p:presentation xmlns:p="{_SLIDE}" xmlns:r="{_REL}"><p:sldIdLst>{listed}</p:sldIdLst>'
        "</p:presentation>"
    )
    members = {f"rId{n}": f"slides/slide{n}.xml" for n in range(1, len(slides) + 1)}
    return ooxml("ppt/presentation.xml", content, parts=parts, members=members)


_ODF: Final = "urn:oasis:names:tc:opendocument:xmlns"


def odf(media_type: str, body: str, facts: Mapping[str, str] | None = None) -> bytes:
    """Return an OpenDocument file with this body, in elements of the namespaces office, text,
    table and draw. `facts`: elements of its metadata, such as dc:title."""
    spaces = "".join(
        f' xmlns:{name}="{_ODF}:{name}:1.0"'
        for name in ("office", "text", "table", "presentation", "meta")
    )
    spaces += f' xmlns:draw="{_ODF}:drawing:1.0" xmlns:xlink="http://www.w3.org/1999/xlink"'
    meta = "".join(f"<{name}>{escape(text)}</{name}>" for name, text in (facts or {}).items())
    return zipped(
        {
            "mimetype": media_type,
            "content.xml": f"{_HEAD}<office:document-content{spaces}><office:body>{body}"
            "</office:body></office:document-content>",
            "meta.xml": f'{_HEAD}<office:document-meta{spaces} xmlns:dc="{_DC}"><office:meta>{meta}'
            "</office:meta></office:document-meta>",
            "META-INF/manifest.xml": f'{_HEAD}<manifest xmlns="{_ODF}:manifest:1.0"/>',
        }
    )


def epub(
    chapters: Sequence[str],
    *,
    facts: Mapping[str, str] | None = None,
    parts: Mapping[str, str | bytes] | None = None,
) -> bytes:
    """Return a book with these bodies of its chapters, in XHTML. `facts`: such as dc:title."""
    named = "".join(f"<{name}>{escape(text)}</{name}>" for name, text in (facts or {}).items())
    numbers = range(1, len(chapters) + 1)
    items = "".join(
        f'<item id="c{n}" href="text/c{n}.xhtml" media-type="application/xhtml+xml"/>'
        for n in numbers
    )
    order = "".join(f'<itemref idref="c{n}"/>' for n in numbers)
    pages = {
        f"OEBPS/text/c{n}.xhtml": f'{_HEAD}<html xmlns="http://www.w3.org/1999/xhtml"><head><title/>'
        f"</head><body>{chapter}</body></html>"
        for n, chapter in enumerate(chapters, 1)
    }
    return zipped(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": f'{_HEAD}<container xmlns="urn:oasis:names:tc:opendocument:'
            'xmlns:container"><rootfiles><rootfile full-path="OEBPS/book.opf"/></rootfiles>'
            "</container>",
            "OEBPS/book.opf": f'{_HEAD}<package xmlns="http://www.idpf.org/2007/opf"><metadata'
            f' xmlns:dc="{_DC}">{named}</metadata><manifest>{items}</manifest>'
            f"<spine>{order}</spine></package>",
            **pages,
            **(parts or {}),
        }
    )
