"""Exports in small batches that kill themselves; one process for each, forked to save time.

python -m tests.integration.commands.exporting URI DATABASE MOMENT PATH [MOMENT PATH …]

MOMENT: "torn" (half of a batch is written), "unsaved" (a batch is written, its state is not),
"complete" (the file is complete and not yet in its place) or "in_place" (it is).
"""

import argparse
import os
import signal
import sys
from pathlib import Path
from typing import Any

from crawler.commands.pages import Command
from crawler.storage.export import run
from crawler.storage.mongo import reader
from tests.support.crawlers import project_crawler

BATCH = 7
# The batch in which it is killed; the first call is for what comes before the rows.
NUMBER = 4


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def make_batches_small() -> None:
    reader.BATCH = reader.BATCH_BARE = BATCH
    run._COMMIT_BYTES = 1


def die(moment: str) -> None:
    append, commit, put = run.Export._append, run.Export._commit, run._File.put
    calls = 0

    def killed_append(self: run.Export, data: bytes, *others: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == NUMBER and moment == "torn":
            self._data.write(data[: len(data) // 2])
            kill()
        append(self, data, *others)

    def killed_commit(self: run.Export) -> None:
        if calls == NUMBER and moment == "unsaved":
            kill()
        commit(self)

    async def killed_put(self: Any, result: Path) -> None:
        if moment == "complete":
            kill()
        await put(self, result)
        if moment == "in_place":
            kill()

    run.Export._append, run.Export._commit = killed_append, killed_commit  # type: ignore[method-assign]
    run._File.put = killed_put  # type: ignore[method-assign]


def main(uri: str, database: str, *cases: str) -> None:
    make_batches_small()
    command = Command()
    command.settings = project_crawler(MONGO_URI=uri, MONGO_DATABASE=database).settings
    for moment, path in zip(cases[::2], cases[1::2], strict=True):
        child = os.fork()
        if not child:
            die(moment)
            command.run(["export", "-o", path], argparse.Namespace())
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL, moment


if __name__ == "__main__":
    main(*sys.argv[1:])
