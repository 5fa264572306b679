"""The bearer token: the user's own, or one made at first start and kept in a private file."""

from __future__ import annotations

import ipaddress
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from crawler.errors import ConfigurationError

FILE = "admin.token"
_MIN_LENGTH = 16


def token_for(host: str, given: str | None, folder: Path) -> str:
    """The token of a server that binds to `host`, or ConfigurationError. Blocking.

    Beyond this machine only a token that the user chose will do: a made one would open the crawl to
    a network that nobody thought of.
    """
    if given:
        return _checked(given)
    if not is_loopback(host):
        raise ConfigurationError(
            f"The admin API would be open to the network ({host}) with a token that nobody set: "
            f"set ADMIN_TOKEN ({_MIN_LENGTH} characters or more), or bind it to 127.0.0.1."
        )
    return _kept(folder / FILE)


def is_loopback(host: str) -> bool:
    """Can only programs on this machine reach it?"""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _checked(token: str) -> str:
    if len(token) < _MIN_LENGTH or not all(33 <= ord(character) <= 126 for character in token):
        raise ConfigurationError(
            f"ADMIN_TOKEN has {len(token)} characters; give {_MIN_LENGTH} or more, letters, digits "
            "and signs without blanks."
        )
    return token


def _kept(path: Path) -> str:
    try:
        with suppress(FileNotFoundError):
            return _read(path)
        _make(path)
        return _read(path)
    except OSError as error:
        raise ConfigurationError(
            f"The admin API's token cannot be kept in {path} ({error.strerror or error}): make the "
            "folder writable, or set ADMIN_TOKEN."
        ) from error


def _read(path: Path) -> str:
    # Not through a link, which others may have put there.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    with os.fdopen(descriptor, encoding="ascii", errors="replace") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            raise ConfigurationError(f"{path} is no file of yours; remove it.")
        if stat.S_IMODE(status.st_mode) & 0o077:
            raise ConfigurationError(
                f"{path} can be read by others; remove it for a new token, or `chmod 600` it."
            )
        token = file.read(1000).strip()
    if len(token) < _MIN_LENGTH:
        raise ConfigurationError(f"{path} holds no token; remove it for a new one.")
    return token


def _make(path: Path) -> None:
    """Write a new token; whoever comes first has made it, and none is ever seen half written."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(32) + "\n")
        with suppress(FileExistsError):
            os.link(part, path)
    finally:
        part.unlink()
