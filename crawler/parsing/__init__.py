"""Parsing: from the bytes of a response to a document with metadata, text and links.

    reader    reads a body by its type
    html      HTML in one pass: metadata, links, text
    encoding  the encoding of a body, and its text
    feeds     RSS and Atom
    sitemap   sitemaps: XML, indexes, text, feeds, gzipped or not
    document  the result: metadata, directives for crawlers, canonical links
    rights    statements about the use of pages
    language  the language of a text
    limits    changes pages that would take a parser too long

Everything here is pure, total (it reads any bytes without an exception) and bounded in time and
memory: a hostile page costs no more than a large one. Owns no keys.

Entry points: `reader.DocumentReader` for the spider, `sitemap.read`.
Public: nothing.
"""
