"""Formats of exports: their names, the columns with their types, and rows as bytes. No servers.

The bytes of a format are appended to a file, batch by batch, so that an export can go on after any
of them. Compressed text is a gzip member for each batch. Parquet has an index at its end and cannot
be appended to: its batches are kept in Arrow's stream format until `finish` makes the file.
"""

from __future__ import annotations

import csv
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from difflib import get_close_matches
from io import StringIO
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from crawler.errors import ConfigurationError, CrawlerError
from crawler.items import NOT_MODIFIED, Page
from crawler.storage.documents import MADE, READ_BY, as_json
from crawler.storage.reader import Document, StoredContent
from crawler.storage.warc.records import RecordMaker, capture_of
from crawler.util.extras import optional

if TYPE_CHECKING:
    import pyarrow as pa

Pages = Sequence[tuple[Document, StoredContent | None]]

_ENDINGS = {
    ".jsonl": "jsonl",
    ".jsonl.gz": "jsonl",
    ".csv": "csv",
    ".csv.gz": "csv",
    ".parquet": "parquet",
    ".warc.gz": "warc",
}
FORMATS = tuple(dict.fromkeys(_ENDINGS.values()))
STDOUT = "-"
# For files that are kept and sent. Done by zlib, so WARC needs no extra.
_GZIP_LEVEL = 6
# Bytes of a row group before compression: what a reader of Parquet needs in memory for a column.
_ROW_GROUP_BYTES = 64 * 1024 * 1024

# Type of each column, in the order of docs/pages.md.
COLUMNS = {
    **dict.fromkeys("crawl url url_hash host domain".split(), "text"),
    **dict.fromkeys("depth priority".split(), "integer"),
    **dict.fromkeys("parent parent_url".split(), "text"),
    "discovered_at": "time",
    "status": "integer",
    "reason": "text",
    "robots_allowed": "boolean",
    "error_count": "integer",
    "last_error": "text",
    "flags": "texts",
    "final_url": "text",
    "redirects": "texts",
    "redirect_statuses": "integers",
    "headers": "map",
    **dict.fromkeys("etag last_modified".split(), "text"),
    "fetch_ms": "integer",
    **dict.fromkeys("worker content_type media_type charset".split(), "text"),
    **dict.fromkeys("language text_language title description author".split(), "text"),
    **dict.fromkeys("published_at updated_at".split(), "time"),
    "headings": "texts",
    "canonical": "text",
    "feeds": "texts",
    "languages": "map",
    "rights": "json",
    "rendered": "boolean",
    "relevance": "number",
    "page_rank": "number",
    "extra": "json",
    **dict.fromkeys("size_bytes links_count".split(), "integer"),
    "links": "texts",
    **dict.fromkeys("content_hash simhash duplicate_of".split(), "text"),
    "duplicate_distance": "integer",
    "duplicate_similarity": "number",
    "compression_ratio": "number",
    "places": "json",
    **dict.fromkeys("first_seen crawled_at".split(), "time"),
    **dict.fromkeys("visits changes".split(), "integer"),
    "next_crawl": "time",
    "recrawl_interval_s": "number",
    "is_active": "boolean",
    "versions": "versions",
    "items": "json",
    **dict.fromkeys("text main_text markdown".split(), "text"),
    "body": "bytes",
}
# Columns that are not in the metadata.
_CONTENT = frozenset({"text", *MADE, "body"})


class Format:
    """Format of an export, whose methods block.

    `fields` are the fields of the metadata that it needs (None: all), `reads_content` says whether
    it needs text or body. `made` are the texts that are made of bodies where they are not stored.
    """

    def __init__(self, columns: Sequence[str] | None = None) -> None:
        """Without columns, a page has the fields that it is stored with."""
        self.columns = columns
        self.made: frozenset[str] = frozenset()
        self.fields: Sequence[str] | None = None
        self.reads_content = True
        if columns is not None:
            # Bodies that are text are decoded.
            more = ["charset"] if "body" in columns else []
            if not set(columns).isdisjoint(MADE):
                more += READ_BY
            known = (name for name in columns if name not in _CONTENT)
            self.fields = list(dict.fromkeys((*known, *more)))
            self.reads_content = not _CONTENT.isdisjoint(columns)

    def begin(self) -> bytes:
        """Return what comes before the first row."""
        return b""

    def rows(self, batch: Pages) -> tuple[bytes, int]:
        """Return the rows of pages, and their number."""
        raise NotImplementedError

    def finish(self, data: Path, result: Path) -> Path:
        """Return the complete file: `data`, which has all rows, or `result`, made of it."""
        return data


