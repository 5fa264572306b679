import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from crawler.admin import tokens
from crawler.admin.tokens import FILE, Role, tokens_for
from crawler.errors import ConfigurationError, NotFound


def token_for(host: str, given: str | None, folder: Path) -> str:
    (token,) = tokens_for(host, given, None, folder).all
    return token.text


def test_a_token_is_made_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    folder = tmp_path / "crawl"
    token = token_for("127.0.0.1", None, folder)
    assert len(token) >= 32
    assert stat.S_IMODE((folder / FILE).stat().st_mode) == 0o600
    assert token_for("localhost", None, folder) == token
    assert [path.name for path in folder.iterdir()] == [FILE]


def test_processes_that_start_together_have_one_token(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: token_for("::1", None, tmp_path), range(16)))
    assert len(found) == 1


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


# --- several tokens, and changes while a server runs ----------------------------------------------


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the file be looked at for each request."""
    monkeypatch.setattr(tokens, "_LOOK_S", 0.0)


def write(path: Path, *lines: str) -> None:
    part = path.with_suffix(".new")
    part.touch(mode=0o600)
    part.write_text("".join(f"{line}\n" for line in lines))
    part.replace(path)


def named(found: tokens.Tokens) -> list[tuple[str, str]]:
    return [(token.name, str(token.role)) for token in found.all]


A, B, C = ("a" * 16, "b" * 16, "c" * 16)


def test_each_line_has_a_token_its_role_and_its_name(tmp_path: Path) -> None:
    write(tmp_path / FILE, "# made by hand", A, "", f"{B} read grafana", f"  {C}\toperate  ops ")
    found = tokens_for("127.0.0.1", None, None, tmp_path)
    assert named(found) == [("admin", "operate"), ("grafana", "read"), ("ops", "operate")]
    assert [found.find(text) for text in (A, B, C)] == found.all
    assert found.find("d" * 16) is None
    assert A not in repr(found.all)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (f"{A} write ops", r"line 2: write a token, its role \(read or operate\)"),
        (f"{A} read two names", "line 2: write a token"),
        (f"{A} read näme", "line 2: write a token"),
        ("short", "line 2 has 5 characters"),
    ],
)
def test_a_line_that_is_wrong_is_named(tmp_path: Path, line: str, said: str) -> None:
    write(tmp_path / FILE, B, line)
    with pytest.raises(ConfigurationError, match=said) as refused:
        tokens_for("127.0.0.1", None, None, tmp_path)
    assert A not in str(refused.value)


def test_a_named_file_counts_as_the_users_choice_beside_a_token(tmp_path: Path) -> None:
    path = tmp_path / "secret" / "tokens"
    path.parent.mkdir()
    path.write_text(f"{A} read grafana\n")
    # A secret that a container mounts: for its group, and behind a link.
    path.chmod(0o440)
    link = tmp_path / "tokens"
    link.symlink_to(path)
    assert named(tokens_for("0.0.0.0", None, str(link), tmp_path)) == [("grafana", "read")]
    found = tokens_for("0.0.0.0", B, str(link), tmp_path)
    assert named(found) == [("ADMIN_TOKEN", "operate"), ("grafana", "read")]
    path.chmod(0o444)
    with pytest.raises(ConfigurationError, match="can be read by others"):
        tokens_for("0.0.0.0", None, str(link), tmp_path)
    with pytest.raises(ConfigurationError, match=r"ADMIN_TOKEN_FILE is .*nothing.*token add"):
        tokens_for("0.0.0.0", None, str(tmp_path / "nothing"), tmp_path)


async def test_a_file_that_changes_is_read_again(tmp_path: Path, looks: None) -> None:
    path = tmp_path / FILE
    write(path, f"{A} operate ops")
    found = tokens_for("127.0.0.1", None, None, tmp_path)
    write(path, f"{A} operate ops", f"{B} read grafana")
    await found.refresh()
    assert named(found) == [("ops", "operate"), ("grafana", "read")]
    write(path, f"{B} read grafana")
    await found.refresh()
    assert found.find(A) is None
    # Deleted, it is made anew.
    path.unlink()
    await found.refresh()
    assert [found.find(A), found.find(B)] == [None, None]
    assert named(found) == [("admin", "operate")]


async def test_a_slip_in_the_file_locks_nobody_out(
    tmp_path: Path, looks: None, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / FILE
    write(path, f"{A} operate ops")
    found = tokens_for("127.0.0.1", None, None, tmp_path)
    write(path, f"{A} operator ops")
    for _ in range(3):
        await found.refresh()
        assert found.find(A) is not None
    assert len([text for text in caplog.messages if "The tokens stay as they were" in text]) == 1


def test_tokens_are_added_and_removed_by_name(tmp_path: Path) -> None:
    file = tokens.token_file(None, tmp_path / "crawl")
    made = file.add("ops", Role.OPERATE)
    assert file.add("grafana", Role.READ).text != made.text
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert [path.name for path in file.path.parent.iterdir()] == [FILE]
    with pytest.raises(ConfigurationError, match="has a token of the name 'ops'"):
        file.add("ops", Role.READ)
    with pytest.raises(ConfigurationError, match="is no name of a token"):
        file.add("two names", Role.READ)
    with pytest.raises(NotFound, match="no token of the name 'nobody'"):
        file.remove("nobody")
    file.remove("ops")
    assert named(tokens.Tokens(file=file)) == [("grafana", "read")]
    with pytest.raises(ConfigurationError, match="no other token than 'grafana'; add another"):
        file.remove("grafana")


def test_a_change_keeps_comments_and_the_rights_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text(f"# of the fleet\n{A} operate ops\n{B} read grafana\n")
    path.chmod(0o640)
    file = tokens.token_file(str(path), tmp_path)
    file.remove("grafana")
    assert path.read_text() == f"# of the fleet\n{A} operate ops\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
