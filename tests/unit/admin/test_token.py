import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from crawler.admin.security import FILE, token_for
from crawler.errors import ConfigurationError


def test_a_token_is_made_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    folder = tmp_path / "crawl"
    token = token_for("127.0.0.1", None, folder)
    assert len(token) >= 32
    assert stat.S_IMODE((folder / FILE).stat().st_mode) == 0o600
    assert token_for("localhost", None, folder) == token
    assert [path.name for path in folder.iterdir()] == [FILE]


def test_processes_that_start_together_have_one_token(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        tokens = set(pool.map(lambda _: token_for("::1", None, tmp_path), range(16)))
    assert len(tokens) == 1


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "crawler.example.com"])
def test_beyond_loopback_a_token_of_the_users_own_is_needed(tmp_path: Path, host: str) -> None:
    with pytest.raises(ConfigurationError, match="set ADMIN_TOKEN"):
        token_for(host, None, tmp_path)
    assert not (tmp_path / FILE).exists()
    assert token_for(host, "x" * 16, tmp_path) == "x" * 16


@pytest.mark.parametrize(
    "token", ["short", "with a blank in the middle", "ümlaute-sind-hier-falsch"]
)
def test_a_weak_or_unusable_token_is_refused(tmp_path: Path, token: str) -> None:
    with pytest.raises(ConfigurationError, match="ADMIN_TOKEN has"):
        token_for("127.0.0.1", token, tmp_path)


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    token_for("127.0.0.1", None, tmp_path)
    (tmp_path / FILE).chmod(0o644)
    with pytest.raises(ConfigurationError, match="can be read by others"):
        token_for("127.0.0.1", None, tmp_path)


def test_an_empty_file_and_a_link_are_refused(tmp_path: Path) -> None:
    (tmp_path / FILE).touch(mode=0o600)
    with pytest.raises(ConfigurationError, match="holds no token"):
        token_for("127.0.0.1", None, tmp_path)
    (tmp_path / FILE).unlink()
    (tmp_path / FILE).symlink_to("/etc/hostname")
    with pytest.raises(ConfigurationError, match=r"cannot be kept in .*admin\.token"):
        token_for("127.0.0.1", None, tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(ConfigurationError, match="make the folder writable"):
        token_for("127.0.0.1", None, tmp_path / "crawl")
