"""Files that would take a careless reader's time, memory or trust: the zoo of documents.

For tests, and for the sites of benchmarks that serve them beside ordinary pages. Each is small on
the wire. Where one is large when it is unpacked, its packed form is put together from repeated
blocks, so that all of them are made in a few seconds.
"""

from __future__ import annotations

import io
import random
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from crawler.parsing import sniff
from demo import documents
from demo.documents import PdfFile, docx, odf, ooxml, pdf, word_paragraph

_MB: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Hostile:
    """One file of the zoo."""

    name: str
    media_type: str
    make: Callable[[], bytes]
    # Flag of its page: why it is not read, or what is left out; empty if it is read, however odd.
    flag: str
    # Takes more than half a second to read: no file for each run of the tests.
    is_slow: bool = False


# --- PDF ------------------------------------------------------------------------------------------


def _junk(head: bytes) -> bytes:
    return head + random.Random(1).randbytes(100_000)


def _one_page(
    content: str = "", *, page: str = "", catalog: str = "", box: str = "0 0 9 9"
) -> bytes:
    """Return a PDF file of a page with this content; `page` and `catalog` are more entries."""
    return _page_of(PdfFile(), content.encode(), page=page, catalog=catalog, box=box)


def _page_of(
    file: PdfFile,
    content: bytes,
    *,
    entries: str = "",
    page: str = "",
    catalog: str = "",
    box: str = "0 0 9 9",
) -> bytes:
    stream = file.add_stream(content, entries)
    tree = file.reserve()
    font = "/Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >>"
    leaf = file.add(
        f"<< /Type /Page /Parent {tree} 0 R /MediaBox [{box}] /Contents {stream} 0 R"
        f" /Resources << {font} >> {page} >>"
    )
    file.put(tree, f"<< /Type /Pages /Count 1 /Kids [{leaf} 0 R] >>")
    return file.data(f"/Root {file.add(f'<< /Type /Catalog /Pages {tree} 0 R {catalog} >>')} 0 R")


def _encrypted_pdf() -> bytes:
    """Return a file that needs a password, which nobody knows."""
    file = PdfFile()
    tree = file.reserve()
    file.put(tree, "<< /Type /Pages /Count 0 /Kids [] >>")
    root = file.add(f"<< /Type /Catalog /Pages {tree} 0 R >>")
    key = "00" * 32
    lock = file.add(f"<< /Filter /Standard /V 1 /R 2 /P -4 /O <{key}> /U <{key}> >>")
    return file.data(f"/Root {root} 0 R /Encrypt {lock} 0 R /ID [<00> <00>]")


def _cyclic_tree() -> bytes:
    file = PdfFile()
    tree, branch = file.reserve(), file.reserve()
    file.put(tree, f"<< /Type /Pages /Count 1000000 /Kids [{branch} 0 R {tree} 0 R] >>")
    file.put(branch, f"<< /Type /Pages /Parent {tree} 0 R /Count 1000 /Kids [{tree} 0 R] >>")
    return file.data(f"/Root {file.add(f'<< /Type /Catalog /Pages {tree} 0 R >>')} 0 R")


def _deep_tree(levels: int) -> bytes:
    file = PdfFile()
    branches = [file.reserve() for _ in range(levels)]
    leaf = file.add(f"<< /Type /Page /Parent {branches[-1]} 0 R /MediaBox [0 0 9 9] >>")
    for at, branch in enumerate(branches):
        parent = f"/Parent {branches[at - 1]} 0 R" if at else ""
        kid = branches[at + 1] if at + 1 < levels else leaf
        file.put(branch, f"<< /Type /Pages {parent} /Count 1 /Kids [{kid} 0 R] >>")
    return file.data(f"/Root {file.add(f'<< /Type /Catalog /Pages {branches[0]} 0 R >>')} 0 R")


def _boasting_tree() -> bytes:
    file = PdfFile()
    tree = file.reserve()
    file.put(tree, "<< /Type /Pages /Count 2147483647 /Kids [] >>")
    return file.data(f"/Root {file.add(f'<< /Type /Catalog /Pages {tree} 0 R >>')} 0 R")


