"""Draw the plots of docs/measurements.md as SVG files: the same results give the same files.

They have no background, and colours that are readable on a light page and on a dark one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.ticker import FuncFormatter

from benchmarks.measurements import report
from benchmarks.measurements.page import codecs, cpu_ms_per_page, numbered, sizes
from benchmarks.measurements.results import Part, Results

_GREY, BLUE, _ORANGE, _GREEN = "#7a7f87", "#3b82d6", "#d97a1e", "#2f9e6b"
STYLE = {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "measurements",
    "font.size": 10,
    "text.color": _GREY,
    "axes.labelcolor": _GREY,
    "axes.edgecolor": _GREY,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": _GREY,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.6,
    "xtick.color": _GREY,
    "ytick.color": _GREY,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
}
_WIDTH, _HEIGHT = 7.0, 3.4
_PLAIN = FuncFormatter(lambda value, _: f"{value:,.10g}")


def draw(results: Results, folder: Path) -> list[Path]:
    """Write the plots of all parts that were measured; says which."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, plot in _PLOTS.items():
        if name not in results:
            continue
        with mpl.rc_context(STYLE):
            drawing = plot(results[name])
            path = folder / f"{name}.svg"
            drawing.savefig(
                path,
                transparent=True,
                bbox_inches="tight",
                metadata={"Date": None, "Creator": None},
            )
        written.append(path)
    return written


def _one() -> tuple[Drawing, Axes]:
    drawing = Drawing(figsize=(_WIDTH, _HEIGHT), layout="constrained")
    return drawing, drawing.add_subplot()


def _scaling(part: Part) -> Drawing:
    rates = sorted(numbered(part, "scaling.workers_", ".pages_per_s").items())
    drawing, axes = _one()
    workers, pages_s = zip(*rates, strict=True)
    alone = pages_s[0] / workers[0]
    axes.plot(workers, [alone * each for each in workers], "--", color=_GREY, label="in proportion")
    axes.plot(workers, pages_s, "o-", color=BLUE, label="measured")
    axes.plot(
        [report.WORKERS],
        [report.WORKERS_PAGES_PER_S],
        "D",
        color=_ORANGE,
        label=f"the report: {report.WORKERS_PAGES_PER_S} pages/s",
    )
    axes.set(xlabel="workers", ylabel="pages/s", xticks=workers, ylim=(0, None))
    axes.legend()
    return drawing


def _seen(part: Part) -> Drawing:
    found = sorted(sizes(part, "url_seen.mb_at_").items())
    urls = [each for each, _ in found]
    drawing, axes = _one()
    axes.plot(
        *(urls, [part.peer(name) for _, name in found], "o-"),
        color=_ORANGE,
        label="set of SHA-1 hex (scrapy-redis)",
    )
    bloom_mb = part.value("url_seen.bloom_mb_up_to_10m")
    axes.plot(
        urls, [bloom_mb] * len(urls), "--", color=_GREY, label="Bloom filter for 10 million URLs"
    )
    axes.plot(*(urls, [part.value(name) for _, name in found], "o-"), color=BLUE, label="URL-seen")
    axes.set(xscale="log", yscale="log", xlabel="known URLs", ylabel="MB of Redis", xticks=urls)
    axes.xaxis.set_major_formatter(_PLAIN)
    axes.yaxis.set_major_formatter(_PLAIN)
    axes.legend()
    return drawing


def _sustained(part: Part) -> Drawing:
    window_s = part.value("sustained.window_s")
    drawing = Drawing(figsize=(_WIDTH, 2 * _HEIGHT), layout="constrained")
    plots = drawing.subplots(4, sharex=True)

    def line(axes: Axes, windows: Mapping[int, float], colour: str, label: str = "") -> None:
        ends_s = [number * window_s for number in windows]
        axes.plot(ends_s, [*windows.values()], "o-", color=colour, label=label, markersize=3)

    for axes, title, name in zip(
        plots,
        ("pages/s", "memory of the crawler, MB", "open files of the crawler"),
        ("pages_per_s", "memory_mb", "files"),
        strict=False,
    ):
        line(axes, numbered(part, "sustained.window_", f".{name}"), BLUE)
        axes.set(title=title, ylim=(0, axes.dataLim.ymax * 1.15))
    last = plots[-1]
    line(last, cpu_ms_per_page(part, "cpu"), BLUE, "crawler")
    line(last, cpu_ms_per_page(part, "redis_cpu"), _ORANGE, "Redis")
    line(last, cpu_ms_per_page(part, "mongo_cpu"), _GREEN, "mongod")
    # With room for the legend.
    last.set(title="CPU ms a page", ylim=(0, last.dataLim.ymax * 1.4))
    last.set(xlabel="seconds since the first page")
    last.legend(ncols=3, loc="upper right")
    return drawing


