"""Put the tables of the results into docs/measurements.md. Pure.

The page is Markdown for people to edit. Only what is between `<!-- measured: NAME -->` and
`<!-- end -->` is replaced, by the table of that name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from benchmarks.figures import number
from benchmarks.measurements import report
from benchmarks.measurements.results import Part, Results

_BLOCK = re.compile(r"(<!-- measured: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_SIZES = {"10k": 10_000, "20k": 20_000, "100k": 100_000, "300k": 300_000}
_SIZES |= {"1m": 1_000_000, "10m": 10_000_000}
Row = Sequence[str]


def render(text: str, results: Results) -> str:
    """The page with the tables of these results; a table whose part is missing stays as it is."""

    def replaced(block: re.Match[str]) -> str:
        start, name, end = block.groups()
        if name in _OF_ALL:
            return f"{start}{_OF_ALL[name](results)}\n{end}"
        if name not in _OF_PART:
            known = ", ".join([*_OF_ALL, *_OF_PART])
            raise ValueError(f"There is no table {name!r} for the page; there are {known}.")
        part, table = _OF_PART[name]
        return f"{start}{table(results[part])}\n{end}" if part in results else block[0]

    return _BLOCK.sub(replaced, text)


def sizes(part: Part, prefix: str) -> dict[int, str]:
    """The figures `<prefix><size>`, by the number that the size stands for."""
    found = (name.removeprefix(prefix) for name in part.figures if name.startswith(prefix))
    return {_SIZES[size]: prefix + size for size in found}


def numbered(part: Part, start: str, end: str) -> dict[int, float]:
    """The values of the figures `<start><number><end>`, by their numbers."""
    names = re.compile(f"{re.escape(start)}(\\d+){re.escape(end)}")
    matches = ((names.fullmatch(name), figure.value) for name, figure in part.figures.items())
    return {int(match[1]): value for match, value in matches if match}


# --- tables of all parts --------------------------------------------------------------------------


def _summary(results: Results) -> str:
    return _table(("", "the report", "here"), _summary_rows(results))


def _summary_rows(results: Results) -> Iterator[Row]:
    workers = f"scaling.workers_{report.WORKERS}.pages_per_s"
    if (scaling := results.get("scaling")) and workers in scaling.figures:
        yield (
            f"pages per second with {report.WORKERS} workers",
            number(report.WORKERS_PAGES_PER_S),
            number(scaling.value(workers)),
        )
    if seen := results.get("seen"):
        urls, name = max(sizes(seen, "url_seen.mb_at_").items())
        yield (
            f"memory of URL-seen saved, {urls:,} URLs, beside a set of SHA-1",
            f"{report.SEEN_SAVED:.0%}",
            f"{_saved(seen, name):.1%}",
        )
        if urls == _SIZES["10m"]:
            bloom = seen.value("url_seen.bloom_mb_up_to_10m") / seen.peer(name)
            yield "… with `URL_SEEN=bloom`", f"{report.SEEN_SAVED:.0%}", f"{1 - bloom:.1%}"
    if latency := results.get("latency"):
        for what, reported_ms, name in (
            ("MongoDB: insert of a page", report.INSERT_MS, "insert"),
            ("MongoDB: insert of 50 pages at once", report.BATCH_MS, "batch"),
            ("MongoDB: find by an index", report.FIND_MS, "find"),
        ):
            yield what, f"{reported_ms:g} ms", f"{number(latency.value(f'latency.{name}_ms'))} ms"


def _machine(results: Results) -> str:
    names = dict.fromkeys(part for part, _ in _OF_PART.values())
    parts = [results[name] for name in names if name in results]
    rows = [
        (
            f"`{part.name}`" + " (quick)" * part.quick,
            part.at,
            _commit(part),
            f"{part.load:.1f}",
            f"{part.took_s:.0f} s",
        )
        for part in parts
    ]
    machines = "\n\n".join(dict.fromkeys(part.machine for part in parts))
    heads = ("part", "measured on", "commit", "load before", "took")
    return f"{machines}\n\n{_table(heads, rows)}"


def _commit(part: Part) -> str:
    name = part.commit.removesuffix("-dirty")
    return f"`{name}`" if name == part.commit else f"`{name}`, **with changes**"


# --- tables of one part ---------------------------------------------------------------------------


def _scaling(part: Part) -> str:
    calls = numbered(part, "scaling.workers_", ".redis_calls_per_page")
    rows = [
        (
            str(workers),
            number(rate),
            f"{part.value(f'scaling.workers_{workers}.speedup'):.1f}",
            *(
                f"{part.value(f'scaling.workers_{workers}.{name}_ms_per_page'):.2f}"
                for name in ("cpu", "redis")
            ),
            f"{calls[workers]:.1f}" if workers in calls else "",
        )
        for workers, rate in sorted(numbered(part, "scaling.workers_", ".pages_per_s").items())
    ]
    heads = ("workers", "pages/s", "times one worker", "CPU ms a page", "… Redis", "scripts a page")
    return f"{_scaling_setup(part)}{_table(heads, rows)}"


def _scaling_setup(part: Part) -> str:
    """Say what the workers crawl, if the results do."""
    if "scaling.workers.latency_s" not in part.figures:
        return ""
    hosts, latency_s, delay_s, at_once = (
        part.value(f"scaling.workers.{name}")
        for name in ("hosts", "latency_s", "delay_s", "at_once")
    )
    return (
        f"{hosts:,.0f} hosts; an answer takes {latency_s:g} s on average, a host wants "
        f"{delay_s:g} s between two pages, a worker has {at_once:.0f} fetches at a time: "
        f"at most {at_once / latency_s:g} pages/s.\n\n"
    )


def _saved(part: Part, name: str) -> float:
    return 1 - part.value(name) / part.peer(name)


def _seen(part: Part) -> str:
    rows = [
        (
            f"{urls:,}",
            number(part.peer(name)),
            number(part.value(name)),
            f"{part.value(name) * 1e6 / urls:.1f}",
            f"{_saved(part, name):.1%}",
        )
        for urls, name in sorted(sizes(part, "url_seen.mb_at_").items())
    ]
    heads = ("URLs", "set of SHA-1 hex, MB", "URL-seen, MB", "bytes a URL", "saved")
    bloom = number(part.value("url_seen.bloom_mb_up_to_10m"))
    return f"{_table(heads, rows)}\n\nA Bloom filter for 10 million URLs: {bloom} MB."


def cpu_ms_per_page(part: Part, name: str) -> dict[int, float]:
    """CPU time of a process a page, by window."""
    rates = numbered(part, "sustained.window_", ".pages_per_s")
    shares = numbered(part, "sustained.window_", f".{name}")
    return {window: shares[window] / rates[window] * 1000 for window in sorted(rates)}


def _sustained(part: Part) -> str:
    window_s = part.value("sustained.window_s")
    rates, memory_mb, files, shares = (
        numbered(part, "sustained.window_", f".{name}")
        for name in ("pages_per_s", "memory_mb", "files", "cpu")
    )
    costs = [cpu_ms_per_page(part, name) for name in ("cpu", "redis_cpu", "mongo_cpu")]
    rows = [
        (
            f"{(window - 1) * window_s:.0f}–{window * window_s:.0f}",
            f"{rates[window]:.0f}",
            f"{shares[window]:.0%}",
            *(f"{cost_ms[window]:.2f}" for cost_ms in costs),
            f"{memory_mb[window]:.0f}",
            f"{files[window]:.0f}",
        )
        for window in sorted(rates)
    ]
    heads = ("seconds", "pages/s", "of its core", "CPU ms a page", "… Redis", "… mongod")
    return _table((*heads, "memory, MB", "open files"), rows)


def _memory(part: Part) -> str:
    pages, memory_mb, files, rates, cpu_ms = (
        numbered(part, "memory.window_", f".{name}")
        for name in ("pages", "mb", "files", "pages_per_s", "cpu_ms_per_page")
    )
    rows = [
        (
            f"{pages[window]:,.0f}",
            f"{memory_mb[window]:.0f}",
            f"{files[window]:.0f}",
            f"{rates[window]:.0f}",
            f"{cpu_ms[window]:.2f}",
        )
        for window in sorted(pages)
    ]
    table = _table(("pages", "memory, MB", "open files", "pages/s", "CPU ms a page"), rows)
    found = [f"The most it ever had: {part.value('memory.peak_mb'):.0f} MB."]
    if "memory.growth_mb" in part.figures:
        growth_mb, last = part.value("memory.growth_mb"), part.value("memory.pages")
        found.append(f"Growth from 20,000 to {last:,.0f} pages: {growth_mb:.0f} MB.")
    return f"{table}\n\n{' '.join(found)}"


def _resources(part: Part) -> str:
    rows = []
    for key, name in (("crawler", "crawler"), ("redis", "Redis"), ("mongo", "mongod")):
        moved = (
            # What the crawler sends to the servers is in their rows.
            ""
            if (key, what) == ("crawler", "sent")
            else number(part.value(f"sustained.{key}.{what}_kb_per_page"))
            for what in ("received", "sent", "written")
        )
        cpu_ms = number(part.value(f"sustained.{key}.cpu_ms_per_page"))
        rows.append((name, cpu_ms, f"{part.value(f'sustained.{key}.memory_mb'):.0f}", *moved))
    heads = ("", "CPU ms a page", "memory, MB", "received", "sent", "written to disk")
    pages = f"{part.value('sustained.pages'):,.0f} pages in {part.value('sustained.seconds'):.0f} s"
    return f"{pages}; KB a page:\n\n{_table(heads, rows)}"


def _latency(part: Part) -> str:
    pages = part.value("latency.pages_scanned")
    rows = []
    for name, what, reported_ms in (
        ("insert", "insert of one page, `j: true`", report.INSERT_MS),
        ("insert_no_journal", "… `j: false`", None),
        ("batch", "insert of 50 pages, `j: true`", report.BATCH_MS),
        ("batch_no_journal", "… `j: false`", None),
        ("find", "find by the index", report.FIND_MS),
        ("scan", f"scan of {pages:,.0f} pages", None),
        ("drop", "drop of the collections", None),
        ("sync", "sync of 4 KB to this disk, without MongoDB", None),
    ):
        p95 = part.figures.get(f"latency.{name}_p95_ms")
        rows.append(
            (
                what,
                number(part.value(f"latency.{name}_ms")),
                number(p95.value) if p95 else "",
                f"{reported_ms:g}" if reported_ms else "",
            )
        )
    return _table(("", "median, ms", "95%, ms", "the report, ms"), rows)


def codecs(part: Part) -> list[str]:
    """Codecs and levels, as `zlib_6`."""
    names = (name.split(".") for name in part.figures if name.endswith(".ratio"))
    return [codec for _, codec, _ in names]


def _codec_label(codec: str) -> str:
    family, _, level = codec.partition("_")
    return f"{family}, {'as stored' if level == 'stored' else f'level {level}'}"


def _compression(part: Part) -> str:
    size_kb = part.value("compression.kb_per_page")
    rows = []
    for codec in codecs(part):
        us = part.value(f"compression.{codec}.us_per_page")
        rows.append(
            (
                _codec_label(codec),
                number(us / 1000),
                number(size_kb * 1000 / us),
                number(part.value(f"compression.{codec}.unpack_us_per_page") / 1000),
                f"{part.value(f'compression.{codec}.ratio'):.2f}",
            )
        )
    pages = part.figures["compression.pages"]
    heads = ("", "CPU ms a page", "MB/s", "decompression, CPU ms", "ratio")
    return f"{pages.value:.0f} {pages.unit}, {size_kb:.0f} KB on average:\n\n{_table(heads, rows)}"


def _delayed(part: Part) -> str:
    rows = [
        (
            f"{urls:,}",
            *(number(value) for value in (part.value(insert), part.peer(insert))),
            *(number(value) for value in (part.value(retrieve), part.peer(retrieve))),
        )
        for (urls, insert), (_, retrieve) in zip(
            sorted(sizes(part, "delayed.insert_us_at_").items()),
            sorted(sizes(part, "delayed.retrieve_us_at_").items()),
            strict=True,
        )
    ]
    heads = ("URLs", "insert", "… sorted set", "retrieve", "… sorted set")
    ours, theirs = part.value("delayed.bytes_per_url"), part.peer("delayed.bytes_per_url")
    memory = f"Memory a URL: {ours:.0f} bytes, in the sorted set {theirs:.0f}."
    return f"µs of Redis a URL:\n\n{_table(heads, rows)}\n\n{memory}"


_OF_ALL: dict[str, Callable[[Results], str]] = {"summary": _summary, "machine": _machine}
# Each with the part that it shows.
_OF_PART: dict[str, tuple[str, Callable[[Part], str]]] = {
    "scaling": ("scaling", _scaling),
    "seen": ("seen", _seen),
    "sustained": ("sustained", _sustained),
    "resources": ("sustained", _resources),
    "memory": ("memory", _memory),
    "latency": ("latency", _latency),
    "compression": ("compression", _compression),
    "delayed": ("delayed", _delayed),
}


def _table(heads: Row, rows: Iterable[Row]) -> str:
    """As Markdown."""
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *rows]
    cells = ((f" {cell} |" if cell else " |" for cell in line) for line in lines)
    return "\n".join("|" + "".join(line) for line in cells)
