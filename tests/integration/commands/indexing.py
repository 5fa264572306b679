"""Updates of search indexes that kill themselves; one process for each, forked to save time.

python -m tests.integration.commands.indexing URI DATABASE MOMENT FOLDER [MOMENT FOLDER …]

MOMENT: "added" (pages are added and not committed), "committed" (some are) or "done" (all are).
"""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from pymongo import AsyncMongoClient

from crawler.storage.mongo import reader
from crawler.storage.mongo.reader import MongoReader
from crawler.storage.search import update
from crawler.storage.search.index import IndexWriter, SearchSettings
from crawler.storage.search.update import Update

BATCH, WINDOW = 14, 20


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def make_batches_small() -> None:
    reader.BATCH = reader.BATCH_BARE = BATCH
    update._WINDOW, update._COMMIT_S = WINDOW, 0.0


def die(moment: str) -> None:
    commit, calls = IndexWriter.commit, 0

    def killed_commit(self: IndexWriter) -> None:
        nonlocal calls
        calls += 1
        if calls == 3 and moment == "added":
            kill()
        commit(self)
        if calls == 3 and moment == "committed":
            kill()

    def killed_exit(self: IndexWriter, *error: Any) -> None:
        kill()

    IndexWriter.commit = killed_commit  # type: ignore[method-assign]
    if moment == "done":
        IndexWriter.__exit__ = killed_exit  # type: ignore[method-assign]


async def index(uri: str, database: str, folder: str) -> None:
    # Not by the command, whose imports take longer than all updates.
    async with AsyncMongoClient[dict[str, Any]](uri, tz_aware=True) as client:
        with IndexWriter(SearchSettings(Path(folder))) as writer:
            async for _ in Update(writer, MongoReader(client[database])).run():
                pass


def main(uri: str, database: str, *runs: str) -> None:
    make_batches_small()
    for moment, folder in zip(runs[::2], runs[1::2], strict=True):
        child = os.fork()
        if not child:
            die(moment)
            asyncio.run(index(uri, database, folder))
            os._exit(1)
        status = os.waitpid(child, 0)[1]
        assert os.WIFSIGNALED(status), f"{moment}: it was not killed"


if __name__ == "__main__":
    main(*sys.argv[1:])