def _looping_table() -> bytes:
    """Return a file whose table of objects says that itself is the one before."""
    whole = pdf(["text"])
    at = whole.rindex(b"startxref") + len(b"startxref\n")
    place = whole[at:].split(b"\n")[0]
    return whole.replace(b"trailer\n<<", b"trailer\n<< /Prev " + place)


def _content_bomb(size: int) -> bytes:
    """Return a page whose content unpacks to so many bytes, and was packed twice."""
    packed = zlib.compress(_wrapped(_repeated(b"0 0 m ", size)), 9)
    return _page_of(PdfFile(), packed, entries="/Filter [/FlateDecode /FlateDecode]")


def _object_bomb(size: int) -> bytes:
    """Return a file whose objects are in a stream that unpacks to so many bytes."""
    file = PdfFile()
    packed = zlib.compress(_wrapped(_repeated(b"1 0 ", size)), 9)
    file.add_stream(packed, "/Type /ObjStm /N 1000000 /First 9 /Filter [/FlateDecode /FlateDecode]")
    return file.data("/Root 2 0 R")


def _words_bomb(size: int) -> bytes:
    """Return a page that shows a letter again and again."""
    packed = _wrapped(_repeated(b"BT /F1 9 Tf (a) Tj ET ", size))
    return _page_of(PdfFile(), packed, entries="/Filter /FlateDecode")


def _forms(levels: int, *, times: int) -> bytes:
    """Return a page whose form shows another one several times, which does the same."""
    file = PdfFile()
    forms = [file.reserve() for _ in range(levels)]
    for at, form in enumerate(forms):
        inner = forms[(at + 1) % levels] if times == 1 or at + 1 < levels else form
        content = "/X Do " * times + "BT /F1 9 Tf (a) Tj ET"
        file.put(
            form,
            f"<< /Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /X {inner}"
            f" 0 R >> >> /Length {len(content)} >>\nstream\n{content}\nendstream",
        )
    page = f"/Resources << /XObject << /X {forms[0]} 0 R >> >>"
    stream = file.add_stream(b"/X Do")
    tree = file.reserve()
    leaf = file.add(
        f"<< /Type /Page /Parent {tree} 0 R /MediaBox [0 0 9 9] /Contents {stream} 0 R {page} >>"
    )
    file.put(tree, f"<< /Type /Pages /Count 1 /Kids [{leaf} 0 R] >>")
    return file.data(f"/Root {file.add(f'<< /Type /Catalog /Pages {tree} 0 R >>')} 0 R")


def _slow_pages(number: int, size: int) -> bytes:
    """Return pages that all show the same letters, so many that each takes long."""
    file = PdfFile()
    letters = _wrapped(_repeated(b"BT /F1 9 Tf (a) Tj ET ", size))
    content = file.add_stream(letters, "/Filter /FlateDecode")
    tree = file.reserve()
    leaf = f"<< /Type /Page /Parent {tree} 0 R /MediaBox [0 0 9 9] /Contents {content} 0 R >>"
    kids = " ".join(f"{file.add(leaf)} 0 R" for _ in range(number))
    file.put(tree, f"<< /Type /Pages /Count {number} /Kids [{kids}] >>")
    return file.data(f"/Root {file.add(f'<< /Type /Catalog /Pages {tree} 0 R >>')} 0 R")


def _endless_outline() -> bytes:
    file = PdfFile()
    outline, item = file.reserve(), file.reserve()
    file.put(outline, f"<< /First {item} 0 R /Last {item} 0 R /Count 9 >>")
    file.put(item, f"<< /Title (Again) /Parent {outline} 0 R /First {item} 0 R /Next {item} 0 R >>")
    return _page_of(file, b"", catalog=f"/Outlines {outline} 0 R")


# --- ZIP files ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Packed:
    """Deflated bytes, and what is known of the unpacked ones."""

    data: bytes
    size: int
    checksum: int


