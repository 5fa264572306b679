"""Judge a folder of WARC files from outside: by warcio, and by reading every line of the index."""

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from warcio.archiveiterator import ArchiveIterator

from crawler.storage.warc.reader import Archive, FolderSource
from crawler.urls import fingerprint

CAPTURES = {"response", "revisit"}


@dataclass
class Audit:
    """What is in a folder. `lines` are the fields of the merged index, in order."""

    files: list[Path]
    lines: list[dict[str, Any]]
    # Captures in the files, and those of them that the merged index leaves out.
    captures: int
    types: Counter[str]

    @property
    def unindexed(self) -> int:
        return self.captures - len(self.lines)

    def pages(self, urls: Iterable[str]) -> Counter[str]:
        """How often the index has each of these canonical URLs, however it was written."""
        by_hash = {f"{fingerprint(url):016x}": url for url in urls}
        found = (by_hash.get(line["urlhash"]) for line in self.lines if line["status"] == "200")
        return Counter(url for url in found if url is not None)


def merged_index(folder: Path) -> list[dict[str, Any]]:
    async def read() -> list[dict[str, Any]]:
        async with Archive([FolderSource(folder)]).indexes() as lines:
            found = list(lines)
        assert found == sorted(found)
        return [json.loads(line.split(b" ", 2)[2]) for line in found]

    return asyncio.run(read())


def record_at(folder: Path, place: dict[str, Any]) -> Any:
    """Read one record by its place, with warcio; its body as `content`."""
    with (folder / str(place.get("filename") or place["file"])).open("rb") as file:
        file.seek(int(place["offset"]))
        data = file.read(int(place["length"]))
    (record,) = list(_records(BytesIO(data)))
    return record


def _records(stream: Any) -> Any:
    for record in ArchiveIterator(stream):
        record.content = record.content_stream().read()
        yield record


def check_by_warcio(files: list[Path]) -> None:
    """Let `warcio check` verify all digests and the form of every record."""
    for at in range(0, len(files), 100):
        done = subprocess.run(
            [sys.executable, "-m", "warcio.cli", "check", *map(str, files[at : at + 100])],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


def audit(folder: Path) -> Audit:
    """Check everything in a folder; AssertionError for whatever is not as it must be."""
    names = {path.name for path in folder.iterdir()}
    left = {name for name in names if name.endswith((".open", ".part"))}
    assert not left, left
    files = sorted(folder.glob("*.warc.gz"))
    assert names == {part for file in files for part in (file.name, _index(file))}
    check_by_warcio(files)
    types: Counter[str] = Counter()
    for file in files:
        with file.open("rb") as stream:
            iterator = ArchiveIterator(stream)
            for record in iterator:
                types[record.rec_type] += 1
                iterator.read_to_end()
            # Nothing torn follows the last record.
            assert iterator.get_record_offset() + iterator.get_record_length() == _size(file)
    lines = merged_index(folder)
    keys = Counter((line["crawl"], line["urlhash"], line["visit"]) for line in lines)
    assert not [key for key, count in keys.items() if count > 1]
    for line in lines:
        record = record_at(folder, line)
        headers = record.rec_headers
        assert record.rec_type in CAPTURES
        assert headers.get_header("WARC-Target-URI") == line["url"]
        assert headers.get_header("WARC-URL-Hash") == line["urlhash"]
        assert headers.get_header("WARC-Visit") == line["visit"]
    return Audit(files, lines, sum(types[kind] for kind in CAPTURES), types)


def _index(file: Path) -> str:
    return file.name.removesuffix(".warc.gz") + ".cdxj"


def _size(file: Path) -> int:
    return file.stat().st_size
