"""Write pages to PostgreSQL: a batch goes into a temporary table by COPY, and from there on.

Each batch is one transaction. `crawled_urls` gets every visit, `documents` those that gave a page.
Rows that are newer stay as they are, so every write may be repeated or come late.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from datetime import datetime
from time import perf_counter
from typing import TYPE_CHECKING, Any, Self

from crawler import config
from crawler.errors import ConfigurationError, CrawlerError
from crawler.items import Page
from crawler.servers.postgres import Database, may_pass
from crawler.storage.documents import as_json, optional_fields
from crawler.storage.postgres import schema
from crawler.storage.runs import LOST, RUNNING, Run
from crawler.storage.sink import Sink, SinkContext, SinkReport
from crawler.storage.sinks import POSTGRESQL, targets
from crawler.urls import host_of, registered_domain
from crawler.util.format import size

if TYPE_CHECKING:
    from crawler.servers.health import ServerHealth
    from crawler.servers.postgres import Connection

VERSIONS_KEPT = 20
LINKS_KEPT = 1000
# Flag of a page whose items take more than a row should have.
ITEMS_TOO_BIG = "items_too_big"
# PostgreSQL takes up to 1 GB, and 256 MB of JSON; MongoDB's limit is 16 MB.
_ROW_MAX_BYTES = 16 * 1024 * 1024
_VERSION_MIN = 12
# Longer than any host that exists; an index takes 2,700 bytes at most.
_HOST_CHARS = 255
# After the deadline of our own, which is exact.
_LATER_S = 2.0

# Fields of a page in `details` of each table, if they are not empty.
URL_DETAILS = (
    *("final_url", "redirects", "redirect_statuses", "flags", "worker", "fetch_ms", "parent_url"),
)
DOCUMENT_DETAILS = (
    *("charset", "canonical", "feeds", "languages", "headers", "etag", "last_modified", "extra"),
)


class PostgresSink(Sink):
    """Sink that keeps the records of pages in the tables `crawled_urls` and `documents`."""

    store_name = "PostgreSQL"

    def __init__(self, url: str, *, timeout_s: float, health: ServerHealth | None = None) -> None:
        super().__init__(url)
        self._database = Database(url, timeout_s)
        self._health = health
        # The connection that has the table of a batch.
        self._prepared: Connection | None = None

    @classmethod
    def from_context(cls, context: SinkContext) -> Self:
        if "://" not in context.target:
            raise ConfigurationError(
                "SINKS has postgresql without an address; use "
                "postgresql://user:…@host:5432/database."
            )
        # URLs without room in Redis are kept by the first one (spill.py): they share its health.
        is_first = context.target == targets(context.settings, POSTGRESQL)[0]
        return cls(
            context.target,
            timeout_s=config.value(context.settings, "POSTGRES_TIMEOUT"),
            health=context.servers.postgres_health if is_first else None,
        )

    async def open(self) -> None:
        try:
            await schema.prepare(self._database)
        except CrawlerError:
            raise
        except Exception as error:
            raise self._database.start_error(error) from error

    async def close(self) -> None:
        await self._database.close()

    @property
    def store_place(self) -> str:
        return f"the catalogue in {self._database.where}"

    async def identity(self) -> str:
        return await self._database.run(schema.identity)

    async def has_pages(self, crawl: str) -> bool:
        async def look(connection: Connection) -> bool:
            rows = await connection.execute(
                "SELECT 1 FROM crawled_urls WHERE crawl = %s LIMIT 1", [crawl]
            )
            return await rows.fetchone() is not None

        return await self._database.run(look)

    def prepare(self, page: Page) -> Row:
        return row_of(page)

    async def write(self, batch: Sequence[Row]) -> None:
        await self._database.run(lambda connection: self._write(connection, batch))

    async def _write(self, connection: Connection, batch: Sequence[Row]) -> None:
        if self._prepared is not connection:
            # Not in the transaction: it is of the session, and stays.
            await connection.execute(_CREATE_BATCH)
            self._prepared = connection
        await _write(connection, batch)

    def is_away(self, error: Exception) -> bool:
        return may_pass(error)

    def health(self) -> ServerHealth | None:
        return self._health

    @property
    def timeout_s(self) -> float:
        return self._database.timeout_s + _LATER_S

    async def record_run(self, run: Run) -> None:
        await self._database.run(lambda connection: _record(connection, run))

    async def check(self) -> SinkReport:
        database = self._database
        try:
            await schema.prepare(database)
            started_s = perf_counter()
            version, number, synced, full, used = await database.run(_describe)
            spent_ms = (perf_counter() - started_s) * 1000
        except CrawlerError:
            raise
        except Exception as error:
            raise database.start_error(error) from error
        finally:
            await database.close()
        text = (
            f"PostgreSQL {version} at {database.where}, {size(used)}, {spent_ms:.1f} ms per round "
            "trip"
        )
        if number // 10_000 < _VERSION_MIN:
            raise ConfigurationError(f"{text}. Update it to {_VERSION_MIN} or later.")
        warnings = {}
        if not synced:
            warnings["its fsync is off"] = (
                "Set it to on: a power cut loses pages, and the database."
            )
        if not full:
            warnings["its full_page_writes are off"] = "Set it to on, unless its disk is safe."
        return SinkReport(text, warnings)


async def _describe(connection: Connection) -> tuple[Any, ...]:
    rows = await connection.execute(
        """SELECT current_setting('server_version'), current_setting('server_version_num')::int,
        current_setting('fsync')::bool, current_setting('full_page_writes')::bool,
        pg_database_size(current_database())"""
    )
    (found,) = await rows.fetchall()
    return found


# --- rows -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Row:
    """One page, as COPY takes it."""

    # Crawl and url_hash.
    key: tuple[str, str]
    crawled_at: datetime
    line: bytes

    @property
    def size_bytes(self) -> int:
        return len(self.line)


def row_of(page: Page) -> Row:
    """Make the row of a page; CrawlerError if it is too big."""
    line = _line(page)
    if len(line) > _ROW_MAX_BYTES and page.items:
        # The pipelines of their spider have them. A copy: other sinks have the page, too.
        page = copy(page)
        page.items, page.flags = (), [*page.flags, ITEMS_TOO_BIG]
        line = _line(page)
    if len(line) > _ROW_MAX_BYTES:
        raise CrawlerError(
            f"What is known of {page.url} takes {len(line):,} bytes without its body, and its row "
            "may have 16 MB: put less into its extra fields."
        )
    return Row((page.crawl, page.url_hash), page.crawled_at, line)


def _line(page: Page) -> bytes:
    host = host_of(page.url)[:_HOST_CHARS]
    at = page.crawled_at.isoformat()
    fields: list[Any] = [
        *(page.crawl, page.url_hash, page.url, host, registered_domain(host), page.depth),
        *(page.parent, page.discovered_at, at, page.next_crawl, page.recrawl_interval_s),
        *(page.priority, page.visits, page.changes, page.status, page.reason, page.error_count),
        *(page.last_error, page.is_active, page.robots_allowed, page.content_type),
        *(page.content_hash, _json(_url_details(page))),
    ]
    if page.is_success:
        versions = [{"at": at, "content_hash": page.content_hash}] if page.content_hash else []
        fields += [
            *(page.title, page.description, page.language, page.simhash, page.size_bytes),
            *(page.duplicate_of, _json({name: dict(place) for name, place in page.places.items()})),
            *(_json(versions), _json(_document_details(page))),
        ]
    else:
        fields += [None] * _PAGE_COLUMNS
    # Lone surrogates are no UTF-8.
    return ("\t".join(map(_field, fields)) + "\n").encode("utf-8", "replace")


def _url_details(page: Page) -> dict[str, Any]:
    found = {name: value for name in URL_DETAILS if (value := getattr(page, name))}
    if page.final_url == page.url:
        del found["final_url"]
    return found


def _document_details(page: Page) -> dict[str, Any]:
    found: dict[str, Any] = {
        name: value for name in DOCUMENT_DETAILS if (value := getattr(page, name))
    }
    found |= optional_fields(page)
    # They have a column.
    found.pop("places", None)
    if page.duplicate_distance is not None:
        found["duplicate_distance"] = page.duplicate_distance
    if page.links:
        found["links"], found["links_count"] = page.links[:LINKS_KEPT], len(page.links)
    return found


def _json(value: Any) -> str:
    if not value:
        return "[]" if isinstance(value, list) else "{}"
    text = as_json(value)
    # A character that no text of PostgreSQL has.
    return as_json(_without_nul(value)) if "\\u0000" in text else text


def _without_nul(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\0", "")
    if isinstance(value, dict):
        return {_without_nul(str(key)): _without_nul(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nul(part) for part in value]
    return value


def _field(value: Any) -> str:
    """Write a value as COPY reads it."""
    match value:
        case str():
            text = value.replace("\\", "\\\\").replace("\0", "").replace("\t", "\\t")
            return text.replace("\n", "\\n").replace("\r", "\\r")
        case None:
            return "\\N"
        case bool():
            return "t" if value else "f"
        case datetime():
            return value.isoformat()
    return str(value)


# --- statements -----------------------------------------------------------------------------------

# Of the session: made once for a connection, empty after each transaction. In the order of `_line`.
_CREATE_BATCH = """
CREATE TEMPORARY TABLE IF NOT EXISTS crawl_batch ON COMMIT DELETE ROWS AS
SELECT u.crawl, u.url_hash, u.url, u.host, u.domain, u.depth, u.parent, u.discovered_at,
    u.last_crawled, u.next_crawl, u.crawl_frequency, u.crawl_priority, u.visits, u.changes,
    u.http_status, u.reason, u.error_count, u.last_error, u.is_active, u.robots_allowed,
    u.content_type, u.content_hash, u.details,
    d.title, d.description, d.language, d.simhash, d.size_bytes, d.duplicate_of, d.places,
    d.versions, d.details AS document_details
