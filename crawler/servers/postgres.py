"""Connect to PostgreSQL, explain its errors, and tell those that pass from those that do not.

Every call has a deadline. Needs the extra `postgres`; the package is imported at the first use.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

from crawler.errors import ConfigurationError, CrawlerError, ServerAway
from crawler.util.extras import optional
from crawler.util.secrets import Mask, url_passwords, without_secrets
from crawler.util.tasks import abandon, within

if TYPE_CHECKING:
    from types import ModuleType

    from psycopg import AsyncConnection

    Connection = AsyncConnection[tuple[Any, ...]]

T = TypeVar("T")
Work = Callable[["Connection"], Awaitable[T]]

logger = logging.getLogger(__name__)
# It says that a frozen server did not take the cancellation of a query, which we say, too.
logging.getLogger("psycopg").setLevel(logging.ERROR)

EXTRA = "postgres"
SCHEMES = ("postgresql", "postgres")
_CONNECT_S, _CLOSE_S = 10.0, 2.0
# The server ends a statement a little later than we give it up, if nobody tells it to.
_LATER = 1.2
_KEEPALIVES = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
# Parameter of the URL that is ours, not libpq's.
_SCHEMA = "schema"

_DENIED, _DISK_FULL, _READ_ONLY, _NO_DATABASE = "42501", "53100", "25006", "3D000"
# Classes of errors of one record: its data, constraints, limits, and what triggers of people raise.
# All others may pass, by themselves or because people do something, as after a table was dropped.
_OF_RECORDS = frozenset({"22", "23", "54", "P0"})
# Errors of a start that people must correct.
_MISTAKES = frozenset({_NO_DATABASE, "28000", "28P01", "3F000"})
# Classes of errors of a connection that ends.
_GOING = frozenset({"08", "57"})
# By code: what has happened, and what to do.
_EXPLANATIONS = {
    _DENIED: (
        "its user may not do this",
        "grant it SELECT, INSERT, UPDATE and DELETE on the tables, and TEMPORARY on the database",
    ),
    _DISK_FULL: ("its disk is full", "make room there"),
    _READ_ONLY: (
        "it takes no writes now",
        (
            "turn its default_transaction_read_only off or, if it is a standby, name the primary, "
            "or all servers with ?target_session_attrs=read-write"
        ),
    ),
}
# Errors of a connection have no code, only a text of libpq or the server. Some may pass.
_PASSING = (
    (r"too many clients|connection slots|too many connections", "raise its limit of connections"),
    (
        r"session is read-only|not in hot standby|is in hot standby",
        "name the primary in SINKS, too, or wait until there is one",
    ),
)
# Others are mistakes: another attempt fails the same way.
_REFUSED = (
    (r"authentication failed|no password supplied", "correct the user and its password in SINKS"),
    (r"FATAL.* role .* does not exist", "correct the user in SINKS, or create it"),
    (r"FATAL.* database .* does not exist", "create the database, or correct its name in SINKS"),
    (r"FATAL.* permission denied for database", "grant the user CONNECT on the database"),
    (r"no pg_hba\.conf entry", "allow this user and this machine in its pg_hba.conf"),
    (
        r'invalid (integer value|port number:|\w+ value:) "|bad value for',
        "correct the address in SINKS",
    ),
)
_UNREACHED = "start it, correct its address in SINKS, or leave it out"


def psycopg(what: str = "postgresql:// in SINKS") -> ModuleType:
    """Import the package; ConfigurationError if it is not installed."""
    return optional("psycopg", extra=EXTRA, what=what)


class Database:
    """Database by one connection, which is opened at its first use, and again after it was lost.

    Calls wait for each other. The tables are in the schema of `?schema=`, if the URL has one.
    """

    def __init__(self, url: str, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self.where = without_secrets(url)
        self._mask = Mask(url_passwords(url))
        self._url, self.schema = _split_schema(url)
        self._parameters = self._checked()
        self._connection: Connection | None = None
        self._lock = asyncio.Lock()

    def _checked(self) -> dict[str, Any]:
        package = psycopg()
        try:
            given = package.conninfo.conninfo_to_dict(self._url)
        except package.ProgrammingError as error:
            raise ConfigurationError(
                f"{self.where} is no address of PostgreSQL ({self._mask(str(error)).strip()}); use "
                "postgresql://user:…@host:5432/database."
            ) from error
        # Each server of several gets its part: the first may be silent, and the second the primary.
        hosts = str(given.get("host") or given.get("hostaddr") or "").count(",") + 1
        limit_s = max(2, int(min(_CONNECT_S, self.timeout_s) / hosts))
        usual = {"connect_timeout": limit_s, "application_name": "crawler", **_KEEPALIVES}
        return {**usual, **given, "client_encoding": "utf8"}

    async def run(self, work: Work[T], *, limit_s: float | None = None) -> T:
        """Call `work` with the connection; it has `limit_s` (default: timeout_s) for all it does.

        Raises TimeoutError after that, and the errors of psycopg. A call that was given up may
        still be carried out by the server.
        """
        limit_s = limit_s or self.timeout_s
        ends_s = monotonic() + limit_s
        async with asyncio.timeout(limit_s):
            await self._lock.acquire()
        try:
            return await self._run(work, limit_s, ends_s)
        finally:
            self._lock.release()

    async def _run(self, work: Work[T], limit_s: float, ends_s: float) -> T:
        if self._connection is None or self._connection.closed:
            async with asyncio.timeout(min(limit_s, _CONNECT_S)):
                self._connection = await self._connect()
        connection = self._connection
        # A task of its own: psycopg takes ten seconds to give up a server that is frozen.
        task = asyncio.ensure_future(work(connection))
        try:
            done, _ = await asyncio.wait({task}, timeout=max(0.0, ends_s - monotonic()))
            if not done:
                raise TimeoutError(f"no answer within {limit_s:g} s")
            return task.result()
        except BaseException:
            if not task.done() or connection.broken:
                self._connection = None
            raise
        finally:
            if not task.done():
                abandon(task)
                task.add_done_callback(lambda _: connection.pgconn.finish())

    async def _connect(self) -> Connection:
        package = psycopg()
        connection: Connection = await package.AsyncConnection.connect(
            **self._parameters, autocommit=True
        )
        try:
            await self._prepare(connection)
        except BaseException:
            # Not close(), which would wait for a server that may be silent.
            connection.pgconn.finish()
            raise
        return connection

    async def _prepare(self, connection: Connection) -> None:
        encoding = connection.info.parameter_status("server_encoding")
        if encoding not in (None, "UTF8"):
            raise ConfigurationError(
                f"The database at {self.where} has the encoding {encoding}, which lacks characters "
                "of pages; make one with ENCODING 'UTF8'."
            )
        limit_ms = str(round(self.timeout_s * _LATER * 1000))
        values = {
            # Times are read in the zone of the connection, by default the server's.
            "TimeZone": "UTC",
            "statement_timeout": limit_ms,
            "lock_timeout": limit_ms,
            # A crawler that is frozen while it writes must not keep its locks.
            "idle_in_transaction_session_timeout": limit_ms,
        }
        if self.schema:
            values["search_path"] = _quoted(self.schema)
        chosen = ", ".join("set_config(%s, %s, false)" for _ in values)
        parameters = [part for pair in values.items() for part in pair]
        await connection.execute(f"SELECT {chosen}", parameters)
        # Without it, a page that counts as stored is lost when the server crashes.
        await connection.execute(
            "SELECT set_config('synchronous_commit', 'on', false) "
            "WHERE current_setting('synchronous_commit') = 'off'"
        )

    async def close(self) -> None:
        """Close the connection, in bounded time."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await within(_CLOSE_S, connection.close())

    def start_error(self, error: Exception) -> CrawlerError:
        """Return the error with which a start ends: what people must correct, or ServerAway."""
        code = getattr(error, "sqlstate", None) or ""
        what, advice = map(self._mask, _described(error))
        is_mistake = code in _MISTAKES or code[:2] == "42" or bool(_advice(_REFUSED, error))
        refused = is_mistake or not may_pass(error)
        # Without a code, it says FATAL when it takes no connection.
        if (code and code[:2] not in _GOING) or "FATAL" in what:
            trouble = "refuses"
        elif refused:
            trouble = "cannot be used"
        else:
            trouble, advice = "does not answer", advice or _UNREACHED
        full = f"PostgreSQL at {self.where} {trouble} ({what})."
        if advice:
            full += f" {advice[0].upper()}{advice[1:]}."
        return ConfigurationError(full) if refused else ServerAway(full)

    def explain(self, error: BaseException) -> str:
        """Describe an error for people, without passwords."""
        return self._mask(explain(error))


