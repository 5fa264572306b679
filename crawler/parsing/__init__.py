"""Bytes → document: what a page says of itself, its text, and where it points to.

    reader    decode what was fetched, and read it by its type: HTML, feeds, plain text
    html      an HTML page in one pass of lexbor
    feeds     RSS and Atom
    sitemap   sitemaps: XML, indexes, text, feeds, gzipped or not
    document  the result: metadata, directives for crawlers, canonical links
    limits    cuts pages that a parser would take too long for

Everything here is pure, total (any bytes are a page) and bounded in time and memory: a hostile page
costs no more than a large one. Owns no keys.

Entry points: `reader.DocumentReader` and `html.HtmlReader` for the spider, `sitemap.read`.
Public: nothing.
"""
