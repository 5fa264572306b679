"""Office files are read for their text, headings, links and facts."""

from datetime import UTC, datetime

import pytest

from crawler.parsing import sniff
from crawler.parsing.document import Document, DocumentLimits, Unreadable
from crawler.parsing.documents import HEAVY, read_document
from demo.documents import docx, odf, ooxml, pptx, word_paragraph, xlsx, zipped

URL = "http://h.test/file"
FACTS = {
    "dc:title": "The  title",
    "dc:creator": "Ann",
    "dc:description": "About it",
    "dc:language": "fr",
    "dcterms:created": "2024-01-31T10:00:00Z",
    "dcterms:modified": "2024-02-01T10:00:00+02:00",
}
NUMBERED = "<w:p><w:pPr><w:numPr/></w:pPr><w:r><w:t>item</w:t></w:r></w:p>"


def read(body: bytes, **limits: int) -> Document:
    kind = sniff.sniff(body)
    assert kind in HEAVY
    found = read_document(kind, body, URL, limits=DocumentLimits(**limits))
    assert found.media_type == kind
    return found


def row(*texts: str) -> str:
    cells = "".join(f"<w:tc>{word_paragraph(text)}</w:tc>" for text in texts)
    return f"<w:tr>{cells}</w:tr>"


def test_a_word_file_has_headings_paragraphs_lists_and_tables() -> None:
    found = read(
        docx(
            word_paragraph("Über uns", "H1")
            + word_paragraph("Some  <text> & more")
            + NUMBERED
            + f"<w:tbl>{row('a|b', 'c')}{row('d', '')}</w:tbl>"
            + word_paragraph("Ende", "H2"),
            facts=FACTS,
        )
    )
    assert (found.title, found.author, found.description) == ("The title", "Ann", "About it")
    assert found.language == "fr"
    assert found.published_at == datetime(2024, 1, 31, 10, tzinfo=UTC)
    assert found.updated_at == datetime(2024, 2, 1, 8, tzinfo=UTC)
    assert found.headings == ["# Über uns", "## Ende"]
    assert found.main_text == "Über uns\nSome <text> & more\nitem\na|b c\nd\nEnde"
    assert found.text == found.main_text.replace("\n", " ")
    assert found.markdown == (
        "# Über uns\n\nSome \\<text> & more\n\n- item\n\n| a\\|b | c |\n| --- | --- |\n| d |  |"
        "\n\n## Ende"
    )


def test_links_of_a_word_file_are_those_of_hyperlinks_and_fields() -> None:
    found = read(
        docx(
            '<w:p><w:hyperlink r:id="rId7"><w:r><w:t>one</w:t></w:r></w:hyperlink>'
            '<w:hyperlink r:id="rId9"/></w:p>'
            '<w:p><w:r><w:fldChar/><w:instrText> HYPERLINK "http://b.te</w:instrText></w:r>'
            '<w:r><w:instrText>st/" \\o </w:instrText><w:fldChar/></w:r></w:p>'
            "<w:p><w:fldSimple w:instr=' HYPERLINK \"http://c.test/\" '/></w:p>",
            links={"rId7": "http://a.test/?a=1&b=2"},
            members={"rId9": "other.xml"},
        )
    )
    assert found.links == ["http://a.test/?a=1&b=2", "http://b.test/", "http://c.test/"]
    assert found.text == "one"


def test_what_is_deleted_or_an_alternative_is_left_out() -> None:
    found = read(
        docx(
            "<w:p><w:r><w:t>kept</w:t></w:r><w:del><w:r><w:delText>gone</w:delText></w:r></w:del>"
            "<w:Choice><w:t> box</w:t></w:Choice><w:Fallback><w:t> box</w:t></w:Fallback></w:p>"
        )
    )
    assert found.text == "kept box"


def test_a_style_may_be_a_heading_by_its_name_level_or_parent() -> None:
    styles = """<w:styles xmlns:w="http://w"><w:lang w:val="de-DE"/>
    <w:style w:styleId="berschrift2"><w:name w:val="heading 2"/></w:style>
    <w:style w:styleId="Own"><w:basedOn w:val="berschrift2"/></w:style>
    <w:style w:styleId="Level"><w:outlineLvl w:val="2"/></w:style>
    <w:style w:styleId="Text"><w:outlineLvl w:val="9"/></w:style>
    <w:style w:styleId="List"><w:numPr/></w:style></w:styles>"""
    body = "".join(
        word_paragraph(style, style) for style in ("berschrift2", "Own", "Level", "Text", "List")
    )
    content = f'<w:document xmlns:w="http://w"><w:body>{body}</w:body></w:document>'
    found = read(ooxml("word/document.xml", content, parts={"word/styles.xml": styles}))
    assert found.headings == ["## berschrift2", "## Own", "### Level"]
    assert found.markdown.endswith("\n\nText\n\n- List")
    assert (found.language, found.title) == ("de-DE", "berschrift2")