def _split_schema(url: str) -> tuple[str, str]:
    """Take our own parameter out of a URL, and leave the others as they are."""
    head, _, query = url.partition("?")
    others, schema = [], ""
    for part in query.split("&") if query else []:
        name, _, value = part.partition("=")
        if name == _SCHEMA:
            schema = unquote(value)
        else:
            others.append(part)
    return "?".join([head, "&".join(others)]) if others else head, schema


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _advice(known: tuple[tuple[str, str], ...], error: BaseException) -> str:
    """Return what to do about an error of a connection; empty for those that are not known."""
    if getattr(error, "sqlstate", None) is not None:
        return ""
    text = " ".join(str(error).split())
    return next((advice for pattern, advice in known if re.search(pattern, text)), "")


def may_pass(error: BaseException) -> bool:
    """Return whether another attempt makes sense. Not for errors of single records."""
    if isinstance(error, OSError | ServerAway):
        return True
    package = psycopg()
    if not isinstance(error, package.Error):
        return False
    code = error.sqlstate
    if code is None:
        # The connection is lost, or was closed.
        return isinstance(error, package.OperationalError | package.InterfaceError)
    return code[:2] not in _OF_RECORDS


def _described(error: BaseException) -> tuple[str, str]:
    """Return what has happened, and what to do if that is known."""
    code = getattr(error, "sqlstate", None)
    if code in _EXPLANATIONS:
        return _EXPLANATIONS[code]
    text = " ".join(str(error).split()) or type(error).__name__
    return text, _advice((*_REFUSED, *_PASSING), error)


def explain(error: BaseException) -> str:
    """Describe an error for people, with a remedy where there is one. It may have passwords."""
    return ": ".join(filter(None, _described(error)))


def remedy(error: BaseException) -> str:
    """Return what people can do about an error; empty if that is not known."""
    return _described(error)[1]
