"""Tokens of the admin API: the user's own, and those in a file that is read again when it changes.

Each line of the file is a token and, after blanks, its role and its name; `operate` and `admin` if
they are missing. Empty lines and lines that begin with # do not count. Without a file, a server on
loopback makes one with a token, which only its owner can read.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import os
import re
import secrets
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from time import monotonic

from crawler.errors import ConfigurationError, NotFound

logger = logging.getLogger(__name__)

FILE = "admin.token"
DEFAULT_NAME = "admin"
_MIN_LENGTH = 16
_FILE_BYTES, _TOKENS_MAX = 64 * 1024, 100
_NAME = re.compile(r"[\w.-]{1,50}", re.ASCII)
# How often the file is looked at, at most, and how long a request waits for that.
_LOOK_S, _READ_S = 1.0, 2.0


class Role(StrEnum):
    """What a token allows: to look at everything, or to change it as well."""

    READ = "read"
    OPERATE = "operate"


@dataclass(frozen=True, slots=True)
class Token:
    """Token with its role, and the name by which the audit log knows it."""

    text: str = field(repr=False)
    role: Role = Role.OPERATE
    name: str = DEFAULT_NAME


class Tokens:
    """All tokens that are valid now."""

    def __init__(self, *given: Token, file: TokenFile | None = None) -> None:
        """`given` are valid as long as the server runs; those in `file` as long as they are there.

        Reads the file, and raises ConfigurationError if that fails. Blocking.
        """
        self._given = given
        self._file = file
        self._of_file: Sequence[Token] = ()
        self._read_of: object = None
        self._looked_at_s = monotonic()
        self._reading: asyncio.Task[None] | None = None
        if file is not None:
            self._read_of = file.version()
            self._of_file = file.read()

    @property
    def all(self) -> list[Token]:
        """All tokens, those of the settings first."""
        return [*self._given, *self._of_file]

    def find(self, text: str) -> Token | None:
        """Return a token by its text.

        In constant time: the time must not reveal how much of a guess is right, nor of which token.
        """
        given, found = text.encode("utf-8", "replace"), None
        for token in self.all:
            if hmac.compare_digest(given, token.text.encode()):
                found = token
        return found

    async def refresh(self) -> None:
        """Read the file again if it changed and was not looked at for a second."""
        if self._file is None:
            return
        if self._reading is None and monotonic() - self._looked_at_s >= _LOOK_S:
            self._looked_at_s = monotonic()
            reading = asyncio.to_thread(self._read_if_changed, self._file)
            self._reading = asyncio.get_running_loop().create_task(reading)
            self._reading.add_done_callback(self._has_read)
        if self._reading is not None:
            await asyncio.wait([self._reading], timeout=_READ_S)

    def _has_read(self, _: asyncio.Task[None]) -> None:
        self._reading = None

    def _read_if_changed(self, file: TokenFile) -> None:
        try:
            version = file.version()
            if version == self._read_of:
                return
            self._read_of = version
            self._of_file = file.read()
        except ConfigurationError as error:
            # Whoever edits the file must not lock everybody out by a slip.
            logger.error("The tokens stay as they were: %s", error)
            return
        names = ", ".join(f"{token.name} ({token.role})" for token in self._of_file)
        logger.info("Tokens of the admin API were read again: %s", names)


class TokenFile:
    """File with tokens. Every call is blocking, and raises ConfigurationError if it fails."""

    def __init__(self, path: Path, *, is_own: bool) -> None:
        """`is_own`: in the crawl's folder, where it is made if it is missing."""
        self.path = path
        self._is_own = is_own

    def version(self) -> object:
        """Return a value that changes with the file; makes the file if it is missing."""
        try:
            status = self.path.stat()
        except FileNotFoundError:
            if not self._is_own:
                raise self._error("there is no such file") from None
            self._create()
            status = self.path.stat()
        except OSError as error:
            raise self._error(error.strerror or str(error)) from error
        return status.st_mtime_ns, status.st_ino, status.st_size

    def read(self) -> list[Token]:
        """Return the tokens of the file; there is at least one."""
        found: list[Token] = []
        for number, line in enumerate(self._lines(), 1):
            token = self._token(number, line)
            if token is not None:
                found.append(token)
        if not found:
            raise ConfigurationError(f"{self.path} holds no token; remove it for a new one.")
        if len(found) > _TOKENS_MAX:
            raise ConfigurationError(f"{self.path} holds more than {_TOKENS_MAX} tokens.")
        return found

    def add(self, name: str, role: Role) -> Token:
        """Add a new token of this name, and return it."""
        if _NAME.fullmatch(name) is None:
            raise ConfigurationError(
                f"{name!r} is no name of a token; take up to 50 letters, digits and signs of ._-"
            )
        lines: list[str] = []
        with suppress(FileNotFoundError):
            self.path.lstat()
            lines = self._lines()
            if any(token.name == name for token in self.read()):
                raise ConfigurationError(
                    f"{self.path} has a token of the name {name!r}; take another name."
                )
        token = Token(_new_token(), role, name)
        self._replace([*lines, f"{token.text} {role} {name}"])
        return token

    def remove(self, name: str) -> None:
        """Remove the tokens of this name, or raise NotFound."""
        kept = [token for token in self.read() if token.name != name]
        if len(kept) == len(self.read()):
            raise NotFound(f"{self.path} has no token of the name {name!r}.")
        if not kept:
            raise ConfigurationError(
                f"{self.path} has no other token than {name!r}; add another one first."
            )
        lines = [(line, self._token(number, line)) for number, line in enumerate(self._lines(), 1)]
        self._replace([line for line, token in lines if token is None or token.name != name])

    def _token(self, number: int, line: str) -> Token | None:
        text, *more = line.split()[:4] or [""]
        if not text or text.startswith("#"):
            return None
        where = f"{self.path}, line {number}"
        role, name, *rest = [*more, *(Role.OPERATE, DEFAULT_NAME)[len(more) :]]
        if rest or role not in list(Role) or _NAME.fullmatch(name) is None:
            raise ConfigurationError(
                f"{where}: write a token, its role ({' or '.join(Role)}) and its name."
            )
        return Token(checked(text, where), Role(role), name)

    def _lines(self) -> list[str]:
        # Our own not through a symbolic link, which others may have put there.
        flags = os.O_RDONLY | (os.O_NOFOLLOW if self._is_own else 0)
        try:
            descriptor = os.open(self.path, flags)
        except OSError as error:
            raise self._error(error.strerror or str(error)) from error
        with os.fdopen(descriptor, encoding="ascii", errors="replace") as file:
            self._check(os.fstat(file.fileno()))
            return file.read(_FILE_BYTES).splitlines()

    def _check(self, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise ConfigurationError(f"{self.path} is no file.")
        # Secrets that a container mounts belong to root, and are for its group.
        if self._is_own and status.st_uid != os.geteuid():
            raise ConfigurationError(f"{self.path} is no file of yours; remove it.")
        if stat.S_IMODE(status.st_mode) & (0o077 if self._is_own else 0o007):
            raise ConfigurationError(
                f"{self.path} can be read by others; remove it for a new token, or `chmod 600` it."
            )

    def _create(self) -> None:
        """Write a new token. The first process wins, and none ever reads half a token."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            part = self._write_part([_new_token()])
            try:
                with suppress(FileExistsError):
                    os.link(part, self.path)
            finally:
                part.unlink()
        except OSError as error:
            raise self._error(error.strerror or str(error)) from error

    def _replace(self, lines: Sequence[str]) -> None:
        """Write all lines at once: a process that reads meanwhile gets the old or the new ones."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = self.path.resolve()
            part = self._write_part(lines)
            with suppress(FileNotFoundError):
                part.chmod(stat.S_IMODE(path.stat().st_mode))
            part.replace(path)
        except OSError as error:
            raise self._error(error.strerror or str(error)) from error

    def _write_part(self, lines: Sequence[str]) -> Path:
        path = self.path.resolve()
        part = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.writelines(f"{line}\n" for line in lines)
        return part

    def _error(self, why: str) -> ConfigurationError:
        if self._is_own:
            return ConfigurationError(
                f"The admin API's token cannot be kept in {self.path} ({why}): make the folder "
                "writable, or set ADMIN_TOKEN."
            )
        return ConfigurationError(
            f"ADMIN_TOKEN_FILE is {self.path}, which cannot be used ({why}): make one by "
            "`scrapy token add NAME`."
        )


def token_file(named: str | None, folder: Path) -> TokenFile:
    """Return the file with tokens: the one that ADMIN_TOKEN_FILE names, or that of CRAWL_DIR."""
    return TokenFile(Path(named), is_own=False) if named else TokenFile(folder / FILE, is_own=True)


def tokens_for(host: str, given: str | None, file: str | None, folder: Path) -> Tokens:
    """Return the tokens of a server that binds to `host`, or raise ConfigurationError. Blocking.

    `given` is ADMIN_TOKEN, `file` ADMIN_TOKEN_FILE. Beyond this machine the user has to choose one
    of them: a token that we create would open the crawl to a network without the user's decision.
    """
    own = [Token(checked(given, "ADMIN_TOKEN"), name="ADMIN_TOKEN")] if given else []
    if not own and not file and not is_loopback(host):
        raise ConfigurationError(
            f"The admin API would be open to the network ({host}) with a token that nobody set: "
            f"set ADMIN_TOKEN ({_MIN_LENGTH} characters or more) or ADMIN_TOKEN_FILE, or bind it "
            "to 127.0.0.1."
        )
    return Tokens(*own, file=token_file(file, folder) if file or not own else None)


def is_loopback(host: str) -> bool:
    """Return whether only programs on this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def checked(token: str, where: str) -> str:
    """Return a token that is long enough and can be sent, or raise ConfigurationError."""
    if len(token) < _MIN_LENGTH or not all(33 <= ord(character) <= 126 for character in token):
        raise ConfigurationError(
            f"{where} has {len(token)} characters; give {_MIN_LENGTH} or more, letters, digits "
            "and signs without blanks."
        )
    return token


def _new_token() -> str:
    return secrets.token_urlsafe(32)
