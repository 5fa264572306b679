"""Results of all parts, with values that are easy to recognise."""

from benchmarks.figures import Figure
from benchmarks.measurements.results import Part

_WINDOW = {
    "pages_per_s": 500,
    "memory_mb": 240,
    "files": 300,
    "cpu": 1.0,
    "redis_cpu": 0.2,
    "mongo_cpu": 0.1,
}
_USED = "cpu_ms_per_page memory_mb received_kb_per_page sent_kb_per_page written_kb_per_page"


def part(name: str, values: dict[str, float], ratios: dict[str, float] | None = None) -> Part:
    """A part with these figures, some of them with a ratio to a peer."""
    of_peers = ratios or {}
    return Part(
        name=name,
        at="2026-11-18",
        quick=False,
        took_s=60,
        load=0.5,
        machine="2 cores, 24 GB",
        commit="0000000",
        figures={
            key: Figure(key, value, "", ratio=of_peers.get(key)) for key, value in values.items()
        },
    )


def sample_results() -> dict[str, Part]:
    """All parts that there are."""
    workers = {
        f"scaling.workers_{number}.{name}": value
        for number in (1, 7, 20)
        for name, value in (
            ("pages_per_s", 50.0 * number),
            ("speedup", number),
            ("cpu_ms_per_page", 1.5),
            ("redis_ms_per_page", 0.25),
            ("redis_calls_per_page", 4.75),
        )
    }
    workers |= {
        "scaling.workers.hosts": 2_000,
        "scaling.workers.latency_s": 1,
        "scaling.workers.delay_s": 0.5,
        "scaling.workers.at_once": 8,
    }
    seen = {"url_seen.mb_at_100k": 1.0, "url_seen.mb_at_10m": 45.0}
    sustained = {
        f"sustained.window_{number}.{name}": value * number
        for number in (1, 2)
        for name, value in _WINDOW.items()
    }
    sustained |= {
        f"sustained.{process}.{name}": 3.25
        for process in ("crawler", "redis", "mongo")
        for name in _USED.split()
    }
    sustained |= {"sustained.window_s": 30, "sustained.seconds": 60, "sustained.pages": 45_000}
    memory = {
        f"memory.window_{number}.{name}": value
        for number, end in ((1, 20_000), (2, 100_000))
        for name, value in (
            ("pages", end),
            ("mb", 200 + number),
            ("files", 300),
            ("pages_per_s", 250),
            ("cpu_ms_per_page", 1.75),
        )
    }
    memory |= {"memory.pages": 100_000, "memory.peak_mb": 230, "memory.growth_mb": 1}
    operations = "insert insert_no_journal batch batch_no_journal find scan drop sync"
    latency = {f"latency.{name}_ms": 1.5 for name in operations.split()}
    latency |= {"latency.insert_p95_ms": 2.5, "latency.pages_scanned": 10_000}
    compression = {"compression.pages": 91, "compression.kb_per_page": 174}
    for codec in ("zlib_1", "zlib_6", "zstd_1", "zstd_3", "zstd_stored"):
        compression |= {
            f"compression.{codec}.us_per_page": 870,
            f"compression.{codec}.unpack_us_per_page": 100,
            f"compression.{codec}.ratio": 5.125,
        }
    delayed = {
        f"delayed.{work}_us_at_{size}": 3.0
        for size in ("10k", "300k")
        for work in ("insert", "retrieve")
    }
    delayed["delayed.bytes_per_url"] = 90
    parts = (
        part("scaling", workers),
        part("seen", {**seen, "url_seen.bloom_mb_up_to_10m": 18}, dict.fromkeys(seen, 0.05)),
        part("sustained", sustained),
        part("memory", memory),
        part("latency", latency),
        part("compression", compression),
        part("delayed", delayed, dict.fromkeys(delayed, 0.5)),
    )
    return {each.name: each for each in parts}