FROM crawled_urls u, documents d
WITH NO DATA;
-- Its rows live for milliseconds: they are neither compressed nor moved to another table.
ALTER TABLE pg_temp.crawl_batch
    ALTER document_details SET STORAGE EXTERNAL, SET (toast_tuple_target = 8160)
"""
# Columns of `documents` among them.
_PAGE_COLUMNS = 9
_COPY_BATCH = "COPY pg_temp.crawl_batch FROM STDIN"
# A visit that gave no page leaves the fields of the page as they were, and one that found it
# unchanged also restores its status: a failure since then is over.
_WRITE_URLS = """
INSERT INTO crawled_urls AS known (crawl, url_hash, url, host, domain, depth, parent, discovered_at,
    first_seen, last_crawled, next_crawl, crawl_frequency, crawl_priority, visits, changes,
    http_status, reason, error_count, last_error, is_active, robots_allowed, content_type,
    content_hash, details)
SELECT crawl, url_hash, url, host, domain, depth, parent, discovered_at,
    last_crawled, last_crawled, next_crawl, crawl_frequency, crawl_priority, visits, changes,
    http_status, reason, error_count, last_error, is_active, robots_allowed, content_type,
    content_hash, details
FROM pg_temp.crawl_batch
ORDER BY crawl, url_hash
ON CONFLICT (crawl, url_hash) DO UPDATE SET
    url = excluded.url, host = excluded.host, domain = excluded.domain, depth = excluded.depth,
    parent = CASE WHEN excluded.parent = '' THEN known.parent ELSE excluded.parent END,
    discovered_at = coalesce(known.discovered_at, excluded.discovered_at),
    first_seen = least(known.first_seen, excluded.first_seen),
    last_crawled = excluded.last_crawled, next_crawl = excluded.next_crawl,
    crawl_frequency = excluded.crawl_frequency, crawl_priority = excluded.crawl_priority,
    visits = excluded.visits, changes = excluded.changes,
    http_status = CASE
        WHEN NOT excluded.details->'flags' @> '"not_modified"' IS TRUE THEN excluded.http_status
        WHEN known.http_status BETWEEN 200 AND 299 THEN known.http_status
        WHEN known.content_hash > '' THEN 200
        ELSE excluded.http_status END,
    reason = CASE
        WHEN NOT excluded.details->'flags' @> '"not_modified"' IS TRUE THEN excluded.reason
        WHEN known.http_status BETWEEN 200 AND 299 THEN known.reason
        WHEN known.content_hash > '' THEN ''
        ELSE excluded.reason END,
    error_count = excluded.error_count, last_error = excluded.last_error,
    is_active = excluded.is_active, robots_allowed = excluded.robots_allowed,
    content_type = CASE WHEN excluded.http_status BETWEEN 200 AND 299
        THEN excluded.content_type ELSE known.content_type END,
    content_hash = CASE WHEN excluded.http_status BETWEEN 200 AND 299
        THEN excluded.content_hash ELSE known.content_hash END,
    details = jsonb_strip_nulls(jsonb_build_object('parent_url', known.details->'parent_url'))
        || CASE WHEN NOT excluded.details->'flags' @> '"not_modified"' IS TRUE THEN excluded.details
        ELSE excluded.details - 'final_url' - 'redirects' - 'redirect_statuses'
            || jsonb_strip_nulls(jsonb_build_object('final_url', known.details->'final_url',
                'redirects', known.details->'redirects',
                'redirect_statuses', known.details->'redirect_statuses')) END