def test_the_main_part_may_have_another_name() -> None:
    content = '<w:document xmlns:w="http://w"><w:p><w:t>text</w:t></w:p></w:document>'
    assert read(ooxml("word/document2.xml", content)).text == "text"


def test_a_workbook_has_sheets_and_rows() -> None:
    found = read(
        xlsx(
            {"Prices": [["name", "euro"], ["tea", 2.5], ["*milk*", 1]], "Other": [["tea"]]},
            links=["http://a.test/"],
        )
    )
    assert found.headings == ["## Prices", "## Other"]
    assert found.main_text == "Prices\nname euro\ntea 2.5\n*milk* 1\nOther\ntea"
    assert found.markdown.startswith(
        "## Prices\n\n| name | euro |\n| --- | --- |\n| tea | 2.5 |\n| \\*milk\\* | 1 |\n\n## Other"
    )
    assert found.links == ["http://a.test/"]


def test_cells_of_all_kinds_are_read() -> None:
    sheet = """<worksheet><row><c t="inlineStr"><is><t>in</t><rPh><t>no</t></rPh></is></c>
    <c t="str"><f>A1</f><v>calculated</v></c><c t="e"><v>#N/A</v></c><c t="b"><v>1</v></c>
    <c t="s"><v>7</v></c><c t="s"><v>x</v></c><c><v>3</v></c></row></worksheet>"""
    main = """<workbook xmlns:r="http://x/relationships"><sheet name="S" r:id="a"/>
    <sheet name="None" r:id="b"/></workbook>"""
    parts = {"xl/s.xml": sheet}
    found = read(ooxml("xl/workbook.xml", main, parts=parts, members={"a": "/xl/s.xml"}))
    assert found.main_text == "S\nin calculated 1 3"


def test_cells_are_in_their_columns_though_files_leave_out_empty_ones() -> None:
    rows = """<row><c r="A1"><v>1</v></c><c r="B1"><v>2</v></c><c r="C1"><v>3</v></c></row>
    <row><c r="C2"><v>4</v></c></row><row><c r="XFD3"><v>5</v></c><c r="A3"><v>6</v></c></row>"""
    main = '<workbook xmlns:r="http://x/relationships"><sheet name="S" r:id="a"/></workbook>'
    parts = {"xl/s.xml": f"<worksheet>{rows}</worksheet>"}
    found = read(ooxml("xl/workbook.xml", main, parts=parts, members={"a": "/xl/s.xml"}))
    assert found.markdown.split("\n")[2:] == [
        *("| 1 | 2 | 3 |", "| --- | --- | --- |", "|  |  | 4 |"),
        # But for gaps that are no more than layout.
        "| 5 | 6 |",
    ]
    cell, empty = "<table:table-cell><text:p>x</text:p></table:table-cell>", "<table:table-cell/>"
    gap, layout = (
        f'<table:table-cell table:number-columns-repeated="{times}"/>' for times in (2, 1000)
    )
    row = f"<table:table-row>{cell}{gap}{cell}{layout}{cell}{empty}{gap}</table:table-row>"
    found = read(odf(sniff.ODS, f"<table:table table:name='T'>{row}</table:table>"))
    assert found.markdown.split("\n")[2] == "| x |  |  | x |  | x |  |  |"


def test_slides_are_read_in_their_order() -> None:
    found = read(pptx([("Deck", "hello"), ("Second", "world")], links=["http://a.test/"]))
    assert found.headings == ["## Deck", "## Second"]
    assert (found.title, found.text) == ("Deck", "Deck hello Second world")
    assert found.links == ["http://a.test/"]


def test_an_opendocument_text_is_read() -> None:
    found = read(
        odf(
            sniff.ODT,
            "<office:text><text:tracked-changes><text:p>gone</text:p></text:tracked-changes>"
            '<text:h text:outline-level="2">Head</text:h><text:p>a<text:s/>b<text:line-break/>'
            '<text:a xlink:href="http://a.test/?a=1&amp;b=2">link</text:a></text:p>'
            "<text:list><text:list-item><text:p>item</text:p></text:list-item></text:list>"
            "<table:table table:name='T'><table:table-row><table:table-cell><text:p>x</text:p>"
            "</table:table-cell></table:table-row></table:table></office:text>",
            {
                "dc:title": "Title",
                "meta:initial-creator": "Ann",
                "meta:creation-date": "2024-01-31",
            },
        )
    )
    assert (found.title, found.author) == ("Title", "Ann")
    assert found.published_at == datetime(2024, 1, 31, tzinfo=UTC)
    assert found.markdown == "## Head\n\na b link\n\n- item\n\n| x |\n| --- |"
    assert found.links == ["http://a.test/?a=1&b=2"]