def _repeated(block: bytes, size: int, *, before: bytes = b"", after: bytes = b"") -> _Packed:
    """Pack as many blocks as have about this size, and what is before and after them.

    Only the first million bytes are deflated, and then repeated.
    """
    part = block * max(1, _MB // len(block))
    times = max(1, size // len(part))
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    first = packer.compress(before) + packer.flush(zlib.Z_FULL_FLUSH)
    again = packer.compress(part) + packer.flush(zlib.Z_FULL_FLUSH)
    data = first + again * times + packer.compress(after) + packer.flush()
    checksum = 0
    if size <= _CHECKED_MAX:
        for piece in (before, *[part] * times, after):
            checksum = zlib.crc32(piece, checksum)
    return _Packed(data, len(before) + len(part) * times + len(after), checksum)


# Nobody unpacks more, so the checksum does not matter.
_CHECKED_MAX = 100 * _MB


def _wrapped(packed: _Packed) -> bytes:
    """Return packed bytes with the head and the end that PDF wants."""
    return b"\x78\xda" + packed.data + bytes(4)


def _zip_of(entries: Mapping[str, _Packed], *, copies: int = 1) -> bytes:
    """Return a ZIP file; each entry is listed so many times."""
    local, listed = io.BytesIO(), io.BytesIO()
    for text, packed in entries.items():
        name = text.encode()
        facts = struct.pack(
            "<HHHHHLLLHH",
            *(20, 0, zipfile.ZIP_DEFLATED, 0, 0x21, packed.checksum, len(packed.data)),
            *(min(packed.size, 0xFFFFFFFE), len(name), 0),
        )
        central = struct.pack("<HHHLL", 0, 0, 0, 0, local.tell())
        local.write(b"PK\x03\x04" + facts + name + packed.data)
        for _ in range(copies):
            listed.write(b"PK\x01\x02" + struct.pack("<H", 20) + facts + central + name)
    number = len(entries) * copies
    end = struct.pack("<HHHHLLH", 0, 0, number, number, listed.tell(), local.tell(), 0)
    return local.getvalue() + listed.getvalue() + b"PK\x05\x06" + end


def _plain(text: str) -> _Packed:
    data = text.encode()
    return _Packed(zlib.compress(data, 9)[2:-4], len(data), zlib.crc32(data))


_WORD: Final = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_WORD_HEAD: Final = f'<w:document xmlns:w="{_WORD}"><w:body>'.encode()
_WORD_END: Final = b"</w:body></w:document>"
_MAIN: Final = b"word/document.xml"
_PARAGRAPH: Final = b"<w:p><w:r><w:t>All work and no play</w:t></w:r></w:p>"


def _word_bomb(block: bytes, size: int, *, before: bytes = _WORD_HEAD, copies: int = 1) -> bytes:
    """Return a Word file whose text unpacks to so many bytes."""
    main = _repeated(block, size, before=before, after=_WORD_END)
    parts = {"[Content_Types].xml": _plain("<Types/>"), "word/document.xml": main}
    return _zip_of(parts, copies=copies)


def _word(content: str, **parts: str) -> bytes:
    return ooxml("word/document.xml", content, parts=parts)


def _changed(body: bytes, name: bytes, at: int, change: bytes) -> bytes:
    """Return a ZIP file in which both heads of an entry are changed at this place.

    The place is that in the list of entries; in the entry's own head it is two bytes before.
    """
    for head, length, place in ((b"PK\x03\x04", 30, at - 2), (b"PK\x01\x02", 46, at)):
        found = body.index(head)
        while not body[found + length :].startswith(name):
            found = body.index(head, found + 1)
        start = found + place
        body = body[:start] + change + body[start + len(change) :]
    return body


def _ole(stream: str) -> bytes:
    """Return the beginning of a file of Office before 2007 that has a stream of this name.

    Newer files with a password are packed into one.
    """
    return (
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(1000) + stream.encode("utf-16-le") + bytes(500)
    )


def _entities() -> str:
    """Return the declarations of ten entities, each of which is ten of the one before."""
    lines = ["<!ENTITY e0 'laugh'>"]
    lines += [f"<!ENTITY e{at} '{f'&e{at - 1};' * 10}'>" for at in range(1, 10)]
    return f"<!DOCTYPE w:document [{''.join(lines)}]>"


def _said(text: str, before: str = "") -> bytes:
    """Return a Word file with this markup as its only text, and what is before its root."""
    body = f"<w:body><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:body>"
    return _word(f'{before}<w:document xmlns:w="{_WORD}">{body}</w:document>')


_SPINE: Final = '<itemref idref="b"/>'
_BOOK_TYPE: Final = "application/xhtml+xml"
_ITEM: Final = f'<item id="b" href="{{}}" media-type="{_BOOK_TYPE}"/>'


def _book(order: str, items: str, chapter: bytes | str, mimetype: str = sniff.EPUB) -> bytes:
    container = '<container><rootfiles><rootfile full-path="book.opf"/></rootfiles></container>'
    return documents.zipped(
        {
            "mimetype": mimetype,
            "META-INF/container.xml": container,
            "book.opf": f"<package><metadata/><manifest>{items}</manifest>"
            f"<spine>{order}</spine></package>",
            "c.xhtml": chapter,
        }
    )


def _same_chapter(times: int, chapter: str) -> bytes:
    """Return a book that names a chapter by many names, each several times."""
    items = "".join(
        f'<item id="c{at}" href="c.xhtml" media-type="{_BOOK_TYPE}"/>' for at in range(times)
    )
    order = "".join(f'<itemref idref="c{at}"/>' * 3 for at in range(times))
    return _book(order, items, f"<html><body>{chapter}</body></html>")


_RELATIONS: Final = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def _sheet(rows: _Packed, strings: _Packed | None = None) -> bytes:
    """Return a workbook of one sheet."""
    parts = {
        "[Content_Types].xml": _plain("<Types/>"),
        "xl/workbook.xml": _plain(
            f'<workbook xmlns:r="{_RELATIONS}"><sheets><sheet name="S" r:id="r1"/></sheets>'
            "</workbook>"
        ),
        "xl/_rels/workbook.xml.rels": _plain(
            documents.relations({}, {"r1": "worksheets/sheet1.xml"})
        ),
        "xl/worksheets/sheet1.xml": rows,
    }
    return _zip_of({**parts, **({"xl/sharedStrings.xml": strings} if strings else {})})


def _rows(block: bytes, size: int, before: bytes = b"<worksheet><sheetData>") -> _Packed:
    return _repeated(block, size, before=before, after=b"</sheetData></worksheet>")


def _many_entries(number: int) -> bytes:
    return _zip_of({f"word/{at}": _plain("") for at in range(number)})


def _nested_zips(levels: int) -> bytes:
    body = docx(word_paragraph("innermost"))
    for _ in range(levels):
        body = documents.zipped({"word/document.xml": body, "[Content_Types].xml": "<Types/>"})
    return body


def _odd_paths() -> bytes:
    """Return a Word file with entries that would be written elsewhere if they were unpacked."""
    names = ("../../../etc/passwd", "/etc/passwd", "C:\\windows\\win.ini", "word/\u0001")
    parts = dict.fromkeys(names, "root::0:0")
    return ooxml("word/document.xml", f'<w:document xmlns:w="{_WORD}"/>', parts=parts)


# --- all of them ----------------------------------------------------------------------------------

_DAMAGED: Final = "unread:damaged"
_ENCRYPTED: Final = "unread:encrypted"
_LARGE: Final = "unread:too_large"
_DEEP: Final = "unread:too_deep"
_MEMORY: Final = "unread:memory"
_CUT: Final = "cut:text"
_WHOLE: Final = ""
_TABLE: Final = b"<worksheet><sheetData>"
_CELL_OF_STRING: Final = b"<row><c t='s'><v>0</v></c></row>"
_TEXT_HEAD: Final = _WORD_HEAD + b"<w:p><w:r><w:t>"


def _zoo() -> Iterator[Hostile]:
    for media_type, files in (
        (sniff.PDF, _PDF),
        (sniff.DOCX, _WORDS),
        (sniff.XLSX, _SHEETS),
        (sniff.ODT, {"deep.odt": (_DEEP, lambda: odf(sniff.ODT, "<text:p>" * 100_000))}),
        (sniff.EPUB, _BOOKS),
        (sniff.JSON, _JSON),
        (sniff.PLAIN, _PLAIN_TEXTS),
        (sniff.MARKDOWN, _MARKDOWN),
    ):
        for name, (flag, make) in files.items():
            yield Hostile(name, media_type, make, flag, is_slow=name in _SLOW)


_Files = dict[str, tuple[str, Callable[[], bytes]]]
_PDF: Final[_Files] = {
    "empty.pdf": (_DAMAGED, lambda: b"%PDF-1.7"),
    "junk.pdf": (_DAMAGED, lambda: _junk(b"%PDF-1.7\n")),
    "cut-at-half.pdf": (_DAMAGED, lambda: pdf(["text"] * 50)[:9000]),
    "cut-at-end.pdf": (_DAMAGED, lambda: pdf(["text"] * 50)[:-3000]),
    "junk-before.pdf": (_WHOLE, lambda: b"junk\n" * 100 + pdf(["text"])),
    "encrypted.pdf": (_ENCRYPTED, _encrypted_pdf),
    "cyclic-tree.pdf": (_DAMAGED, _cyclic_tree),
    "deep-tree.pdf": (_DAMAGED, lambda: _deep_tree(20_000)),
    "boasting-tree.pdf": (_DAMAGED, _boasting_tree),
    "looping-table.pdf": (_WHOLE, _looping_table),
    "endless-outline.pdf": (_WHOLE, _endless_outline),
    "gigantic-page.pdf": (_WHOLE, lambda: _one_page(box="0 0 1e38 1e38")),
    "deep-arrays.pdf": (_WHOLE, lambda: _one_page(page=f"/X {'[' * 100_000}")),
    "deep-content.pdf": (_WHOLE, lambda: _one_page("[" * 100_000 + "q " * 100_000)),
    "looping-forms.pdf": (_WHOLE, lambda: _forms(2, times=1)),
    "doubling-forms.pdf": (_MEMORY, lambda: _forms(40, times=2)),
    "slow-pages.pdf": ("unread:timeout", lambda: _slow_pages(1000, 20 * _MB)),
    "many-pages.pdf": ("cut:pages", lambda: pdf([f"page {n}" for n in range(10_000)])),
    "many-links.pdf": (_WHOLE, lambda: pdf(["text"], links=[f"/#{n}" for n in range(70_000)])),
    "bomb.pdf": (_MEMORY, lambda: _content_bomb(2000 * _MB)),
    "bomb-of-objects.pdf": (_MEMORY, lambda: _object_bomb(2000 * _MB)),
    "bomb-of-words.pdf": (_MEMORY, lambda: _words_bomb(1000 * _MB)),
}
_WORDS: Final[_Files] = {
    "junk.docx": (_DAMAGED, lambda: _junk(b"PK\x03\x04")),
    "cut.docx": (_DAMAGED, lambda: docx(word_paragraph("text"))[:-400]),
    "encrypted.docx": (_ENCRYPTED, lambda: _changed(docx(""), _MAIN, 8, b"\1\0")),
    "encrypted-whole.docx": (_ENCRYPTED, lambda: _ole("EncryptedPackage")),
    "old.docx": ("unread:unsupported", lambda: _ole("WordDocument")),
    "wrong-checksum.docx": (
        _DAMAGED,
        lambda: _changed(docx(word_paragraph("text")), _MAIN, 16, b"abcd"),
    ),
    "odd-packing.docx": ("unread:unsupported", lambda: _changed(docx(""), _MAIN, 10, b"\x0e\0")),
    "many-entries.docx": ("unread:too_many_entries", lambda: _many_entries(65_535)),
    "same-entry.docx": (_WHOLE, lambda: _word_bomb(_PARAGRAPH, 1, copies=4000)),
    "nested.docx": (_DAMAGED, lambda: _nested_zips(30)),
    "odd-paths.docx": (_WHOLE, _odd_paths),
    "laughs.docx": (_WHOLE, lambda: _said("&e9;", _entities())),
    "external-entity.docx": (
        _WHOLE,
        lambda: _said("&e;", "<!DOCTYPE d [<!ENTITY e SYSTEM 'file:///etc/passwd'>]>"),
    ),
    "deep.docx": (_DEEP, lambda: _said("<x>" * 100_000)),
    "many-attributes.docx": (
        _WHOLE,
        lambda: _said("<x" + "".join(f' a{n}="1"' for n in range(100_000)) + "/>"),
    ),
    "zeros.docx": (_LARGE, lambda: _word_bomb(bytes(1000), 10_000 * _MB, before=b"")),
    "bomb.docx": (_CUT, lambda: _word_bomb(_PARAGRAPH, 3000 * _MB)),
    "one-paragraph.docx": (_CUT, lambda: _word_bomb(b"a ", 90 * _MB, before=_TEXT_HEAD)),
    "open-elements.docx": (_DEEP, lambda: _word_bomb(b"<w:p>", 90 * _MB)),
    "empty-elements.docx": (_CUT, lambda: _word_bomb(b"<w:p/>", 90 * _MB)),
    "cells.docx": (
        _CUT,
        lambda: _word_bomb(b"<w:tc/>", 10 * _MB, before=_WORD_HEAD + b"<w:tbl><w:tr>"),
    ),
}
_SHEETS: Final[_Files] = {
    "sparse.xlsx": (
        _WHOLE,
        lambda: _sheet(
            _rows(
                b'<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>',
                1,
                b'<worksheet><dimension ref="A1:XFD1048576"/><sheetData>',
            )
        ),
    ),
    "one-string.xlsx": (
        _CUT,
        lambda: _sheet(
            _rows(_CELL_OF_STRING, 1),
            _repeated(b"abc def ", 90 * _MB, before=b"<sst><si><t>", after=b"</t></si></sst>"),
        ),
    ),
    "string-often.xlsx": (
        _CUT,
        lambda: _sheet(
            _rows(_CELL_OF_STRING, 90 * _MB),
            _repeated(b"abc def ", 1, before=b"<sst><si><t>", after=b"</t></si></sst>"),
        ),
    ),
    "many-strings.xlsx": (
        _CUT,
        lambda: _sheet(
            _rows(_CELL_OF_STRING, 1),
            _repeated(b"<si><t>abc</t></si>", 99 * _MB, before=b"<sst>", after=b"</sst>"),
        ),
    ),
    "many-rows.xlsx": (_CUT, lambda: _sheet(_rows(b"<row><c><v>1</v></c></row>", 90 * _MB))),
    "one-row.xlsx": (_CUT, lambda: _sheet(_rows(b"<c/>", 99 * _MB, _TABLE + b"<row>"))),
}
_BOOKS: Final[_Files] = {
    "same-chapter.epub": ("cut:pages", lambda: _same_chapter(2000, "<p>Again</p>")),
    "cyclic.epub": (_WHOLE, lambda: _book(_SPINE, _ITEM.format("book.opf"), "")),
    "wrong-type.epub": (_DAMAGED, lambda: _book("", "", "", mimetype=sniff.PDF)),
    "no-parts.epub": (_DAMAGED, lambda: documents.zipped({"mimetype": sniff.EPUB})),
    "deep.epub": (_WHOLE, lambda: _same_chapter(5, "<div>" * 100_000)),
    "wide.epub": (_CUT, lambda: _same_chapter(500, "<p>a" * 50_000)),
}
_JSON: Final[_Files] = {
    "deep.json": (_WHOLE, lambda: b"[" * 100_000 + b"]" * 100_000),
    "quotes.json": (_WHOLE, lambda: b'["\\u0041"' + b',"\\u0041"' * 100_000 + b"]"),
}
_PLAIN_TEXTS: Final[_Files] = {
    "one-line.txt": (_CUT, lambda: b"x" * 10 * _MB),
    "utf-16.txt": (_WHOLE, lambda: b"\xff\xfe" + random.Random(1).randbytes(200_001)),
}
_MARKDOWN: Final[_Files] = {
    "brackets.md": (_WHOLE, lambda: b"[" * 500_000 + b"](x" * 100_000),
    "marks.md": (_WHOLE, lambda: b"*_`" * 300_000),
    "lists.md": (_WHOLE, lambda: b"- " * 400_000),
    "tags.md": (_WHOLE, lambda: b"<a " * 300_000),
}
# Those that take more than half a second.
_SLOW: Final = frozenset(
    {
        *("doubling-forms.pdf", "bomb.pdf", "bomb-of-objects.pdf", "bomb-of-words.pdf"),
        *("zeros.docx", "bomb.docx", "empty-elements.docx", "cells.docx", "one-paragraph.docx"),
        *("many-strings.xlsx", "many-rows.xlsx", "slow-pages.pdf"),
    }
)
ZOO: Final[tuple[Hostile, ...]] = tuple(_zoo())