def format_of(
    output: str, given: str | None, *, columns: str | None, with_body: bool, bare: str | None
) -> Format:
    """Make the format of an export; ConfigurationError for options that do not fit.

    `output` is a path, a URL or "-", `given` the value of --format and `columns` of --columns.
    `bare` is the option that asks for pages without content.
    """
    name = format_name(output, given)
    if name == "warc":
        unfit = {
            "--columns": columns is not None,
            "--no-body": not with_body,
            bare: bare is not None,
        }
        for option, is_given in unfit.items():
            if is_given:
                raise ConfigurationError(
                    f"{option} is not for WARC, which has the whole response of each page with "
                    f"content; leave {option} out, or export as jsonl, csv or parquet."
                )
        return _Warc(Path(output).name)
    packs = output.lower().endswith(".gz")
    chosen = None if columns is None else _chosen(columns, with_body=with_body)
    if name == "jsonl" and chosen is None:
        return _JsonLines(None, with_body=with_body, packs=packs)
    form: Format
    all_columns = [each for each in COLUMNS if with_body or each != "body"]
    if name == "parquet":
        form = _Parquet(chosen or all_columns)
    else:
        kind = _JsonLines if name == "jsonl" else _Csv
        form = kind(chosen or all_columns, with_body=with_body, packs=packs)
    form.made = frozenset(MADE).intersection(chosen or ())
    return form


def format_name(output: str, given: str | None) -> str:
    """Return the format that the name of a file or --format says."""
    if output == STDOUT:
        if given == "parquet":
            raise ConfigurationError(
                "Parquet cannot be written to standard output: name a file by -o pages.parquet."
            )
        return given or "jsonl"
    endings = [ending for ending in _ENDINGS if output.lower().endswith(ending)]
    named = _ENDINGS[endings[0]] if endings else None
    if given is None and named is None:
        raise ConfigurationError(
            f"-o {output}: the name does not say the format; let it end in "
            f"{', '.join(_ENDINGS)}, or give --format."
        )
    if given is None or named is None:
        _check_packing(output, name := given or named or "")
        return name
    if given != named:
        raise ConfigurationError(
            f"-o {output} is a name for {named}, and --format is {given}; change one of them."
        )
    return given


def _check_packing(output: str, name: str) -> None:
    """Refuse names that say otherwise whether the file is compressed."""
    if name == "warc" and output.lower().endswith(".warc"):
        raise ConfigurationError(f"-o {output}: its records are compressed; use {output}.gz")
    if name == "parquet" and output.lower().endswith(".gz"):
        raise ConfigurationError(
            f"-o {output}: Parquet is compressed inside; use {output[:-3]} instead."
        )


def _chosen(text: str, *, with_body: bool) -> list[str]:
    """Read --columns."""
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in COLUMNS:
            near = get_close_matches(name, COLUMNS, n=3)
            meant = f"did you mean {' or '.join(near)}?" if near else f"use {', '.join(COLUMNS)}."
            raise ConfigurationError(f"--columns has {name!r}, which is no column; {meant}")
        if names.count(name) > 1:
            raise ConfigurationError(f"--columns has {name!r} twice; name it once.")
    if "body" in names and not with_body:
        raise ConfigurationError("--columns has body, and --no-body is given; leave one of them.")
    return names


class _Text(Format):
    """Format of lines of text, with bodies decoded."""

    def __init__(self, columns: Sequence[str] | None, *, with_body: bool, packs: bool) -> None:
        super().__init__(columns)
        self._with_body = with_body
        self._packs = packs

    def _packed(self, text: str) -> bytes:
        # A body that was decoded by its own charset may have halves of surrogate pairs.
        data = text.encode("utf-8", "replace")
        return zlib.compress(data, _GZIP_LEVEL, wbits=31) if self._packs and data else data

    def _row(self, page: Document, content: StoredContent | None) -> Document:
        row = {name: value for name, value in page.items() if name != "_id"}
        if content is not None:
            row["text"] = content.text
            row |= {name: text for name in MADE if (text := getattr(content, name))}
            if self._with_body:
                row["body"] = content.decoded(page.get("charset"))
        return row


class _JsonLines(_Text):
    """One JSON object for each page."""

    def rows(self, batch: Pages) -> tuple[bytes, int]:
        rows = [self._row(page, content) for page, content in batch]
        if self.columns is not None:
            rows = [{name: row.get(name) for name in self.columns} for row in rows]
        return self._packed("".join(f"{as_json(row)}\n" for row in rows)), len(rows)


class _Csv(_Text):
    """Comma-separated values, with lists and dicts as JSON."""

    def begin(self) -> bytes:
        return self._lines([self.columns or ()])

    def rows(self, batch: Pages) -> tuple[bytes, int]:
        rows = [self._row(page, content) for page, content in batch]
        names = self.columns or ()
        return self._lines([[_cell(row.get(name)) for name in names] for row in rows]), len(rows)

    def _lines(self, rows: Sequence[Sequence[Any]]) -> bytes:
        text = StringIO()
        csv.writer(text).writerows(rows)
        return self._packed(text.getvalue())


def _cell(value: Any) -> Any:
    if isinstance(value, bool | list | dict):
        return as_json(value)
    return value.isoformat() if isinstance(value, datetime) else value


