"""`scrapy archive`: list, verify and read WARC files, merge their indexes, upload them.

The archive is that of SINKS (warc:FOLDER) and WARC_UPLOAD, or the folders and URLs given by --in.
Exit 0: found, or nothing is damaged; 1: not found, or damaged; 2: wrong arguments or settings; 3:
the object store does not answer.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING

from scrapy.commands import ScrapyCommand

from crawler import config
from crawler.admin.queries import canonical_url
from crawler.commands._verbs import (
    Verb,
    VerbCommand,
    add_json_option,
    harmless,
    print_json,
    print_table,
    progress_bar,
)
from crawler.config.values import url_rules
from crawler.errors import ConfigurationError, CrawlerError, NotFound
from crawler.servers.objects import ObjectStore, is_store_url
from crawler.storage.bodies import archive_folders, archive_of_settings
from crawler.storage.sinks import WARC
from crawler.storage.warc.index import Line
from crawler.storage.warc.reader import (
    Archive,
    FolderSource,
    Source,
    StoreSource,
    Verified,
    unpacked,
    unpacked_body,
)
from crawler.storage.warc.sink import FOLDER
from crawler.storage.warc.upload import SETTING, Uploads
from crawler.urls import Urls, fingerprint
from crawler.util.format import plural, size

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings


# --- the archive ----------------------------------------------------------------------------------


def _archive_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--in",
        dest="where",
        action="append",
        metavar="PLACE",
        help="folder or URL of the archive, may be repeated (those of SINKS and WARC_UPLOAD)",
    )


def archive_of(settings: BaseSettings, where: list[str] | None) -> Archive:
    """Return the archive in these places, or that of the settings."""
    return Archive([_source(place) for place in where]) if where else archive_of_settings(settings)


def _source(place: str) -> Source:
    if is_store_url(place):
        return StoreSource(ObjectStore.from_url(place, what="--in", create=False))
    if not Path(place).is_dir():
        raise ConfigurationError(f"--in {place}: there is no such folder.")
    return FolderSource(Path(place))


Work = Callable[[Archive, argparse.Namespace], Awaitable[None]]


def on_archive(work: Work) -> Callable[[BaseSettings, argparse.Namespace], None]:
    """Make the function of a verb that reads an archive."""

    async def checked(archive: Archive, arguments: argparse.Namespace) -> None:
        if not await archive.files():
            raise NotFound(
                f"There are no WARC files in {archive.where}: crawl with -s "
                f'SINKS="mongo {WARC}:{FOLDER}/", or name their folder by --in.'
            )
        await work(archive, arguments)

    def run(settings: BaseSettings, arguments: argparse.Namespace) -> None:
        try:
            asyncio.run(checked(archive_of(settings, arguments.where), arguments))
        except BrokenPipeError:
            raise
        except OSError as error:
            raise CrawlerError(f"The archive cannot be read ({error}).") from error

    return run


# --- list -----------------------------------------------------------------------------------------


def _list_arguments(parser: argparse.ArgumentParser) -> None:
    _archive_option(parser)
    add_json_option(parser)


async def _list(archive: Archive, arguments: argparse.Namespace) -> None:
    files = await archive.files()
    if arguments.json:
        rows = [
            {
                "file": file.name.file,
                "bytes": file.size_bytes,
                "complete": not file.name.is_open,
                "indexed": file.index_bytes is not None,
                "where": file.source.where,
            }
            for file in files
        ]
        print_json(rows)
        return
    table = [
        (size(file.size_bytes), "open" if file.name.is_open else "complete", file.name.file)
        for file in files
    ]
    print_table(("size", "state", "file"), table)
    total = size(sum(file.size_bytes for file in files))
    print(f"{plural(len(files), 'file')}, {total}, in {archive.where}", file=sys.stderr)


# --- verify ---------------------------------------------------------------------------------------


def _verify_arguments(parser: argparse.ArgumentParser) -> None:
    _archive_option(parser)
    add_json_option(parser)


async def _verify(archive: Archive, arguments: argparse.Namespace) -> None:
    total = sum(file.size_bytes for file in await archive.files())
    found = Verified()
    with progress_bar("bytes", total) as advance:
        async for file in archive.verify(found):
            advance(file.size_bytes)
    if arguments.json:
        print_json(
            {
                "files": found.files,
                "bytes": found.size_bytes,
                "records": found.records,
                "captures": found.captures,
                "indexed": found.indexed,
                "damage": found.damage,
            }
        )
    else:
        print(
            f"{plural(found.files, 'file')}, {size(found.size_bytes)}: "
            f"{plural(found.records, 'record')}, {plural(found.captures, 'capture')}, "
            f"{found.indexed:,} of them in the merged index"
        )
        for line in found.damage:
            print(harmless(line))
    if found.damaged:
        raise NotFound(f"{plural(found.damaged, 'damaged place')} in {archive.where}.")
    if not arguments.json:
        print("Everything is whole.")


# --- get ------------------------------------------------------------------------------------------


def _get_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL")
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--body", action="store_true", help="its body, unpacked (the default)")
    part.add_argument("--record", action="store_true", help="its WARC record, as it is")
    part.add_argument("--list", action="store_true", help="the index lines of all its captures")
    parser.add_argument(
        "--at",
        metavar="TIME",
        type=_timestamp,
        help="the capture at 20261118, 20261118042500 or 2026-11-18T04:25, or the last before it",
    )
    _archive_option(parser)


def _timestamp(text: str) -> str:
    digits = "".join(filter(str.isdigit, text))
    if not 4 <= len(digits) <= 14 or set(text) - set("0123456789-:TZ "):
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write 20261118 or 20261118042500")
    return digits.ljust(14, "9")


def _get(settings: BaseSettings, arguments: argparse.Namespace) -> None:
    url = canonical_url(Urls(url_rules(settings)), arguments.url)

    async def get(archive: Archive, _: argparse.Namespace) -> None:
        urls = list(dict.fromkeys((arguments.url, url)))
        found = await archive.find(urls, f"{fingerprint(url):016x}")
        if arguments.at:
            found = [line for line in found if line.timestamp <= arguments.at]
        if not found:
            before = " before that time" if arguments.at else ""
            bare = [file for file in await archive.files() if file.index_bytes is None]
            more = f" {plural(len(bare), 'file')} without an index: run scrapy pages repair."
            raise NotFound(f"{url} is not in {archive.where}{before}.{more if bare else ''}")
        await _print_capture(archive, found, arguments)

    on_archive(get)(settings, arguments)


async def _print_capture(
    archive: Archive, found: list[Line], arguments: argparse.Namespace
) -> None:
    if arguments.list:
        for line in found:
            sys.stdout.buffer.write(line.encoded())
        return
    line = found[-1]
    if arguments.record:
        record = unpacked(await archive.read(line), line.fields["filename"], parse_http=False)
        record.write(sys.stdout.buffer)
    else:
        head, body = await archive.payload(line)
        sys.stdout.buffer.write(await asyncio.to_thread(unpacked_body, head, body))
    if len(found) > 1:
        text = f"This is the newest of {len(found)} captures; --list shows them, --at chooses."
        print(text, file=sys.stderr)


# --- cdxj -----------------------------------------------------------------------------------------


def _cdxj_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--output", default="-", metavar="PATH", help="file to write (standard output)"
    )
    _archive_option(parser)


async def _cdxj(archive: Archive, arguments: argparse.Namespace) -> None:
    async with archive.indexes() as lines:
        number = await asyncio.to_thread(_write_lines, lines, arguments.output)
    if arguments.output != "-":
        print(f"{plural(number, 'line')} written to {arguments.output}", file=sys.stderr)


def _write_lines(lines: Iterable[bytes], output: str) -> int:
    number = 0
    part = Path(f"{output}.part")
    try:
        with ExitStack() as stack:
            out: IO[bytes] = sys.stdout.buffer
            if output != "-":
                out = stack.enter_context(part.open("wb"))
            for line in lines:
                out.write(line)
                number += 1
        if output != "-":
            part.replace(output)
    except BrokenPipeError:
        raise
    except OSError as error:
        part.unlink(missing_ok=True)
        raise CrawlerError(
            f"{output} cannot be written ({error.strerror}); name another file."
        ) from error
    return number


# --- upload ---------------------------------------------------------------------------------------


def _upload_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--to", metavar="URL", help="object store to upload complete files to (WARC_UPLOAD)"
    )


def _upload(settings: BaseSettings, arguments: argparse.Namespace) -> None:
    url = arguments.to or config.value(settings, SETTING)
    if not url:
        raise ConfigurationError("Say where to upload to: --to s3://bucket/prefix, or WARC_UPLOAD.")

    async def upload() -> None:
        store = ObjectStore.from_url(url, what="--to" if arguments.to else SETTING)
        for folder in archive_folders(settings):
            if not folder.is_dir():
                raise NotFound(f"There is no folder {folder}.")
            uploads = Uploads(store, folder)
            await uploads.open()
            if left := await uploads.run():
                raise CrawlerError(f"{plural(left, 'file')} in {folder} could not be uploaded.")
        print(f"What was complete, and no other process has locked, is in {store.url}")

    asyncio.run(upload())


VERBS = {
    "list": Verb("list the WARC files", _list_arguments, on_archive(_list)),
    "verify": Verb("read all records and check them", _verify_arguments, on_archive(_verify)),
    "get": Verb("print a capture of a URL", _get_arguments, _get),
    "cdxj": Verb("merge the indexes into one CDXJ", _cdxj_arguments, on_archive(_cdxj)),
    "upload": Verb("upload complete files to an object store", _upload_arguments, _upload),
}


class Command(VerbCommand, ScrapyCommand):
    """Command with a verb for each use of WARC files."""

    name = "archive"
    summary = "List, verify and read WARC files, and merge their indexes"
    verbs = VERBS
