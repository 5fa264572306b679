"""Read the catalogue in PostgreSQL: the records of pages as documents, and bodies by their places.

Fields are those of docs/pages.md. Large results are read by cursors of the server, each by a
connection of its own, so that one batch of rows is in memory at a time.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from crawler.errors import ConfigurationError, CrawlerError, NotFound, ServerAway, SinkAway
from crawler.servers.postgres import Database, psycopg
from crawler.storage.bodies import NEEDED as OF_BODY
from crawler.storage.bodies import OtherVisit
from crawler.storage.documents import OPTIONAL
from crawler.storage.postgres.runs import PostgresRuns
from crawler.storage.postgres.schema import LONG_S
from crawler.storage.reader import (
    BATCH,
    BATCH_BARE,
    BATCH_BYTES,
    CHAIN_MAX,
    MOST,
    NEEDED,
    Batch,
    Document,
    Overview,
    StoredContent,
    Wanted,
    batch_of,
    has_changed,
)
from crawler.urls import DEFAULT, Urls, fingerprint, registered_domain
from crawler.util.tasks import in_parallel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crawler.servers.postgres import Connection
    from crawler.storage.bodies import Bodies

Row = tuple[Any, ...]

# Columns by the names of fields.
_COLUMNS = {
    **{name: f"u.{name}" for name in "crawl url url_hash host domain depth parent".split()},
    "priority": "u.crawl_priority",
    "discovered_at": "u.discovered_at",
    "status": "u.http_status",
    **{name: f"u.{name}" for name in "reason robots_allowed error_count last_error".split()},
    "content_type": "u.content_type",
    **{name: f"coalesce(d.{name}, '')" for name in "language title description".split()},
    "size_bytes": "coalesce(d.size_bytes, 0)",
    "content_hash": "u.content_hash",
    **{name: f"coalesce(d.{name}, '')" for name in "simhash duplicate_of".split()},
    "first_seen": "u.first_seen",
    "crawled_at": "u.last_crawled",
    **{name: f"u.{name}" for name in "visits changes next_crawl is_active".split()},
    "recrawl_interval_s": "u.crawl_frequency",
}
# Columns with JSON, by the fields in them. A field that is missing is empty.
_URL_JSON, _PAGE_JSON = "u.details::text", "d.details::text"
_IN_JSON: dict[str, dict[str, Any]] = {
    _URL_JSON: {
        "final_url": "",
        "flags": [],
        "redirects": [],
        "redirect_statuses": [],
        "fetch_ms": 0,
        "worker": "",
    },
    _PAGE_JSON: {
        "headers": {},
        "etag": "",
        "last_modified": "",
        "charset": "",
        "canonical": "",
        "feeds": [],
        "languages": {},
        "extra": {},
        "links_count": 0,
        "links": [],
        "duplicate_distance": None,
    },
}
_PARENT_URL = "coalesce(u.details->>'parent_url', p.url)"
# Fields that a document has only if the page has some, and the column of each.
_OPTIONAL = {name: f"d.details->'{name}'" for name in OPTIONAL} | {"places": "d.places"}
_TIMES = ("published_at", "updated_at")
_FIELDS = (
    *_COLUMNS,
    *(name for names in _IN_JSON.values() for name in names),
    *("page_rank", "parent_url", "versions", *_OPTIONAL),
    # Of MongoDB, which compresses bodies.
    "compression_ratio",
)
_TABLES = "crawled_urls u LEFT JOIN documents d ON d.crawl = u.crawl AND d.url_hash = u.url_hash"
_PARENTS = " LEFT JOIN crawled_urls p ON p.crawl = u.crawl AND p.url_hash = u.parent"
_KEPT = "u.http_status BETWEEN 200 AND 299 AND u.reason = '' AND d.duplicate_of = ''"
# Rows that are fetched together: one may have some MB.
_STEP = 50
_DELETED_AT_ONCE = 1000
# Contents that are read at a time.
_PARALLEL = 16
# Until a crawl that has written content has written the record, too.
_RECORD_S = 1.0
# Each name of a crawl by a step in the index, however many pages it has.
_CRAWLS = """
WITH RECURSIVE names(crawl) AS (
    (SELECT crawl FROM crawled_urls ORDER BY crawl LIMIT 1)
    UNION ALL
    SELECT (SELECT u.crawl FROM crawled_urls u WHERE u.crawl > names.crawl ORDER BY u.crawl LIMIT 1)
    FROM names WHERE names.crawl IS NOT NULL
)
SELECT crawl FROM names WHERE crawl IS NOT NULL
"""
# With partitions, if there are any.
_DISK_BYTES = """
SELECT sum(pg_total_relation_size(relid))::bigint FROM (
    SELECT unnest(ARRAY['crawled_urls'::regclass, 'documents'::regclass]) AS relid
    UNION SELECT relid FROM pg_partition_tree('crawled_urls')
    UNION SELECT relid FROM pg_partition_tree('documents')
) AS tables
"""
_DELETE = """
WITH found AS (
    SELECT u.crawl, u.url_hash FROM {tables}
    WHERE {where} ORDER BY u.crawl, u.url_hash LIMIT {most} FOR UPDATE OF u
), of_documents AS (
    DELETE FROM documents d USING found f WHERE d.crawl = f.crawl AND d.url_hash = f.url_hash
)
DELETE FROM crawled_urls u USING found f WHERE u.crawl = f.crawl AND u.url_hash = f.url_hash
RETURNING u.crawl, u.url_hash
"""
_RANK = """
UPDATE crawled_urls u SET page_rank = ranked.page_rank
FROM unnest(%s::text[], %s::float8[]) AS ranked (url_hash, page_rank)
WHERE u.crawl = %s AND u.url_hash = ranked.url_hash
RETURNING 1
"""


class PostgresReader:
    """Reader of the pages of one catalogue (storage/reader.py). `urls` are their URL rules."""

    name = "PostgreSQL"

    def __init__(self, database: Database, url: str, bodies: Bodies, urls: Urls = DEFAULT) -> None:
        """`database` answers short questions; for long ones the `url` is connected to again."""
        self.urls = urls
        self.runs = PostgresRuns(self._ask)
        self._database = database
        self._url = url
        self._bodies = bodies
        # Contents that could not be read.
        self._unread = 0

    async def crawls(self, url: str | None = None) -> list[str]:
        if url is None:
            rows = await self._ask(_CRAWLS)
        else:
            where, values = _of_url(url)
            query = f"SELECT u.crawl FROM crawled_urls u WHERE {where}"  # noqa: S608 - our own parts
            rows = await self._ask(query, values)
        return sorted(crawl for (crawl,) in rows)

    async def metadata(self, url: str, crawl: str | None = None) -> Document | None:
        where, values = _of_url(url)
        if crawl is not None:
            return await self._first(_BY_KEY, [_text(crawl), values[0]])
        return await self._first(where, values)

    async def content(self, page: Document) -> StoredContent | None:
        for _ in range(CHAIN_MAX):
            if not page["duplicate_of"]:
                if page["size_bytes"] and not page.get("places") and _is_kept(page):
                    raise NotFound(
                        f"The content of {page['url']} is not stored: no sink kept its body; add "
                        "warc:FOLDER or an object store to SINKS."
                    )
                return await self._newest_content(page)
            where, values = (
                "u.crawl = %s AND u.url_hash = %s",
                [page["crawl"], page["duplicate_of"]],
            )
            kept = await self._first(where, values)
            if kept is None or has_changed(page, kept):
                return None
            page = kept
        return None

    async def find(self, wanted: Wanted, limit: int = 0) -> AsyncIterator[Document]:
        chosen = _Chosen(None)
        where, values = _filter_of(wanted)
        most = f" LIMIT {limit:d}" if limit else ""
        order = f"{where} ORDER BY u.last_crawled DESC, u.crawl, u.url_hash{most}"
        async for rows in self._rows(chosen.query(order), values):
            for row in rows:
                yield chosen.document(row)

    async def count(self, wanted: Wanted) -> int:
        where, values = _filter_of(wanted)
        query = f"SELECT count(*) FROM {_TABLES} WHERE {where}"  # noqa: S608 - of our own parts
        async with self._scanning() as database:
            ((number,),) = await database.run(_asking(query, values))
        return int(number)

    async def with_content(
        self,
        wanted: Wanted,
        *,
        fields: Sequence[str] | None = None,
        contents: bool = True,
        by_time: bool = False,
    ) -> AsyncIterator[Batch]:
        needed = (*NEEDED, *OF_BODY) if contents else ()
        chosen = _Chosen(None if fields is None else (*needed, *fields))
        async for pages in self._batches(chosen, wanted, contents=contents, by_time=by_time):
            if not contents:
                yield Batch([(page, None) for page in pages])
                continue
            batch = batch_of(pages, await self._contents_of(pages, chosen, wanted), self._unread)
            self._unread += batch.unread
            yield batch

    async def overview(self, crawl: str | None = None) -> Overview:
        where, values = _filter_of(Wanted(crawl=crawl))
        sums = f"""SELECT count(*), count(*) FILTER (WHERE d.duplicate_of > ''),
            min(u.last_crawled), max(u.last_crawled), count(*) FILTER (WHERE {_KEPT}),
            coalesce(sum(d.size_bytes) FILTER (WHERE {_KEPT}), 0)::bigint
            FROM {_TABLES} WHERE {where}"""  # noqa: S608 - of our own parts
        columns = {
            "crawls": "crawl",
            "statuses": "http_status",
            "reasons": "reason",
            "domains": "domain",
        }
        most: dict[str, dict[Any, int]] = {}
        async with self._scanning() as database:
            ((urls, duplicates, first, last, pages, fetched),) = await database.run(
                _asking(sums, values)
            )
            ((disk,),) = await database.run(_asking(_DISK_BYTES))
            for name, column in columns.items():
                counted = f"""SELECT u.{column}, count(*) FROM crawled_urls u
                    WHERE {where} AND u.{column}::text > ''
                    GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT {MOST}"""  # noqa: S608 - of our own parts
                most[name] = dict(await database.run(_asking(counted, values)))
        return Overview(
            urls=urls,
            pages=pages,
            duplicates=duplicates,
            fetched_bytes=fetched,
            disk_bytes=disk,
            first_crawled=first,
            last_crawled=last,
            **most,
        )

    async def set_page_ranks(self, crawl: str, ranks: Mapping[str, float]) -> None:
        # In one order, so that two programs that do this do not wait for each other.
        ordered = sorted(ranks)
        values = [ordered, [ranks[url_hash] for url_hash in ordered], crawl]
        with _explained(self._database):
            while True:
                try:
                    await self._database.run(_asking(_RANK, values))
                except psycopg().errors.DeadlockDetected:
                    # A crawl writes the same rows in another order.
                    continue
                return

    async def delete(self, wanted: Wanted) -> AsyncIterator[int]:
        """Delete records; archives and object stores keep the bodies."""
        after: Row | None = None
        async with self._scanning() as database:
            while True:
                where, values = _filter_of(wanted)
                if after is not None:
                    where, values = f"{where} AND {_AFTER}", [*values, *after]
                query = _DELETE.format(tables=_TABLES, where=where, most=_DELETED_AT_ONCE)
                try:
                    gone = await database.run(_asking(query, values))
                except psycopg().errors.DeadlockDetected:
                    # A program of the users changes the same rows in another order.
                    continue
                if not gone:
                    return
                after = max(gone)
                yield len(gone)

    # --- rows -------------------------------------------------------------------------------------

    async def _ask(self, query: str, values: Sequence[Any] = ()) -> list[Row]:
        """Ask a short question."""
        with _explained(self._database):
            return await self._database.run(_asking(query, values))

    async def _first(self, where: str, values: Sequence[Any]) -> Document | None:
        """Read the newest record."""
        chosen = _Chosen(None)
        order = f"{where} ORDER BY u.last_crawled DESC LIMIT 1"
        rows = await self._ask(chosen.query(order), values)
        return chosen.document(rows[0]) if rows else None

    @asynccontextmanager
    async def _scanning(self) -> AsyncIterator[Database]:
        """Connect for questions that may have to read all rows."""
        database = Database(self._url, LONG_S)
        try:
            with _explained(database):
                yield database
        finally:
            await database.close()

    async def _rows(self, query: str, values: Sequence[Any]) -> AsyncIterator[list[Row]]:
        """Yield the rows of a query, some at a time, by a cursor of the server."""
        async with self._scanning() as database:

            async def begin(connection: Connection) -> Connection:
                await connection.execute("BEGIN READ ONLY")
                await connection.execute(f"DECLARE pages NO SCROLL CURSOR FOR {query}", values)
                return connection

            async def fetch(connection: Connection) -> list[Row]:
                if connection is not begun:
                    raise ServerAway(f"The connection to {database.where} was lost.")
                return await (await connection.execute(f"FETCH {_STEP} FROM pages")).fetchall()

            begun = await database.run(begin)
            while rows := await database.run(fetch):
                yield rows

    async def _batches(
        self, chosen: _Chosen, wanted: Wanted, *, contents: bool, by_time: bool
    ) -> AsyncIterator[list[Document]]:
        """Yield records in lists that end early at BATCH_BYTES; with contents, bodies count."""
        where, values = _filter_of(wanted)
        order = "u.last_crawled" if by_time else "u.crawl, u.url_hash"
        most = BATCH if contents else BATCH_BARE
        batch: list[Document] = []
        found_bytes = 0
        async for rows in self._rows(chosen.query(f"{where} ORDER BY {order}"), values):
            for row in rows:
                page = chosen.document(row)
                page["_id"] = [*row[:2]]
                batch.append(page)
                found_bytes += sum(len(each) for each in row if isinstance(each, str))
                if contents:
                    found_bytes += page["size_bytes"]
                if len(batch) >= most or found_bytes >= BATCH_BYTES:
                    yield batch
                    batch, found_bytes = [], 0
        if batch:
            yield batch

    # --- content ----------------------------------------------------------------------------------

    async def _contents_of(
        self, pages: list[Document], chosen: _Chosen, wanted: Wanted
    ) -> list[StoredContent | CrawlerError | None]:
        """Read the own content of pages, or why it cannot be read.

        The record of a page that was crawled again since it was read is replaced in `pages`.
        """
        results = await in_parallel(_PARALLEL, self._own_content, pages)
        for wait_s in (0.0, _RECORD_S):
            again = [at for at, each in enumerate(results) if isinstance(each, OtherVisit)]
            if not again:
                break
            await asyncio.sleep(wait_s)
            where, values = _filter_of(wanted)
            ids = "(u.crawl, u.url_hash) IN (SELECT * FROM unnest(%s::text[], %s::text[]))"
            keys = [[pages[at]["_id"][n] for at in again] for n in (0, 1)]
            rows = await self._ask(chosen.query(f"{where} AND {ids}"), [*values, *keys])
            found = {row[:2]: row for row in rows}
            for at in again:
                key = pages[at]["_id"]
                if tuple(key) in found:
                    pages[at] = {**chosen.document(found[tuple(key)]), "_id": key}
                    results[at] = await self._own_content(pages[at])
        return results

    async def _own_content(self, page: Document) -> StoredContent | CrawlerError | None:
        if page["duplicate_of"]:
            return None
        try:
            return await self._bodies.read(page)
        except (ConfigurationError, SinkAway):
            raise
        except CrawlerError as error:
            # One damaged or lost body must not end the export of all others.
            return error

    async def _newest_content(self, page: Document) -> StoredContent | None:
        """Read the content of a page, or of what a crawl has stored since in its place."""
        try:
            return await self._bodies.read(page)
        except OtherVisit:
            again = await self.metadata(page["url"], page["crawl"])
            if again is None:
                raise
            return await self._bodies.read(again)


class _Chosen:
    """Choice of fields, as columns of a query and as documents of its rows.

    The first two columns are the crawl and the hash.
    """

    def __init__(self, fields: Iterable[str] | None) -> None:
        """None means all."""
        self._fields = frozenset(_FIELDS if fields is None else fields)
        self._plain = {name: at for name, at in _COLUMNS.items() if name in self._fields}
        self._json = {
            column: {name: empty for name, empty in names.items() if name in self._fields}
            for column, names in _IN_JSON.items()
        }
        self._json = {column: names for column, names in self._json.items() if names}
        texts = {name: f"({column})::text" for name, column in _OPTIONAL.items()}
        own = {"page_rank": "u.page_rank", "parent_url": _PARENT_URL}
        more = {**own, "versions": "d.versions::text", **texts}
        self._more = {name: at for name, at in more.items() if name in self._fields}
        # The written URL is left out where it is the canonical one.
        columns = ["u.crawl", "u.url_hash", "u.url", *self._plain.values(), *self._json]
        self._columns = [*columns, *self._more.values()]

    def query(self, rest: str) -> str:
        """Make a query; `rest` follows its WHERE."""
        tables = _TABLES + (_PARENTS if "parent_url" in self._fields else "")
        columns = ", ".join(self._columns)
        return f"SELECT {columns} FROM {tables} WHERE {rest}"  # noqa: S608 - of our own parts

    def document(self, row: Row) -> Document:
        values = iter(row[3:])
        page: Document = {name: next(values) for name in self._plain}
        for names in self._json.values():
            found = json.loads(next(values) or "{}")
            for name, empty in names.items():
                # Lists and dicts of their own: callers may change a document.
                page[name] = found[name] if name in found else _copied(empty)
        for name in self._more:
            value = next(values)
            if name == "parent_url":
                page[name] = value
            elif name == "page_rank":
                # A field that pages without a rank do not have.
                page.update({} if value is None else {name: value})
            elif name == "versions":
                page[name] = [
                    {**each, "at": datetime.fromisoformat(each["at"])}
                    for each in json.loads(value or "[]")
                ]
            elif value not in (None, "{}", "[]"):
                read = json.loads(value)
                page[name] = datetime.fromisoformat(read) if name in _TIMES else read
        if "final_url" in self._fields:
            page["final_url"] = page["final_url"] or row[2]
        if "compression_ratio" in self._fields:
            page["compression_ratio"] = None
        return page


def _copied(value: Any) -> Any:
    return value.copy() if isinstance(value, list | dict) else value


def _asking(query: str, values: Sequence[Any] = ()) -> Any:
    """Make the work that asks a question and reads all rows of the answer."""

    async def ask(connection: Connection) -> list[Row]:
        return await (await connection.execute(query, values or None)).fetchall()

    return ask


@contextmanager
def _explained(database: Database) -> Iterator[None]:
    """Translate errors of the server and its client."""
    try:
        yield
    except (psycopg().Error, TimeoutError, OSError) as error:
        raise database.start_error(error) from error


_BY_KEY = "u.crawl = %s AND u.url_hash = %s"
_AFTER = "(u.crawl, u.url_hash) > (%s, %s)"


def _filter_of(wanted: Wanted) -> tuple[str, list[Any]]:
    """Express a choice of pages as a condition and its values."""
    parts: list[str] = [_KEPT] if wanted.kept else []
    values: list[Any] = []

    def add(part: str, *its: Any) -> None:
        parts.append(part)
        values.extend(_text(each) if isinstance(each, str) else each for each in its)

    if wanted.crawl is not None:
        add("u.crawl = %s", wanted.crawl)
    if wanted.domain is not None:
        is_domain = registered_domain(wanted.domain) == wanted.domain
        add("u.domain = %s" if is_domain else "u.host = %s", wanted.domain)
    if wanted.since is not None:
        add("u.last_crawled >= %s", wanted.since)
    if wanted.before is not None:
        add("u.last_crawled < %s", wanted.before)
    if wanted.statuses is not None:
        add("u.http_status BETWEEN %s AND %s", *wanted.statuses)
    if wanted.reason is not None:
        add("u.reason = %s", wanted.reason)
    if wanted.rendered:
        add("d.details->'rendered' = 'true'")
    if wanted.after is not None:
        add(_AFTER, *wanted.after)
    return " AND ".join(parts) or "true", values


def _of_url(url: str) -> tuple[str, list[Any]]:
    """Make the condition for a canonical URL in any crawl."""
    return "u.url_hash = %s AND u.url = %s", [f"{fingerprint(url):016x}", _text(url)]


def _text(value: str) -> str:
    """Replace what no text of PostgreSQL has, so that nothing is found by it."""
    return value.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def _is_kept(page: Document) -> bool:
    return 200 <= page["status"] < 300 and not page["reason"]
