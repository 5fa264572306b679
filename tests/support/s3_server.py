"""A real S3 server for tests, SeaweedFS: one for all workers.

async def test_something(s3_url: str) -> None: ...

Its bucket is shared: `s3_url` is a prefix of the test's own. The environment has the credentials.
A server of a test's own is `S3Server(folder)`.
"""

import fcntl
import json
import os
import signal
import socket
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

BUCKET = "tests"
KEY, SECRET = "tests-key", "tests-secret"
# May read everything, and write nothing.
READER_KEY, READER_SECRET = "reader-key", "reader-secret"
_START_S = 60.0
_POLL_S = 0.05
# Nothing of the machine that runs the tests, and nobody outside of it is asked for credentials:
# whatever is not on loopback goes to a proxy that does not exist.
_CLOSED = "http://127.0.0.1:1"
_NOWHERE = {
    **dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), _CLOSED),
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), _CLOSED),
    **dict.fromkeys(("no_proxy", "NO_PROXY"), "127.0.0.1"),
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_METADATA_ENDPOINT": _CLOSED,
}


class S3Server:
    """A server with its data in a folder; `pid` is that of its process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ports: list[int] = []
        self.pid = 0
        self.endpoint = ""

    @property
    def socket_path(self) -> str:
        """Its Unix socket, which serves the same."""
        return str(self._folder / "s3.sock")

    def start(self) -> None:
        """Start it, with an empty bucket or again, and wait until it takes objects."""
        self._folder.mkdir(parents=True, exist_ok=True)
        ports = self._ports = self._ports or _free_ports(8)
        identities = [
            _identity(KEY, SECRET, "Admin Read Write List Tagging"),
            _identity(READER_KEY, READER_SECRET, "Read List"),
        ]
        config = self._folder / "identities.json"
        config.write_text(json.dumps({"identities": identities}))
        master, volume, filer, s3 = ports[::2]
        grpc = ports[1::2]
        options = [
            *(f"-dir={self._folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"),
            *(f"-master.port={master}", f"-master.port.grpc={grpc[0]}"),
            *("-master.telemetry=false", "-master.volumeSizeLimitMB=1024"),
            *(f"-volume.port={volume}", f"-volume.port.grpc={grpc[1]}"),
            *("-volume.max=50", "-volume.minFreeSpace=1MiB"),
            *("-filer", f"-filer.port={filer}", f"-filer.port.grpc={grpc[2]}"),
            f"-filer.localSocket={self._folder / 'filer.sock'}",
            *("-s3", f"-s3.port={s3}", f"-s3.port.grpc={grpc[3]}", f"-s3.config={config}"),
            f"-s3.localSocket={self.socket_path}",
            *("-s3.port.iceberg=0", "-s3.port.lance=0"),
        ]
        program = str(Path(sys.executable).with_name("weed"))
        log = self._folder / "weed.log"
        # Not by Popen: another worker may be the last that needs it, and end it.
        self.pid = os.posix_spawn(
            program,
            [program, "server", *options],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
        )
        self.endpoint = f"http://127.0.0.1:{s3}"
        deadline = time.monotonic() + _START_S
        bucket = f"http://127.0.0.1:{filer}/buckets/{BUCKET}/"
        while not (_status(bucket, "POST") in (201, 409) and _status(self.endpoint, "GET")):
            is_alive = os.waitpid(self.pid, os.WNOHANG) == (0, 0)
            if is_alive and time.monotonic() < deadline:
                time.sleep(_POLL_S)
                continue
            if is_alive:
                self.kill()
            pytest.fail(f"SeaweedFS does not start:\n{log.read_text()[-5000:]}")

    def kill(self) -> None:
        """End it as a crash does: asked nicely, it takes 25 s."""
        os.kill(self.pid, signal.SIGKILL)


def _identity(key: str, secret: str, actions: str) -> dict[str, object]:
    credentials = [{"accessKey": key, "secretKey": secret}]
    return {"name": key, "credentials": credentials, "actions": actions.split()}


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _status(url: str, method: str) -> int:
    """The status of an answer; 0 without one."""
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, method=method), timeout=2
        ) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except OSError:
        return 0


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _shared_server(folder: Path) -> Iterator[S3Server]:
    """Use the server that the workers share; the first starts it, and the last ends it.

    Each holds a shared lock meanwhile, which a worker that is killed loses too.
    """
    folder.mkdir(parents=True, exist_ok=True)
    starting, state = folder / "starting.lock", folder / "server.json"
    with (folder / "users.lock").open("w") as users:
        with _locked(starting):
            if not state.exists():
                # Short: the path of a socket may have about 100 characters.
                server = S3Server(Path(tempfile.mkdtemp(prefix="s3-")))
                server.start()
                found = {"folder": str(server._folder), "pid": server.pid}
                state.write_text(json.dumps({**found, "endpoint": server.endpoint}))
            found = json.loads(state.read_text())
            server = S3Server(Path(found["folder"]))
            server.pid, server.endpoint = found["pid"], found["endpoint"]
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
                    _remove(server._folder)


def _remove(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)
    folder.rmdir()


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """The server of all workers; do not kill it."""
    own = tmp_path_factory.getbasetemp()
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    with _shared_server((own.parent if is_worker else own) / "s3") as server:
        yield server


@pytest.fixture
def s3_environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment without any credentials, and without ways to find some outside."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "GOOGLE_", "AZURE_"))]:
        monkeypatch.delenv(name)
    for name, value in _NOWHERE.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


@pytest.fixture
def s3_url(s3_server: S3Server, s3_environment: pytest.MonkeyPatch) -> str:
    """A prefix in the bucket of the server, with credentials in the environment."""
    use_server(s3_environment, s3_server.endpoint)
    return f"s3://{BUCKET}/{uuid4().hex}"


def use_server(environment: pytest.MonkeyPatch, endpoint: str) -> None:
    """Let object stores be those of a server."""
    environment.setenv("AWS_ENDPOINT_URL", endpoint)
    environment.setenv("AWS_REGION", "us-east-1")
    environment.setenv("AWS_ACCESS_KEY_ID", KEY)
    environment.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
