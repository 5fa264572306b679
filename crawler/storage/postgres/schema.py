"""Versions of the catalogue's tables, and their migration.

`migrations/` has a file for each version, by its number. Each is run once, in a transaction with
the row of `catalogue_schema` that names it. Processes that start at once wait for each other.
"""

from __future__ import annotations

import logging
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from crawler.errors import ConfigurationError
from crawler.servers.postgres import psycopg

if TYPE_CHECKING:
    from crawler.servers.postgres import Connection, Database

logger = logging.getLogger(__name__)

# Seconds that a migration, or the wait for that of another process, may take.
LONG_S = 3600.0
# Of all advisory locks of a database: any number that no other program has.
_LOCK = 7_305_184_113_209


@cache
def migrations() -> dict[int, str]:
    """Read the statements of each version, in order."""
    folder = files(__package__).joinpath("migrations")
    found = {
        int(each.name.partition("_")[0]): each.read_text(encoding="utf-8")
        for each in folder.iterdir()
        if each.name.endswith(".sql")
    }
    return dict(sorted(found.items()))


def version() -> int:
    """Return the version that this program reads and writes."""
    return max(migrations())


async def prepare(database: Database) -> None:
    """Make the tables, or migrate those of an earlier version.

    Raises ConfigurationError for tables of a newer version, and if the user may not make them.
    Nothing is made if all is there, so the user needs no right to it then.
    """
    if await database.run(_read) < version():
        await database.run(lambda connection: _migrate(connection, database), limit_s=LONG_S)


async def check(database: Database) -> None:
    """Raise ConfigurationError unless the tables have this program's version; for readers."""
    found = await database.run(_read)
    if found < version():
        raise ConfigurationError(
            f"{database.where} has no catalogue of version {version()} (it has {found or 'none'}): "
            "start a crawl with it in SINKS, which makes it."
        )


async def identity(connection: Connection) -> str:
    """Return when the tables were made, by which new ones are known; empty if some are missing."""
    names = ("catalogue_schema", "crawled_urls", "documents")
    for name in names:
        found = await (await connection.execute("SELECT to_regclass(%s)", [name])).fetchone()
        if found is None or found[0] is None:
            return ""
    rows = await connection.execute(
        "SELECT extract(epoch FROM min(applied_at))::text FROM catalogue_schema"
    )
    ((made,),) = await rows.fetchall()
    return made or ""


async def _read(connection: Connection) -> int:
    """Read the version; 0 without tables, ConfigurationError for a newer one."""
    found = await (await connection.execute("SELECT to_regclass('catalogue_schema')")).fetchone()
    if found is None or found[0] is None:
        return 0
    rows = await connection.execute("SELECT coalesce(max(version), 0) FROM catalogue_schema")
    ((stored,),) = await rows.fetchall()
    if stored > version():
        raise ConfigurationError(
            f"The catalogue in PostgreSQL has version {stored}, and this program knows version "
            f"{version()}: use the program that wrote it, or another schema (?schema=NAME)."
        )
    return int(stored)


async def _migrate(connection: Connection, database: Database) -> None:
    package = psycopg()
    try:
        async with connection.transaction():
            # For this transaction only.
            limit_ms = str(round(LONG_S * 1000))
            for name in ("statement_timeout", "lock_timeout"):
                await connection.execute("SELECT set_config(%s, %s, true)", [name, limit_ms])
            await connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
            await _make_schema(connection, database.schema)
            await connection.execute(
                "CREATE TABLE IF NOT EXISTS catalogue_schema (version integer PRIMARY KEY, "
                "applied_at timestamptz NOT NULL DEFAULT now())"
            )
            stored = await _read(connection)
            for number, statements in migrations().items():
                if number > stored:
                    await connection.execute(statements)
                    await connection.execute(
                        "INSERT INTO catalogue_schema (version) VALUES (%s)", [number]
                    )
                    logger.info("The catalogue in PostgreSQL has version %d now", number)
    except (package.errors.InsufficientPrivilege, package.errors.InvalidSchemaName) as error:
        raise ConfigurationError(
            f"The user of {database.where} may not make the catalogue's tables "
            f"({str(error).strip()}): grant it CREATE on the schema, or start a crawl "
            "once as a user that may."
        ) from error


async def _make_schema(connection: Connection, name: str) -> None:
    """Make the schema of the tables, if the URL names one that is missing."""
    if not name:
        return
    rows = await connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", [name])
    if await rows.fetchone() is None:
        package = psycopg()
        await connection.execute(
            package.sql.SQL("CREATE SCHEMA {}").format(package.sql.Identifier(name))
        )
