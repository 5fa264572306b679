"""Object stores: s3://bucket/prefix, gs://bucket/prefix, az://container/prefix and file:///folder.

Credentials are those of the platform: environment variables, the profile of AWS, the role of the
instance. No URL has any, so none is logged. An S3 server elsewhere is named by AWS_ENDPOINT_URL.

Every call has a deadline. Errors are SinkAway if they may pass, NotFound if there is no such
object, and ConfigurationError for everything that people have to change.

Needs the extra `s3`, also for folders.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from configparser import ConfigParser
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit
from urllib.request import url2pathname

from crawler.errors import ConfigurationError, NotFound, SinkAway
from crawler.util.extras import optional
from crawler.util.secrets import without_secrets

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Store

Result = TypeVar("Result")

EXTRA = "s3"
SCHEMES = ("s3", "gs", "az", "file")
# Deadline of a request, and of each megabyte that it transfers.
_DEADLINE_S, _MEGABYTE_S = 30.0, 1.0
_CLIENT = {"connect_timeout": timedelta(seconds=5), "timeout": timedelta(seconds=_DEADLINE_S)}
# The caller repeats what fails: here only for hiccups.
_RETRIES = {"max_retries": 2, "retry_timeout": timedelta(seconds=10)}
# Parts of an upload.
_PART_BYTES = 16 * 1024 * 1024
_PARTS_AT_ONCE = 4
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_PROBE = ".crawler-probe"


def is_store_url(text: str) -> bool:
    """Return whether a text names an object store."""
    return text.partition("://")[0] in SCHEMES and "://" in text


class ObjectStore:
    """Object store, or a prefix of one. Names of objects are relative to the prefix."""

    def __init__(self, url: str, store: Store, folder: Path | None = None) -> None:
        """`folder` is where the objects of a local store are."""
        self.url = url
        self._store = store
        self._folder = folder
        self._obstore = optional("obstore", extra=EXTRA, what=url)

    @classmethod
    def from_url(cls, url: str, *, what: str) -> ObjectStore:
        """Make the store of a URL. `what` is the setting or option that has it."""
        shown = without_secrets(url)
        if not is_store_url(url):
            raise ConfigurationError(
                f"{what} is {shown!r}; use s3://bucket/prefix, gs://…, az://… or file:///folder."
            )
        parts = urlsplit(url)
        if parts.username or parts.password or parts.query:
            raise ConfigurationError(
                f"{what} has credentials or options in its URL; give credentials as the platform "
                "has them (environment, profile, role), and only bucket and prefix in the URL."
            )
        if parts.scheme != "file" and not parts.netloc:
            raise ConfigurationError(f"{what} is {shown!r}, without a bucket; use s3://bucket/…")
        stores = optional("obstore.store", extra=EXTRA, what=what)
        url = url.rstrip("/")
        try:
            if parts.scheme == "file":
                folder = Path(url2pathname(parts.path)).absolute()
                return cls(url, stores.LocalStore(folder, mkdir=True), folder)
            options = _aws_options(what) if parts.scheme == "s3" else {}
            client = {**_CLIENT, "allow_http": _is_plain(parts.scheme)}
            store = stores.from_url(url, client_options=client, retry_config=_RETRIES, **options)
        except ConfigurationError:
            raise
        except Exception as error:  # obstore raises errors of many classes for bad options
            raise ConfigurationError(f"{what} is {shown!r} ({_brief(error)}).") from error
        return cls(url, store)

    async def check(self) -> None:
        """Write and delete an object; SinkAway or ConfigurationError if that is impossible."""
        await self.put(_PROBE, b"")
        await self.delete([_PROBE])

    async def put(self, name: str, data: bytes, *, storage_class: str = "") -> None:
        """Write an object; it is there as a whole or not at all."""
        await self._put(name, data, len(data), storage_class)

    async def upload(self, name: str, path: Path, *, storage_class: str = "") -> None:
        """Write a file as an object, in parts with checksums; return when it is there as a whole.

        An upload that a crash ended leaves no object, and is begun anew.
        """
        size = (await asyncio.to_thread(path.stat)).st_size
        await self._put(name, path, size, storage_class)
        found = await self.size(name)
        if found != size:
            raise SinkAway(f"{self.url}/{name} has {found} bytes after an upload of {size}.")

    async def _put(self, name: str, data: bytes | Path, size: int, storage_class: str) -> None:
        attributes = {"Storage-Class": storage_class} if storage_class else None
        if self._folder is not None:
            attributes = None
        put = self._obstore.put_async(
            *(self._store, name, data),
            attributes=attributes,
            chunk_size=_PART_BYTES,
            max_concurrency=_PARTS_AT_ONCE,
        )
        await self._within(put, name, size)
        if self._folder is not None:
            await asyncio.to_thread(_sync, self._folder / name)

    async def get(self, name: str) -> bytes:
        """Read an object."""

        async def get() -> bytes:
            found = await self._obstore.get_async(self._store, name)
            async with asyncio.timeout(found.meta["size"] / 1e6 * _MEGABYTE_S + _DEADLINE_S):
                return bytes(await found.bytes_async())

        with self._errors(name):
            return await get()

    async def get_range(self, name: str, start: int, length: int) -> bytes:
        """Read a part of an object."""
        read = self._obstore.get_range_async(self._store, name, start=start, length=length)
        return bytes(await self._within(read, name, length))

    async def download(self, name: str, path: Path) -> None:
        """Write an object to a file."""
        with self._errors(name), path.open("wb") as file:
            async with asyncio.timeout(_DEADLINE_S):
                found = await self._obstore.get_async(self._store, name)
            parts = aiter(found.stream(min_chunk_size=_PART_BYTES))
            while True:
                try:
                    async with asyncio.timeout(_DEADLINE_S):
                        part = await anext(parts)
                except StopAsyncIteration:
                    return
                await asyncio.to_thread(file.write, part)

    async def size(self, name: str) -> int | None:
        """Return the size of an object in bytes; None if there is none."""
        try:
            found = await self._within(self._obstore.head_async(self._store, name), name, 0)
        except NotFound:
            return None
        return int(found["size"])

    async def list(self, prefix: str = "") -> AsyncIterator[tuple[str, int]]:
        """Yield names and sizes of objects whose names begin with a folder, in no order."""
        with self._errors(prefix):
            pages = aiter(self._obstore.list(self._store, prefix or None, chunk_size=1000))
            while True:
                try:
                    async with asyncio.timeout(_DEADLINE_S):
                        page = await anext(pages)
                except StopAsyncIteration:
                    return
                for each in page:
                    yield each["path"], each["size"]

    async def delete(self, names: Sequence[str]) -> None:
        """Delete objects; those that are gone do not matter."""
        for name in names:
            try:
                await self._within(self._obstore.delete_async(self._store, name), name, 0)
            except NotFound:
                continue

    async def _within(self, call: Awaitable[Result], name: str, size_bytes: int) -> Result:
        with self._errors(name):
            async with asyncio.timeout(_DEADLINE_S + size_bytes / 1e6 * _MEGABYTE_S):
                return await call

    @contextmanager
    def _errors(self, name: str) -> Iterator[None]:
        """Translate the errors of the library."""
        known = optional("obstore.exceptions", extra=EXTRA, what=self.url)
        where = f"{self.url}/{name}"
        try:
            yield
        except TimeoutError as error:
            raise SinkAway(f"{where}: no answer in time.") from error
        except (known.PermissionDeniedError, known.UnauthenticatedError) as error:
            raise ConfigurationError(
                f"{where} is refused ({_brief(error)}); check the credentials in the environment, "
                "and what they permit."
            ) from error
        except (known.NotFoundError, FileNotFoundError) as error:
            if "NoSuchBucket" in str(error) or "ContainerNotFound" in str(error):
                text = f"There is no bucket for {self.url}; create it."
                raise ConfigurationError(text) from error
            raise NotFound(f"There is no {where}.") from error
        except (known.InvalidPathError, known.NotSupportedError) as error:
            raise ConfigurationError(f"{where} cannot be used ({_brief(error)}).") from error
        except (known.BaseError, OSError) as error:
            raise SinkAway(f"{where}: {_brief(error)}") from error


def _brief(error: Exception) -> str:
    """Return the first line of an error, without secrets."""
    text = next(iter(str(error).strip().splitlines()), "") or type(error).__name__
    return without_secrets(text)[:300]


def _is_plain(scheme: str) -> bool:
    """Return whether the server is named by an address without TLS."""
    endpoint = next((os.environ[name] for name in _ENDPOINTS if os.environ.get(name)), "")
    return scheme == "s3" and endpoint.startswith("http://")


def _aws_options(what: str) -> dict[str, Any]:
    """Return the options of S3 that obstore does not find by itself."""
    options: dict[str, Any] = {"config": {"checksum_algorithm": "SHA256"}}
    for name in _ENDPOINTS:
        if endpoint := os.environ.get(name):
            options["config"]["endpoint"] = endpoint
            break
    if os.environ.get("AWS_ACCESS_KEY_ID"):
        return options
    profile = _profile()
    for name in ("region", "aws_access_key_id", "aws_secret_access_key", "aws_session_token"):
        if profile.get(name):
            options["config"][name.removeprefix("aws_")] = profile[name]
    if profile.keys() & {"role_arn", "sso_session", "sso_start_url", "credential_process"}:
        boto3 = "obstore.auth.boto3"
        provider = optional(boto3, extra=EXTRA, what=f"The AWS profile of {what}")
        options["credential_provider"] = provider.Boto3CredentialProvider()
    return options


def _profile() -> dict[str, str]:
    """Read the profile of AWS_PROFILE, or the default one, from the files of AWS."""
    name = os.environ.get("AWS_PROFILE") or "default"
    folder = Path.home() / ".aws"
    files = {
        os.environ.get("AWS_CONFIG_FILE") or folder / "config": f"profile {name}",
        os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or folder / "credentials": name,
    }
    found: dict[str, str] = {}
    for path, section in files.items():
        parser = ConfigParser(interpolation=None)
        parser.read(path)
        for each in {section, name}:
            if parser.has_section(each):
                found |= dict(parser[each])
    if not found and os.environ.get("AWS_PROFILE"):
        raise ConfigurationError(f"AWS_PROFILE is {name!r}, and there is no such profile.")
    return found


def _sync(path: Path) -> None:
    """Make a file and its name durable."""
    for each in (path, path.parent):
        number = os.open(each, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
