"""How much does a WARC archive add to a crawl, in CPU time and in bytes?

Our crawler fetches the pages of the crawl benchmark, 26 KB each, without an archive and with one,
compressed by gzip and by zstd, in turns. CPU time is the crawler's own, as there. What counts is
the difference to the crawl without an archive in the same round, and the median of all rounds.

`bytes_ratio` is the size of the archive, with all its records and its index, over the bytes of the
responses on the wire, heads and bodies.

The part `records` makes the same records by our code and by warcio, without a crawl.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from io import BytesIO
from pathlib import Path
from time import process_time

from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from benchmarks import command
from benchmarks.crawl.contenders import OURS, Contender
from benchmarks.crawl.grounds import SMALL
from benchmarks.crawl.pages import Size, page, url_of
from benchmarks.crawl.rig import Rig, rig
from benchmarks.figures import Figure, at_most
from crawler import settings
from crawler.errors import CrawlerError
from crawler.storage.warc.files import members, read_record, warc_names
from crawler.storage.warc.records import Capture, RecordMaker

_FULL_ROUNDS, _QUICK_ROUNDS = 5, 2
_TARGET_MS = 0.35
_CODECS = ("gzip", "zstd")
_RECORDS, _QUICK_RECORDS, _RECORD_ROUNDS = 400, 50, 5
_HEAD = (
    ("Server", "demo"),
    ("Content-Type", "text/html; charset=utf-8"),
    ("Date", "Wed, 18 Nov 2026 04:25:00 GMT"),
)
_REQUEST = (
    ("User-Agent", "mercator-crawler/1.0 (+https://example.org/about)"),
    ("Accept", "text/html,application/xhtml+xml,*/*;q=0.8"),
    ("Accept-Encoding", "gzip, deflate, br, zstd"),
)


@dataclass(frozen=True, slots=True)
class Run:
    """Crawl without an archive (`codec` is empty) or with one."""

    codec: str
    cpu_ms: float
    archive_bytes: int = 0
    wire_bytes: int = 0


# --- whole crawls ---------------------------------------------------------------------------------


def measure(quick: bool) -> Iterator[Figure]:
    """Crawl in turns."""
    size, rounds = (SMALL.quick, _QUICK_ROUNDS) if quick else (SMALL.full, _FULL_ROUNDS)
    with rig(SMALL, size) as place:
        yield from figures([_round(place, number) for number in range(rounds)])


def _round(place: Rig, number: int) -> list[Run]:
    # Each is first once in a while: the machine may get slower or faster in a round.
    codecs = ["", *_CODECS]
    turn = number % len(codecs)
    return [_crawl(place, codec, number) for codec in (*codecs[turn:], *codecs[:turn])]


def _crawl(place: Rig, codec: str, number: int) -> Run:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        cpu_ms = place.crawl(contender(codec, folder)).cpu_ms
        run = Run(codec, cpu_ms, *(sizes(Path(folder)) if codec else ()))
    print(
        f"round {number + 1}: {codec or 'no archive'}: {cpu_ms:.3f} ms of CPU a page",
        file=sys.stderr,
    )
    return run


def contender(codec: str, folder: str) -> Contender:
    """Return our crawl with an archive in a folder, or without one."""
    if not codec:
        return OURS
    given = ("-s", f"SINKS=mongo warc:{folder}", "-s", f"WARC_CODEC={codec}")
    return replace(OURS, name=f"ours, with WARC ({codec})", command=(*OURS.command, *given))


def sizes(folder: Path) -> tuple[int, int]:
    """Return the bytes of an archive, and those of its responses on the wire."""
    wire_bytes = 0
    for name in warc_names(folder):
        with (folder / name.file).open("rb") as file:
            for _, _, content in members(file, name.packed):
                record = read_record(content, parse_http=False)
                if record.headers.get("WARC-Type") == "response":
                    wire_bytes += record.content_length
    return sum(path.stat().st_size for path in folder.iterdir()), wire_bytes


def figures(rounds: list[list[Run]]) -> Iterator[Figure]:
    """Compare the crawls of each round."""
    runs: dict[str, list[Run]] = defaultdict(list)
    for each in rounds:
        for run in each:
            runs[run.codec].append(run)
    without = [run.cpu_ms for run in runs[""]]
    yield Figure("archive.without.cpu_ms_per_page", statistics.median(without), "ms")
    for codec, prefix in (("gzip", "archive"), ("zstd", "archive.zstd")):
        added = [run.cpu_ms - bare_ms for run, bare_ms in zip(runs[codec], without, strict=True)]
        cost_ms = statistics.median(added)
        if cost_ms <= 0:
            raise CrawlerError(
                f"Crawls with an archive ({codec}) took less CPU time than those without: other "
                "programs disturb the measurement. Repeat it on an idle machine."
            )
        yield Figure(
            f"{prefix}.cpu_ms_per_page",
            cost_ms,
            "ms",
            peer="a crawl without an archive",
            ratio=1 + cost_ms / statistics.median(without),
            target=at_most(_TARGET_MS),
        )
        yield Figure(f"{prefix}.cpu_ms_spread", max(added) - min(added), "ms")
        ratio = statistics.median(run.archive_bytes / run.wire_bytes for run in runs[codec])
        yield Figure(f"{prefix}.bytes_ratio", ratio, "")


# --- records --------------------------------------------------------------------------------------


def measure_records(quick: bool) -> Iterator[Figure]:
    """Make the request and response records of pages, in turns."""
    size = Size(seeds=_QUICK_RECORDS if quick else _RECORDS, hosts=50)
    captures = [sample(number, size) for number in range(size.seeds)]
    ways: dict[str, Callable[[], None]] = {
        codec: partial(_by_ours, captures, RecordMaker(codec, settings.WARC_LEVEL, what=""))
        for codec in _CODECS
    }
    ways["warcio"] = partial(_by_warcio, captures)
    took: dict[str, list[float]] = defaultdict(list)
    for _ in range(_RECORD_ROUNDS):
        for name, make in ways.items():
            started_s = process_time()
            make()
            took[name].append((process_time() - started_s) / len(captures) * 1e6)
    peer_us = statistics.median(took["warcio"])
    for codec in _CODECS:
        us = statistics.median(took[codec])
        yield Figure(f"archive.records.{codec}.us_per_page", us, "µs", "warcio", us / peer_us)


def sample(number: int, size: Size) -> Capture:
    """Return a page of the benchmark's web, as it would be archived."""
    uri, body = url_of(number, size, 8000), page(number, size, 8000)
    path, host = uri.split("/", 3)[3], uri.split("/", 3)[2]
    head = [*_HEAD, ("Content-Length", str(len(body)))]
    return Capture(
        uri=uri,
        crawl="web",
        url_hash=f"{number:016x}",
        visit="1794198300-1",
        at=datetime(2026, 11, 18, 4, 25, tzinfo=UTC),
        status=200,
        content_type="text/html",
        head=_lines("HTTP/1.1 200 OK", head),
        body=body,
        request=_lines(f"GET /{path} HTTP/1.1", [("Host", host), *_REQUEST]),
        address="127.0.0.1",
        protocols=("http/1.1",),
    )


def _lines(first: str, fields: list[tuple[str, str]]) -> bytes:
    return "\r\n".join([first, *map(": ".join, fields), "", ""]).encode()


def _by_ours(captures: list[Capture], maker: RecordMaker) -> None:
    for capture in captures:
        maker.records(capture, {})


def _by_warcio(captures: list[Capture]) -> None:
    writer = WARCWriter(BytesIO(), gzip=True)
    for capture in captures:
        response = writer.create_warc_record(
            *(capture.uri, "response"),
            payload=BytesIO(capture.body),
            http_headers=StatusAndHeaders("200 OK", list(_HEAD), protocol="HTTP/1.1"),
        )
        first = capture.request.split(b"\r\n", 1)[0].decode()
        request = writer.create_warc_record(
            *(capture.uri, "request"),
            http_headers=StatusAndHeaders(first, list(_REQUEST), is_http_request=True),
        )
        writer.write_request_response_pair(request, response)


PARTS = {"crawl": measure, "records": measure_records}

if __name__ == "__main__":
    sys.exit(command.run("benchmarks.archive", __doc__, PARTS))
