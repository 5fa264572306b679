"""Where the processes of a fleet write: a folder for each crawl, in it a file for each process."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from urllib.parse import quote


def folder_of(crawl_dir: str, crawl: str) -> Path:
    """The folder of a crawl's logs; its name may have characters that a folder's cannot have."""
    name = quote(crawl, safe="")
    return Path(crawl_dir, "fleet", name if name.strip(".") else name.replace(".", "%2E"))


def fresh_log(folder: Path, process: str) -> Path:
    """A file for what a process will write; what was written before is kept once, as `.1`.

    A process of an earlier fleet that still runs goes on writing there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{process.replace(' ', '-')}.log"
    with suppress(FileNotFoundError):
        log.replace(log.with_suffix(".log.1"))
    return log
