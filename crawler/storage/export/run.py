"""Run an export that may be killed at any moment: the next run goes on where it was.

Rows are appended to a file in a folder of work:

    lock    held by flock while an export runs
    data    the rows so far
    state   the command line, the last page, and the bytes of `data` up to it
    result  the complete file, if that is not `data`

`state` is replaced when `data` is synced. So a run cuts off what follows the bytes of `state`, and
reads on after its last page. The output is replaced as a whole at the end.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import sha256
from io import FileIO
from pathlib import Path
from time import monotonic
from typing import Any, Protocol, Self
from urllib.parse import urlsplit

from bson import json_util

from crawler.errors import ConfigurationError, CrawlerError
from crawler.servers.objects import ObjectStore, is_store_url
from crawler.storage.disk_log import is_same_file, sync_folder
from crawler.storage.export.formats import Format
from crawler.storage.reader import Batch
from crawler.util.tasks import in_thread

# What a kill may cost, in bytes and in seconds. A sync takes some milliseconds.
_COMMIT_BYTES, _COMMIT_S = 16 * 1024 * 1024, 1.0


class Output(Protocol):
    """Place that an export goes to. `work` is the folder in which it is made."""

    work: Path

    async def check(self) -> None:
        """Raise ConfigurationError or SinkAway if it cannot be written."""

    async def put(self, result: Path) -> None:
        """Write the complete file, in place of what is there."""

    def leave(self) -> None:
        """Remove what was made for `work`, which is gone; blocks."""


def output_of(target: str, crawl_dir: Path) -> Output:
    """Make the output that a path or a URL names."""
    path = Path(target)
    if not path.name or "\0" in target:
        raise ConfigurationError(f"-o {target!r} names no file; use a name such as pages.jsonl")
    return _Object(target, crawl_dir) if is_store_url(target) else _File(path)


class _File:
    """File as the output of an export."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.work = path.with_name(f"{path.name}.part")

    async def check(self) -> None:
        await asyncio.to_thread(self._check)

    def _check(self) -> None:
        path, folder = self._path, self._path.parent
        if not folder.is_dir():
            raise ConfigurationError(f"{path} cannot be written: there is no folder {folder}.")
        if path.exists() and not path.is_file():
            raise ConfigurationError(
                f"{path} is there and no file that could be replaced; name another, or - for "
                "standard output."
            )
        if self.work.exists() and not self.work.is_dir():
            raise ConfigurationError(
                f"{self.work} is there, where the export is made; remove it, or name another file."
            )

    async def put(self, result: Path) -> None:
        await in_thread(self._put, result)

    def _put(self, result: Path) -> None:
        result.replace(self._path)
        sync_folder(self._path.parent)

    def leave(self) -> None:
        """Remove nothing: the folder is not ours."""


class _Object:
    """Object of a store as the output of an export."""

    def __init__(self, url: str, crawl_dir: Path) -> None:
        if not urlsplit(url).path.strip("/") or url.endswith("/"):
            raise ConfigurationError(f"-o {url} names no object; use {url.rstrip('/')}/pages.jsonl")
        try:
            name = sha256(url.encode()).hexdigest()[:16]
        except UnicodeEncodeError as error:
            raise ConfigurationError(f"-o {url!r} is no UTF-8; use another name.") from error
        prefix, _, self._name = url.rpartition("/")
        self._store = ObjectStore.from_url(prefix if prefix[-1] != "/" else f"{prefix}/", what="-o")
        self.work = crawl_dir / "export" / name

    async def check(self) -> None:
        await self._store.check()

    async def put(self, result: Path) -> None:
        await self._store.upload(self._name, result)

    def leave(self) -> None:
        with suppress(OSError):
            # Unless another export is at work in it.
            self.work.parent.rmdir()


@dataclass(slots=True)
class State:
    """State of an export, as it is stored."""

    arguments: dict[str, Any]
    began: str
    # Pages that were read, and rows that were written of them.
    pages: int = 0
    rows: int = 0
    # Pages whose content cannot be read.
    unread: int = 0
    data_bytes: int = 0
    # `_id` of the last page.
    last: Any = None


