"""Object stores: s3://bucket/prefix, gs://bucket/prefix, az://container/prefix and file:///folder.

Credentials are those of the platform: environment variables, the profile of AWS, the role of the
instance. No URL has any, so none is logged. An S3 server elsewhere is named by AWS_ENDPOINT_URL.

Every call has a deadline. Errors are SinkAway if they may pass, NotFound if there is no such
object, ConfigurationError for everything that people have to change, and CrawlerError if the store
takes other objects, but never this one.

Needs the extra `s3`, also for folders.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from configparser import ConfigParser
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from crawler.errors import ConfigurationError, CrawlerError, NotFound, SinkAway
from crawler.util.extras import optional
from crawler.util.secrets import without_secrets
from crawler.util.tasks import in_parallel

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Store

EXTRA = "s3"
SCHEMES = ("s3", "gs", "az", "file")
# Deadline of a call, and of each megabyte that it transfers: a slow line has 100 kB a second.
_DEADLINE_S, _MEGABYTE_S = 30.0, 10.0
# A request has a part at most, so it ends within this time on the slowest line.
_CLIENT = {"connect_timeout": timedelta(seconds=5), "timeout": timedelta(seconds=120)}
# The caller repeats what fails: here only for hiccups.
_RETRIES = {"max_retries": 2, "retry_timeout": timedelta(seconds=10)}
# Parts of an upload and of a download. S3 takes 10,000 parts of an object at most.
_PART_BYTES = 8 * 1024 * 1024
_PARTS_MAX = 9_000
_PARTS_AT_ONCE = 4
# Addresses of other servers than those of the platform, the first that is set.
_ENDPOINTS = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "gs": ("GOOGLE_BASE_URL",),
    "az": ("AZURE_ENDPOINT", "AZURE_STORAGE_ENDPOINT"),
}
# Other ways in which AWS gives credentials to a process, besides the role of the instance.
_OTHER_CREDENTIALS = (
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
_EXIT_S = 0.1
_PROBE = ".crawler-probe"
# Objects that S3 deletes by one request, and requests at a time to stores that delete one by one.
_DELETED_AT_ONCE, _DELETIONS = 1000, 16


def is_store_url(text: str) -> bool:
    """Return whether a text names an object store."""
    return text.partition("://")[0] in SCHEMES and "://" in text


@cache
def _wait_at_exit() -> None:
    """Give the threads of the library time to let go of Python's objects before Python ends.

    One that does so later, as after an error just before the end, aborts the process (SIGABRT).
    """
    atexit.register(time.sleep, _EXIT_S)


def deadline_s(size_bytes: int) -> float:
    """Return the seconds that requests of so many bytes may take."""
    return _DEADLINE_S + size_bytes / 1e6 * _MEGABYTE_S


class ObjectStore:
    """Object store, or a prefix of one. Names of objects are relative to the prefix."""

    def __init__(self, url: str, store: Store, folder: Path | None = None) -> None:
        """`folder` is where the objects of a local store are."""
        self.url = url
        self._store = store
        self.folder = folder
        self._obstore = optional("obstore", extra=EXTRA, what=url)
        _wait_at_exit()

    @classmethod
    def from_url(cls, url: str, *, what: str, create: bool = True) -> ObjectStore:
        """Make the store of a URL. `what` is the setting or option that has it.

        A folder that does not exist is made with `create`, and an error without.
        """
        shown = without_secrets(url)
        if not is_store_url(url):
            raise ConfigurationError(
                f"{what} is {shown!r}; use s3://bucket/prefix, gs://…, az://… or file:///folder."
            )
        try:
            parts = urlsplit(url)
        except ValueError as error:
            raise ConfigurationError(f"{what} is {shown!r}, which is no URL ({error}).") from error
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ConfigurationError(
                f"{what} has credentials or options in its URL; give credentials as the platform "
                "has them (environment, profile, role), and only bucket and prefix in the URL."
            )
        if parts.scheme != "file" and not parts.netloc:
            raise ConfigurationError(f"{what} is {shown!r}, without a bucket; use s3://bucket/…")
        if parts.scheme == "file" and (parts.netloc or not parts.path.strip("/")):
            raise ConfigurationError(
                f"{what} is {shown!r}; name a folder by its whole path: file:///folder."
            )
        stores = optional("obstore.store", extra=EXTRA, what=what)
        url = url.rstrip("/")
        try:
            if parts.scheme == "file":
                folder = Path(url2pathname(parts.path)).absolute()
                return cls(url, stores.LocalStore(folder, mkdir=create), folder)
            endpoint = _endpoint(parts.scheme)
            options = _aws_options(what, endpoint) if parts.scheme == "s3" else {}
            endpoint = options.get("config", {}).get("endpoint", endpoint)
            client = {**_CLIENT, "allow_http": endpoint.startswith("http://")}
            store = stores.from_url(url, client_options=client, retry_config=_RETRIES, **options)
        except ConfigurationError:
            raise
        except Exception as error:  # obstore raises errors of many classes for bad options
            brief = _Failure(str(error)).brief
            raise ConfigurationError(f"{what} is {shown!r} ({brief}).") from error
        return cls(url, store)

    async def check(self) -> None:
        """Write an object and delete it; SinkAway or ConfigurationError if it is not taken."""
        await self.put(_PROBE, b"")
        # Credentials may permit writes only. Then an empty object stays.
        with suppress(ConfigurationError):
            await self.delete([_PROBE])

    async def put(self, name: str, data: bytes, *, storage_class: str = "") -> None:
        """Write an object; it is there as a whole or not at all."""
        await self._put(name, data, len(data), storage_class)

    async def upload(self, name: str, path: Path, *, storage_class: str = "") -> None:
        """Write a file as an object, in parts with checksums; return when it is there as a whole.

        The store compares the SHA-256 of each part. An upload that a crash ended leaves no object,
        and is begun anew.
        """
        size = (await asyncio.to_thread(path.stat)).st_size
        await self._put(name, path, size, storage_class)
        found = await self.size(name)
        if found != size:
            raise SinkAway(f"{self.url}/{name} has {found} bytes after an upload of {size}.")

    async def _put(self, name: str, data: bytes | Path, size: int, storage_class: str) -> None:
        attributes = {"Storage-Class": storage_class} if storage_class else None
        if self.folder is not None:
            attributes = None
        await self._call(
            *(self._obstore.put_async, name, data),
            size_bytes=size,
            attributes=attributes,
            chunk_size=part_bytes(size),
            max_concurrency=_PARTS_AT_ONCE,
        )
        if self.folder is not None:
            await asyncio.to_thread(_sync, self.folder / name, self.folder)

    async def get(self, name: str) -> bytes:
        """Read an object."""
        found = await self._call(self._obstore.get_async, name)
        with self._errors(name):
            async with asyncio.timeout(deadline_s(found.meta["size"])):
                return bytes(await found.bytes_async())

    async def get_range(self, name: str, start: int, length: int) -> bytes:
        """Read a part of an object."""
        read = self._obstore.get_range_async
        return bytes(await self._call(read, name, size_bytes=length, start=start, length=length))

    async def download(self, name: str, path: Path) -> None:
        """Write an object to a file."""
        size = await self.size(name)
        if size is None:
            raise NotFound(f"There is no {self.url}/{name}.")
        with path.open("wb") as file:
            for start in range(0, size, _PART_BYTES):
                part = await self.get_range(name, start, min(_PART_BYTES, size - start))
                await asyncio.to_thread(file.write, part)

    async def size(self, name: str) -> int | None:
        """Return the size of an object in bytes; None if there is none."""
        try:
            found = await self._call(self._obstore.head_async, name)
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
        if not self.url.startswith("s3:"):
            await in_parallel(_DELETIONS, self._delete_one, names)
            return
        # S3 does not mind names that it lacks.
        for start in range(0, len(names), _DELETED_AT_ONCE):
            part = list(names[start : start + _DELETED_AT_ONCE])
            with self._errors(part[0] if len(part) == 1 else "…"):
                async with asyncio.timeout(_DEADLINE_S):
                    await self._obstore.delete_async(self._store, part)

    async def _delete_one(self, name: str) -> None:
        with suppress(NotFound):
            await self._call(self._obstore.delete_async, name)

    async def check_deletion(self) -> None:
        """Delete an object that is not there; SinkAway or ConfigurationError if it is refused."""
        await self.delete([_PROBE])

    async def _call(
        self,
        function: Callable[..., Awaitable[Any]],
        name: str,
        *args: Any,
        size_bytes: int = 0,
        **options: Any,
    ) -> Any:
        """Call a function of the library for an object, within the time that its size needs."""
        with self._errors(name):
            async with asyncio.timeout(deadline_s(size_bytes)):
                return await function(self._store, name, *args, **options)

    @contextmanager
    def _errors(self, name: str) -> Iterator[None]:
        """Translate the errors of the library."""
        known = optional("obstore.exceptions", extra=EXTRA, what=self.url)
        where = f"{self.url}/{name}"
        try:
            yield
        except TimeoutError as error:
            raise SinkAway(f"{where}: no answer in time.") from error
        except (known.NotFoundError, FileNotFoundError) as error:
            failure = _Failure(str(error))
            if failure.code in _NO_BUCKET or failure.is_of_credentials:
                raise failure.translated(self.url, where) from error
            raise NotFound(f"There is no {where}.") from error
        except (known.InvalidPathError, known.NotSupportedError, ValueError) as error:
            text = f"{where} cannot be used ({_Failure(str(error)).brief})."
            raise ConfigurationError(text) from error
        except (known.BaseError, OSError) as error:
            raise _Failure(str(error)).translated(self.url, where) from error


_NO_BUCKET = frozenset({"NoSuchBucket", "ContainerNotFound"})
# The store takes other objects, but never this one, or has not the part that was asked for.
_OF_OBJECT = frozenset({"EntityTooLarge", "KeyTooLongError", "RequestBodyTooLarge"})
_STATUSES_OF_OBJECT = frozenset({413, 414, 416})
_ARCHIVED, _DENIED = "InvalidObjectState", "AccessDenied"
# Signatures have the time.
_SKEWED = "RequestTimeTooSkewed"
# Statuses and codes below 500 that pass.
_PASSING_STATUSES = frozenset({408, 409, 429})
_PASSING = frozenset({"RequestTimeout", "OperationAborted", "SlowDown"})
# Requests that ask the platform for the role of the instance.
_ROLE = re.compile(
    r"performing \w+ \S+(/latest/(api|meta-data)|/computeMetadata/|/metadata/identity)"
)
_STATUS = re.compile(r"status code: (\d{3} [\w ]*)")
# The latter of one object among those that a request deletes.
_CODE = re.compile(r"<Code>([^<]{1,100})</Code>|\(code: (\w{1,100})\)")
_MESSAGE = re.compile(r"<Message>([^<\n]{1,200})|\"message\": \"([^\"]{1,200})")
_CAUSE = re.compile(r"message: \"([^\"]{1,200})\"")
_SERVER = re.compile(r"performing \w+ (\w+://[^/\s]+)")
_SHOWN_CHARS = 300


class _Failure:
    """Text of an error of the library: what the server answered, or why there is no answer."""

    def __init__(self, text: str) -> None:
        self._text = text
        found = _CODE.search(text)
        self.code = (found[1] or found[2]) if found else ""
        found = _STATUS.search(text)
        self._answer = found[1] if found else ""
        self.status = int(self._answer[:3] or 0)

    @property
    def is_of_credentials(self) -> bool:
        """Whether there are no credentials, and no role of the instance to get some."""
        return bool(_ROLE.search(self._text))

    @property
    def brief(self) -> str:
        """The error in a line, without secrets."""
        server, message = _SERVER.search(self._text), _MESSAGE.search(self._text)
        if self._answer:
            parts = [self._answer, self.code, (message[1] or message[2]) if message else ""]
        else:
            cause = _CAUSE.search(self._text)
            first = self._text.strip().partition("\n")[0].rpartition(" - ")[2]
            parts = [server[1] if server else "", first, cause[1] if cause else ""]
        return without_secrets(": ".join(part.strip() for part in parts if part))[:_SHOWN_CHARS]

    def translated(self, url: str, where: str) -> CrawlerError:
        """Return the error of ours that says what to do."""
        if self.is_of_credentials:
            return ConfigurationError(
                f"There are no credentials for {url}: set those of the platform in the environment "
                "(of AWS: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE), or give "
                f"the machine a role ({self.brief})."
            )
        if self.code in _NO_BUCKET:
            return ConfigurationError(f"There is no bucket for {url}; create it.")
        if self.code in _OF_OBJECT or self.status in _STATUSES_OF_OBJECT:
            return CrawlerError(f"{where} is refused ({self.brief}).")
        if self.code == _ARCHIVED:
            return CrawlerError(
                f"{where} is in a storage class that cannot be read at once; restore it first "
                f"({self.brief})."
            )
        if self.code == _SKEWED:
            return SinkAway(
                f"{where} is refused ({self.brief}): the clocks of this machine and of the server "
                "differ; set the wrong one (NTP keeps clocks right)."
            )
        if self.status in (401, 403) or self.code == _DENIED:
            return ConfigurationError(
                f"{where} is refused ({self.brief}); check the credentials in the environment, "
                "and what they permit."
            )
        if self.code not in _PASSING and self.status not in _PASSING_STATUSES:
            if "redirect without LOCATION" in self._text:
                return ConfigurationError(f"{url} is in another region; set AWS_REGION.")
            if 300 <= self.status < 500:
                return ConfigurationError(
                    f"{where} is refused ({self.brief}); check its bucket, region, credentials and "
                    "storage class."
                )
        return SinkAway(f"{where}: {self.brief}")


def part_bytes(size: int) -> int:
    """Return the size of the parts of an upload."""
    return max(_PART_BYTES, -(-size // _PARTS_MAX))


def _endpoint(scheme: str) -> str:
    """Return the address of a server that the environment names, or an empty text."""
    return next((os.environ[name] for name in _ENDPOINTS[scheme] if os.environ.get(name)), "")


def _aws_options(what: str, endpoint: str) -> dict[str, Any]:
    """Return the options of S3 that obstore does not find by itself."""
    environment, profile = os.environ, _profile()
    config = {"checksum_algorithm": "SHA256"}
    if endpoint := endpoint or profile.get("endpoint_url", ""):
        config["endpoint"] = endpoint
    if not (environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")):
        config |= {name: profile[name] for name in ("region",) if profile.get(name)}
    if environment.get("AWS_ACCESS_KEY_ID"):
        return {"config": config}
    if profile.keys() & {"role_arn", "sso_session", "sso_start_url", "credential_process"}:
        return {"config": config, "credential_provider": _boto3_provider(what)}
    for name in ("aws_access_key_id", "aws_secret_access_key", "aws_session_token"):
        if profile.get(name):
            config[name.removeprefix("aws_")] = profile[name]
    is_off = environment.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true"
    if (
        "access_key_id" not in config
        and is_off
        and not any(map(environment.get, _OTHER_CREDENTIALS))
    ):
        raise ConfigurationError(
            f"There are no credentials for {what}: set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or let AWS_EC2_METADATA_DISABLED be false."
        )
    return {"config": config}


def _boto3_provider(what: str) -> Any:
    try:
        provider = import_module("obstore.auth.boto3")
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"The AWS profile of {what} has a role, a single sign-on or a process, which needs the "
            "package boto3, which is not installed: pip install boto3"
        ) from error
    return provider.Boto3CredentialProvider()


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
        parser = ConfigParser(interpolation=None, strict=False)
        parser.read(path)
        for each in {section, name}:
            if parser.has_section(each):
                found |= dict(parser[each])
    if not found and os.environ.get("AWS_PROFILE"):
        raise ConfigurationError(f"AWS_PROFILE is {name!r}, and there is no such profile.")
    return found


def _sync(path: Path, folder: Path) -> None:
    """Make a file of a folder and its name durable, with the folders between them."""
    while True:
        number = os.open(path, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
        if path == folder:
            return
        path = path.parent
