"""Exports of stored pages: `scrapy pages export`.

    formats  formats and their names, columns and their types, rows as bytes
    run      an export that goes on where it was interrupted; files and object stores

Folders: `<PATH>.part/` beside the file, and CRAWL_DIR/export/<hash of the URL>/ for an object; both
are deleted at the end. Parquet needs the extra `parquet`, object stores `s3`.

Entry points: `formats.format_of`, `run.Export`. Public: nothing.
"""