def _memory(part: Part) -> Drawing:
    pages, memory_mb = (numbered(part, "memory.window_", f".{name}") for name in ("pages", "mb"))
    windows = sorted(pages)
    drawing, axes = _one()
    axes.plot(
        *([pages[window] for window in windows], [memory_mb[window] for window in windows], "o-"),
        color=BLUE,
    )
    axes.set(xlabel="pages", ylabel="memory of the crawler, MB", xlim=(0, None))
    axes.set_ylim(0, axes.dataLim.ymax * 1.15)
    axes.xaxis.set_major_formatter(_PLAIN)
    return drawing


def _latency(part: Part) -> Drawing:
    operations = {
        "drop": ("drop", None),
        "scan": (f"scan of {part.value('latency.pages_scanned'):,.0f} pages", None),
        "find": ("find by the index", report.FIND_MS),
        "batch": ("insert of 50 pages", report.BATCH_MS),
        "insert": ("insert of a page", report.INSERT_MS),
    }
    drawing, axes = _one()
    for place, (name, (_, reported_ms)) in enumerate(operations.items()):
        axes.plot(part.value(f"latency.{name}_ms"), place, "o", color=BLUE)
        if reported_ms is not None:
            axes.plot(reported_ms, place, "D", color=_ORANGE)
    axes.plot([], [], "o", color=BLUE, label="median")
    axes.plot([], [], "D", color=_ORANGE, label="the report")
    axes.set(xscale="log", xlabel="ms")
    axes.set_yticks(range(len(operations)), [label for label, _ in operations.values()])
    axes.xaxis.set_major_formatter(_PLAIN)
    axes.margins(y=0.1)
    axes.legend(loc="lower right")
    return drawing


def _compression(part: Part) -> Drawing:
    drawing, axes = _one()
    points = {
        name: (
            part.value(f"compression.{name}.us_per_page") / 1000,
            part.value(f"compression.{name}.ratio"),
        )
        for name in codecs(part)
    }
    for family, colour in (("zlib", _ORANGE), ("zstd", BLUE)):
        levels = [points[name] for name in points if name[:4] == family and name[5:].isdigit()]
        axes.plot(*zip(*levels, strict=True), "o-", color=colour, label=family)
    if "zstd_stored" in points:
        axes.plot(*points["zstd_stored"], "D", color=_GREEN, label="zstd, as stored")
    for name, point in points.items():
        if name[5:].isdigit():
            axes.annotate(name[5:], point, xytext=(6, -12), textcoords="offset points")
    axes.set(xlabel="CPU ms a page", ylabel="ratio of compression", xlim=(0, None))
    axes.margins(y=0.15)
    axes.legend(title="level of")
    return drawing


def _delayed(part: Part) -> Drawing:
    drawing = Drawing(figsize=(_WIDTH, _HEIGHT), layout="constrained")
    plots = drawing.subplots(1, 2, sharey=True)
    for axes, work in zip(plots, ("insert", "retrieve"), strict=True):
        found = sorted(sizes(part, f"delayed.{work}_us_at_").items())
        for shift, colour, label, values in (
            (-0.2, BLUE, "time buckets", [part.value(name) for _, name in found]),
            (0.2, _ORANGE, "sorted set", [part.peer(name) for _, name in found]),
        ):
            places = [place + shift for place in range(len(found))]
            axes.bar(places, values, width=0.4, color=colour, label=label)
        axes.set_xticks(range(len(found)), [f"{urls:,}" for urls, _ in found])
        axes.set(title=work, xlabel="URLs that wait")
        axes.grid(visible=False, axis="x")
    plots[0].set(ylabel="µs of Redis a URL")
    plots[1].legend(loc="upper left")
    return drawing


_PLOTS: dict[str, Callable[[Part], Drawing]] = {
    "scaling": _scaling,
    "seen": _seen,
    "sustained": _sustained,
    "memory": _memory,
    "latency": _latency,
    "compression": _compression,
    "delayed": _delayed,
}
