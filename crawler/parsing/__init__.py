"""Parsing: from the bytes of a response to a document with metadata, text and links.

    reader      reads a body by its type: HTML, feeds, text, Markdown, JSON
    sniff       finds the type where the server's is missing or wrong
    documents   reads a document by its type, within limits
    html        HTML in one pass: metadata, links, text
    main_text   the article of an HTML page, without its frame
    byline      the author and the dates of an HTML page
    encoding    the encoding of a body, and its text
    feeds       RSS and Atom
    text        plain text, Markdown, JSON
    pdf         PDF, by pdfium
    office      Word, Excel, PowerPoint, OpenDocument
    epub        books
    zipped      ZIP files and the XML in them, within limits
    paragraphs  the text of a document while it is read, as lines and as Markdown
    sitemap     sitemaps: XML, indexes, text, feeds, gzipped or not
    document    the result: metadata, directives for crawlers, canonical links
    rights      statements about the use of pages
    language    the language of a text
    limits      changes pages that would take a parser too long

Everything here is pure, total (it reads any bytes without an exception) and bounded in time and
memory: a hostile page costs no more than a large one. Not so `documents.read_document`: it raises
Unreadable, and files of the types in HEAVY are read in processes of their own. Owns no keys.

Entry points: `reader.DocumentReader` for the spider, `documents.read_document`, `sitemap.read`.
Public: nothing.
"""