SHEET = "<table:table table:name='{}'><table:table-row><table:table-cell><text:p>x</text:p>"
SHEET += "</table:table-cell></table:table-row></table:table>"
SLIDE = "<draw:page><draw:frame presentation:class='title'><text:p>{}</text:p></draw:frame>"
SLIDE += "<text:p>x</text:p></draw:page>"


@pytest.mark.parametrize(("kind", "page"), [(sniff.ODS, SHEET), (sniff.ODP, SLIDE)])
def test_opendocument_sheets_and_slides_are_read(kind: str, page: str) -> None:
    body = odf(kind, page.format("One") + page.format("Two"))
    found = read(body)
    assert (found.headings, found.text) == (["## One", "## Two"], "One x Two x")
    found = read(body, max_pages=1)
    assert (found.headings, found.cut) == (["## One"], "pages")


@pytest.mark.parametrize(
    "body",
    [
        docx("".join(map(word_paragraph, ["12345"] * 9)), links={"a": "/a", "b": "/b"}),
        xlsx({name: [["12345"]] for name in "abcdefghi"}, links=["/a", "/b"]),
        pptx([("1", "2345")] * 9, links=["/a", "/b"]),
    ],
)
def test_text_links_and_pages_have_limits(body: bytes) -> None:
    found = read(body, max_text_chars=12)
    assert (len(found.text) <= 12, found.cut) == (True, "text")
    assert len(read(body, max_links=1).links) <= 1
    found = read(body, max_pages=2)
    assert found.cut == ("" if found.media_type == sniff.DOCX else "pages")


@pytest.mark.parametrize(
    ("limits", "reason"),
    [({"max_entries": 3}, "too_many_entries"), ({"max_unpacked_bytes": 100}, "too_large")],
)
def test_a_file_beyond_a_limit_is_not_read(limits: dict[str, int], reason: str) -> None:
    with pytest.raises(Unreadable, match=reason):
        read(docx(word_paragraph("text")), **limits)


@pytest.mark.parametrize("body", [b"PK\x03\x04", docx("")[:400], zipped({"a": "b"}), b""])
def test_a_damaged_file_is_told(body: bytes) -> None:
    for kind in HEAVY - {sniff.PDF, sniff.OLE}:
        with pytest.raises(Unreadable, match="damaged"):
            read_document(kind, body, URL, limits=DocumentLimits())


def test_what_has_no_end_is_read_as_far_as_there_is_room() -> None:
    word = "<w:p><w:r><w:t>" + "word " * 1000
    found = read(docx(word), max_text_chars=20)
    assert (found.text, found.cut) == ("word word word word ", "text")
    cells = "<w:tbl><w:tr>" + "<w:tc><w:p><w:r><w:t>a</w:t></w:r></w:p></w:tc>" * 1000
    found = read(docx(f"{cells}</w:tr></w:tbl>"), max_text_chars=20)
    assert len(found.text) <= 20
    assert found.cut == "text"


def test_a_sheet_is_read_until_there_is_no_room() -> None:
    found = read_document(
        sniff.XLSX, xlsx({"S": [["text"] * 9] * 9}), URL, limits=DocumentLimits(max_text_chars=30)
    )
    assert (found.text, found.cut) == ("S text text text text text tex", "text")


def test_elements_may_be_inside_of_each_other_up_to_a_depth() -> None:
    def nested(levels: int) -> str:
        return "<w:sdt>" * levels + word_paragraph("text") + "</w:sdt>" * levels

    assert read(docx(nested(400))).text == "text"
    with pytest.raises(Unreadable, match="too_deep"):
        read(docx(nested(500)))


@pytest.mark.parametrize(
    ("stream", "reason"), [("EncryptedPackage", "encrypted"), ("WordDocument", "unsupported")]
)
def test_of_older_files_only_the_reason_is_told(stream: str, reason: str) -> None:
    body = bytes.fromhex("d0cf11e0a1b11ae1") + bytes(600) + stream.encode("utf-16-le")
    kind = sniff.sniff(body, sniff.DOCX, URL)
    assert kind in HEAVY
    with pytest.raises(Unreadable, match=reason):
        read_document(kind, body, URL, limits=DocumentLimits())