WHERE known.last_crawled <= excluded.last_crawled
"""
_WRITE_DOCUMENTS = """
INSERT INTO documents AS known (crawl, url_hash, crawled_at, title, description, language,
    content_hash, simhash, size_bytes, duplicate_of, places, versions, details)
SELECT crawl, url_hash, last_crawled, title, description, language,
    content_hash, simhash, size_bytes, duplicate_of, places, versions, document_details
FROM pg_temp.crawl_batch
WHERE title IS NOT NULL
ORDER BY crawl, url_hash
ON CONFLICT (crawl, url_hash) DO UPDATE SET
    crawled_at = excluded.crawled_at, title = excluded.title, description = excluded.description,
    language = excluded.language, content_hash = excluded.content_hash, simhash = excluded.simhash,
    size_bytes = excluded.size_bytes, duplicate_of = excluded.duplicate_of,
    places = excluded.places, details = excluded.details,
    versions = CASE
        WHEN known.versions->-1->>'content_hash' = excluded.content_hash THEN known.versions
        WHEN jsonb_array_length(known.versions || excluded.versions) > %(kept)s
            THEN (known.versions || excluded.versions) - 0
        ELSE known.versions || excluded.versions END
WHERE known.crawled_at <= excluded.crawled_at
"""
# For the rows of a batch that came after newer ones.
_WRITE_LATE = """
UPDATE crawled_urls AS known SET
    first_seen = least(known.first_seen, late.last_crawled),
    content_hash = coalesce(page.content_hash, known.content_hash),
    content_type = CASE WHEN page.crawled_at = late.last_crawled
        THEN late.content_type ELSE known.content_type END
