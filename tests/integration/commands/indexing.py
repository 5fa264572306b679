"""Updates of search indexes that kill themselves; one process for each, forked to save time.

python -m tests.integration.commands.indexing URI DATABASE MOMENT FOLDER [MOMENT FOLDER …]

MOMENT: "added" (pages are added and not committed), "committed" (some are) or "done" (all are).
"""

import argparse
import os
import signal
import sys
from typing import Any

from crawler.commands.pages import Command
from crawler.storage.mongo import reader
from crawler.storage.search import update
from crawler.storage.search.index import IndexWriter
from tests.support.crawlers import project_crawler

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


def index(uri: str, database: str, folder: str) -> None:
    command = Command()
    values = {"MONGO_URI": uri, "MONGO_DATABASE": database, "SEARCH_DIR": folder}
    command.settings = project_crawler(**values).settings
    command.run(["index"], argparse.Namespace())


def main(uri: str, database: str, *runs: str) -> None:
    make_batches_small()
    for moment, folder in zip(runs[::2], runs[1::2], strict=True):
        child = os.fork()
        if not child:
            die(moment)
            index(uri, database, folder)
            os._exit(1)
        status = os.waitpid(child, 0)[1]
        assert os.WIFSIGNALED(status), f"{moment}: it was not killed"


if __name__ == "__main__":
    main(*sys.argv[1:])