class _Parquet(Format):
    """Parquet with typed columns, in row groups of bounded size, compressed with zstd."""

    def __init__(self, columns: Sequence[str]) -> None:
        super().__init__(columns)
        what = "scrapy pages export --format parquet"
        self._arrow = optional("pyarrow", extra="parquet", what=what)
        self._files = optional("pyarrow.parquet", extra="parquet", what=what)
        self._schema = _schema(self._arrow, columns)

    def rows(self, batch: Pages) -> tuple[bytes, int]:
        arrow = self._arrow
        arrays = [self._array(field, batch) for field in self._schema]
        buffer = arrow.BufferOutputStream()
        options = arrow.ipc.IpcWriteOptions(compression="lz4")
        with arrow.ipc.new_stream(buffer, self._schema, options=options) as stream:
            stream.write_batch(arrow.record_batch(arrays, schema=self._schema))
        return buffer.getvalue().to_pybytes(), len(batch)

    def finish(self, data: Path, result: Path) -> Path:
        with self._files.ParquetWriter(str(result), self._schema, compression="zstd") as writer:
            group: list[pa.RecordBatch] = []
            size_bytes = 0
            for batch in self._batches(data):
                group.append(batch)
                size_bytes += batch.nbytes
                if size_bytes >= _ROW_GROUP_BYTES:
                    self._write(writer, group)
                    group, size_bytes = [], 0
            if group:
                self._write(writer, group)
        return result

    def _batches(self, data: Path) -> Iterator[pa.RecordBatch]:
        with self._arrow.OSFile(str(data)) as file:
            size = file.size()
            # Each batch is a stream of its own.
            while file.tell() < size:
                with self._arrow.ipc.open_stream(file) as stream:
                    yield from stream

    def _write(self, writer: Any, group: Sequence[pa.RecordBatch]) -> None:
        table = self._arrow.Table.from_batches(group)
        writer.write_table(table, row_group_size=table.num_rows)

    def _array(self, field: pa.Field[Any], batch: Pages) -> pa.Array[Any]:
        name = field.name
        values = [_value(name, page, content) for page, content in batch]
        try:
            return self._arrow.array(values, field.type)
        except (self._arrow.ArrowException, TypeError, ValueError):
            pass
        # Find the page: there is one in millions, of another program or an early version.
        for value, (page, _) in zip(values, batch, strict=True):
            try:
                self._arrow.array([value], field.type)
            except (self._arrow.ArrowException, TypeError, ValueError) as error:
                raise CrawlerError(
                    f"The field {name} of {page.get('url', page['_id'])} is {str(value)[:100]!r}, "
                    f"and the column's type is {field.type}; choose others by --columns, or export "
                    "as jsonl."
                ) from error
        raise AssertionError(name)


def _value(name: str, page: Document, content: StoredContent | None) -> Any:
    """Return the value of a typed column."""
    if name in _CONTENT:
        found = getattr(content, name, None)
        # Texts that are not stored.
        return None if name in MADE and not found else found
    value = page.get(name)
    if value is None:
        return None
    kind = COLUMNS[name]
    if kind == "json":
        return as_json(value)
    return list(value.items()) if kind == "map" and isinstance(value, dict) else value


def _schema(arrow: Any, columns: Sequence[str]) -> pa.Schema:
    text, integer = arrow.string(), arrow.int64()
    # The precision of MongoDB.
    time = arrow.timestamp("ms", tz="UTC")
    types = {
        "text": text,
        "integer": integer,
        "number": arrow.float64(),
        "boolean": arrow.bool_(),
        "time": time,
        "texts": arrow.list_(text),
        "integers": arrow.list_(integer),
        "map": arrow.map_(text, text),
        "json": text,
        "versions": arrow.list_(arrow.struct({"at": time, "content_hash": text})),
        "bytes": arrow.binary(),
    }
    schema: pa.Schema = arrow.schema([(name, types[COLUMNS[name]]) for name in columns])
    return schema


class _Warc(Format):
    """WARC with a response record for each page, whose head is made of the stored headers."""

    def __init__(self, filename: str) -> None:
        super().__init__()
        self.fields = _OF_CAPTURE
        self._filename = filename
        self._maker = RecordMaker("gzip", _GZIP_LEVEL, what="scrapy pages export --format warc")

    def begin(self) -> bytes:
        about = {
            "software": "mercator-crawler",
            "format": "WARC File Format 1.1",
            "description": "Stored pages; the heads of the responses are made of stored headers",
        }
        return self._maker.info(self._filename, about, datetime.now(UTC))

    def rows(self, batch: Pages) -> tuple[bytes, int]:
        captures = [
            capture_of(_page(page, content)) for page, content in batch if content is not None
        ]
        records = [
            self._maker.records(capture, MappingProxyType({})).data
            for capture in captures
            if capture is not None
        ]
        return b"".join(records), len(records)


# Fields of a page that its record is made of, besides those that content is read by.
_OF_CAPTURE = "final_url status reason headers content_type flags discovered_at visits".split()
_PAGE = frozenset(field.name for field in fields(Page))


def _page(document: Document, content: StoredContent) -> Page:
    """Make a page of what is stored of it."""
    known = {"final_url": document["url"], **document, "body": content.body}
    # The content is that of an earlier visit, and the whole response.
    known["flags"] = [flag for flag in document.get("flags", ()) if flag != NOT_MODIFIED]
    return Page(**{name: value for name, value in known.items() if name in _PAGE})