FROM pg_temp.crawl_batch AS late
LEFT JOIN documents AS page ON page.crawl = late.crawl AND page.url_hash = late.url_hash
WHERE known.crawl = late.crawl AND known.url_hash = late.url_hash
    AND known.last_crawled > late.last_crawled
"""
_EMPTY_BATCH = "TRUNCATE pg_temp.crawl_batch"


async def _write(connection: Connection, batch: Sequence[Row]) -> None:
    async with connection.transaction():
        for number, rows in enumerate(_rounds(batch)):
            if number:
                await connection.execute(_EMPTY_BATCH)
            async with connection.cursor() as cursor:
                async with cursor.copy(_COPY_BATCH) as copying:
                    await copying.write(b"".join(row.line for row in rows))
                # In this order: whoever deletes pages locks the rows of their URLs first, too.
                await cursor.execute(_WRITE_URLS)
                written = cursor.rowcount
                await cursor.execute(_WRITE_DOCUMENTS, {"kept": VERSIONS_KEPT})
                if written < len(rows):
                    await cursor.execute(_WRITE_LATE)


def _rounds(batch: Sequence[Row]) -> list[list[Row]]:
    """Divide a batch so that a URL is in each part once, its visits in their order.

    The rows of a part are in the order of their keys: processes that write the same rows wait for
    each other, but never in a circle.
    """
    rounds: list[dict[tuple[str, str], Row]] = []
    for row in sorted(batch, key=lambda row: row.crawled_at):
        free = next((each for each in rounds if row.key not in each), None)
        if free is None:
            rounds.append(free := {})
        free[row.key] = row
    return [sorted(each.values(), key=lambda row: row.key) for each in rounds]


_RUN_COLUMNS = (
    *("id", "name", "spider", "machine", "pid", "user_name", "worker", "command", "started"),
    *("seen", "ended", "state", "reason", "options", "pages", "errors", "exit_code"),
)
_WRITE_RUN = f"""
INSERT INTO crawl_jobs AS known ({", ".join(_RUN_COLUMNS)})
VALUES ({", ".join(["%s"] * len(_RUN_COLUMNS))})
ON CONFLICT (id) DO UPDATE SET
    {", ".join(f"{name} = excluded.{name}" for name in _RUN_COLUMNS)}
WHERE known.seen <= excluded.seen
"""  # noqa: S608 - names of columns
_LOSE_RUNS = """
UPDATE crawl_jobs SET state = %s, ended = seen WHERE name = %s AND state = %s AND seen < %s
"""
_FORGET_RUNS = "DELETE FROM crawl_jobs WHERE name = %s AND seen < %s"


async def _record(connection: Connection, run: Run) -> None:
    values = (
        *(run.id, run.crawl, run.spider, run.machine, run.pid, run.user, run.worker, run.command),
        *(run.started, run.seen, run.ended, run.state, run.reason, _json(run.options)),
        *(run.pages, run.errors, run.exit_code),
    )
    async with connection.transaction():
        await connection.execute(_WRITE_RUN, [_storable(value) for value in values])
        await connection.execute(_LOSE_RUNS, [LOST, run.crawl, RUNNING, run.lost_before])
        await connection.execute(_FORGET_RUNS, [run.crawl, run.forgotten_before])


def _storable(value: Any) -> Any:
    """Remove what no text of PostgreSQL has: NUL, and lone surrogates."""
    if not isinstance(value, str):
        return value
    return value.replace("\0", "").encode("utf-8", "replace").decode()