class Export:
    """Export of pages to an output, as a context. One at a time may have the same output."""

    def __init__(self, output: Output, form: Format, arguments: dict[str, Any]) -> None:
        """`arguments` tell whether an earlier run was of the same command line."""
        self.work = output.work
        self._output = output
        self._form = form
        self._arguments = json_util.loads(json_util.dumps(arguments))
        self.state = State(self._arguments, datetime.now(UTC).isoformat())
        # Whether an export with other arguments was given up for this one.
        self.is_other = False
        self._files = ExitStack()
        self._data: FileIO
        self._synced_bytes = 0
        self._synced_s = monotonic()

    async def __aenter__(self) -> Self:
        with self._errors():
            await self._output.check()
            try:
                await in_thread(self._open)
            except BaseException:
                self._files.close()
                raise
        return self

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        with suppress(OSError):
            await in_thread(self._close, error)

    @property
    def began(self) -> datetime:
        return datetime.fromisoformat(self.state.began)

    async def run(self, batches: AsyncIterator[Batch]) -> AsyncIterator[int]:
        """Write all pages after the last one; yields the number of pages since the last time."""
        async for batch in batches:
            data, rows = await in_thread(self._form.rows, batch.pages)
            with self._errors():
                await in_thread(self._append, data, batch, rows)
            yield len(batch.pages)

    async def finish(self) -> None:
        """Complete the file and put it in its place."""
        with self._errors():
            result = await in_thread(self._complete)
            await self._output.put(result)

    def _open(self) -> None:
        self._files.enter_context(self._locked())
        state = self._stored_state()
        self._data = self._files.enter_context(self._path("data").open("ab", buffering=0))
        if state is not None and state.arguments == self._arguments:
            self.state = state
            self._data.truncate(state.data_bytes)
            self._synced_bytes = state.data_bytes
            return
        self.is_other = state is not None
        # In this order: rows without a state are no rows.
        self._path("state").unlink(missing_ok=True)
        self._data.truncate(0)
        self._append(self._form.begin(), Batch([]), 0)

    def _locked(self) -> FileIO:
        path = self._path("lock")
        while True:
            try:
                self.work.mkdir(parents=True, exist_ok=True)
                file = path.open("ab", buffering=0)
            except FileNotFoundError:
                # Another export has just ended.
                continue
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.close()
                raise ConfigurationError(
                    f"Another export is at work in {self.work}; wait for its end, or name another "
                    "output."
                ) from None
            if is_same_file(file, path):
                return file
            file.close()

    def _stored_state(self) -> State | None:
        """Read the state of an earlier run; None if there is none that could go on."""
        try:
            state = State(**json_util.loads(self._path("state").read_text(encoding="utf-8")))
            size = self._path("data").stat().st_size
        except (FileNotFoundError, TypeError, ValueError):
            return None
        # It is shorter if the file was put in its place, and the folder is still there.
        return state if size >= state.data_bytes else None

    def _append(self, data: bytes, batch: Batch, rows: int) -> None:
        left = memoryview(data)
        while left:
            left = left[self._data.write(left) :]
        state = self.state
        state.pages += len(batch.pages)
        state.rows += rows
        state.unread += batch.unread
        state.data_bytes += len(data)
        if batch.pages:
            state.last = batch.pages[-1][0]["_id"]
        unsynced = state.data_bytes - self._synced_bytes
        if unsynced >= _COMMIT_BYTES or monotonic() - self._synced_s >= _COMMIT_S:
            self._commit()

    def _commit(self) -> None:
        os.fsync(self._data.fileno())
        new = self._path("state.new")
        with new.open("w", encoding="utf-8") as file:
            file.write(json_util.dumps(asdict(self.state)))
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._path("state"))
        self._synced_bytes, self._synced_s = self.state.data_bytes, monotonic()

    def _complete(self) -> Path:
        self._commit()
        result = self._form.finish(self._path("data"), self._path("result"))
        with result.open("rb") as file:
            os.fsync(file.fileno())
        return result

    def _close(self, error: BaseException | None) -> None:
        with self._files:
            if error is not None and self.state.pages:
                self._commit()
                return
            for name in ("state", "state.new", "data", "result", "lock"):
                self._path(name).unlink(missing_ok=True)
            self.work.rmdir()
            self._output.leave()

    def _path(self, name: str) -> Path:
        return self.work / name

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Translate errors of the disk."""
        try:
            yield
        except OSError as error:
            reason = error.strerror or error
            raise CrawlerError(
                f"{self.work} cannot be written ({reason}); make that possible, or name another "
                "output."
            ) from error
