"""Errors of PostgreSQL: which pass, which are of one record, and what people read."""

import psycopg
import pytest
from psycopg import errors

from crawler.errors import ConfigurationError, ServerAway
from crawler.servers.health import postgres_health
from crawler.servers.postgres import Database, explain, may_pass


@pytest.mark.parametrize(
    "error",
    [
        psycopg.OperationalError("connection lost"),
        psycopg.InterfaceError("the connection is closed"),
        TimeoutError("no answer within 2 s"),
        ConnectionResetError(),
        errors.AdminShutdown(),
        errors.CannotConnectNow(),
        errors.DiskFull(),
        errors.TooManyConnections(),
        errors.OutOfMemory(),
        errors.ReadOnlySqlTransaction(),
        errors.IdleInTransactionSessionTimeout(),
        errors.SerializationFailure(),
        errors.DeadlockDetected(),
        errors.LockNotAvailable(),
        errors.QueryCanceled(),
        errors.InsufficientPrivilege(),
        errors.IoError(),
        errors.InvalidPassword(),
        # As while somebody makes partitions.
        errors.UndefinedTable(),
        errors.FeatureNotSupported(),
    ],
    ids=repr,
)
def test_an_error_that_passes_lets_the_batch_be_written_again(error: Exception) -> None:
    assert may_pass(error)


@pytest.mark.parametrize(
    "error",
    [
        errors.NumericValueOutOfRange(),
        errors.CharacterNotInRepertoire(),
        errors.UntranslatableCharacter(),
        errors.InvalidTextRepresentation(),
        errors.NotNullViolation(),
        errors.ProgramLimitExceeded(),
        errors.StatementTooComplex(),
        errors.RaiseException(),
        ValueError(),
    ],
    ids=repr,
)
def test_an_error_of_a_record_does_not_pass(error: Exception) -> None:
    assert not may_pass(error)


def test_errors_say_what_to_do() -> None:
    assert "make room" in explain(errors.DiskFull("could not extend file"))
    assert "grant it" in explain(errors.InsufficientPrivilege("permission denied"))
    assert explain(psycopg.OperationalError("two\n\tlines")) == "two lines"
    assert explain(TimeoutError()) == "TimeoutError"


def test_no_error_has_the_password() -> None:
    database = Database("postgresql://u:topsecret@h/d?schema=s&sslpassword=ofthekey", 2.0)
    assert database.schema == "s"
    assert "topsecret" not in database.where
    assert "ofthekey" not in database.where
    away = database.start_error(psycopg.OperationalError("no route, topsecret"))
    assert isinstance(away, ServerAway)
    assert "topsecret" not in str(away)
    refused = database.start_error(errors.InvalidPassword("wrong: topsecret"))
    assert isinstance(refused, ConfigurationError)
    assert "topsecret" not in str(refused)


def test_only_the_schema_is_taken_out_of_an_address() -> None:
    address = "postgresql://h/d?password=a+b&schema=x%20y&options=-c%20a%3Db"
    database = Database(address, 2.0)
    assert database.schema == "x y"
    assert database._parameters["password"] == "a+b"
    assert database._parameters["options"] == "-c a=b"


def test_a_silent_server_leaves_time_for_the_others() -> None:
    for hosts, limit_s in (("a", 10), ("a,b", 5), ("a:1,b:2,c:3", 3), ("", 10)):
        database = Database(f"postgresql://{hosts}/d?target_session_attrs=read-write", 20.0)
        assert database._parameters["connect_timeout"] == limit_s


def test_an_address_with_unknown_options_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="is no address of PostgreSQL"):
        Database("postgresql://u:topsecret@h/d?nope=1", 2.0)


@pytest.mark.parametrize(
    ("error", "trouble", "advice", "is_mistake"),
    [
        ('server at "h" failed: Connection refused', "does not answer", "Start it, correct", False),
        ('FATAL: password authentication failed for "u"', "refuses", "its password in SIN", True),
        ('FATAL: database "d" does not exist', "refuses", "Create the database", True),
        ('FATAL: role "u" does not exist', "refuses", "Correct the user in SINKS", True),
        ("FATAL: sorry, too many clients already", "refuses", "Raise its limit", False),
        ("FATAL: the database system is starting up", "refuses", "", False),
        ('invalid integer value "x" for connection option "port"', "cannot be used", "Corr", True),
        ('connection is bad: invalid port number: "99999"', "cannot be used", "Corr", True),
        (errors.ReadOnlySqlTransaction("cannot execute"), "refuses", "default_transaction", False),
        (errors.InsufficientPrivilege("denied for table"), "refuses", "Grant it SELECT", True),
    ],
)
def test_a_start_that_fails_says_what_to_do(
    error: str | Exception, trouble: str, advice: str, *, is_mistake: bool
) -> None:
    database = Database("postgresql://u@h/d", 2.0)
    if isinstance(error, str):
        error = psycopg.OperationalError(error)
    found = database.start_error(error)
    assert isinstance(found, ConfigurationError if is_mistake else ServerAway)
    head, _, told = str(found).partition("). ")
    assert head.startswith(f"PostgreSQL at postgresql://u@h/d {trouble} (")
    assert advice in told
    assert bool(told) == bool(advice)


def test_a_new_cause_of_an_outage_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    health = postgres_health()
    health.failed("pages", errors.AdminShutdown("terminating connection"))
    for _ in range(2):
        health.failed("pages", errors.ReadOnlySqlTransaction("cannot execute INSERT"))
    first, second = (record.getMessage() for record in caplog.records)
    assert "away (terminating connection)" in first
    assert "PostgreSQL is not back (it takes no writes now" in second
