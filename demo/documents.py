"""Files of the formats of documents, as programs write them: PDF, Office, books.

For tests, and for the sites of benchmarks. Built by hand, so that hostile ones can be built alike
(hostile_files.py).
"""

import codecs
import zlib
from collections.abc import Iterable, Mapping, Sequence


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
