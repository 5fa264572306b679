"""Print where the CPU time of our crawl goes: `python -m benchmarks.crawl.profile [GROUND]`.

By samples of the stack, from the start of the engine to its end: the share of a function alone,
with what it calls in C, and with all that it calls. With --calls by cProfile, which counts calls,
but makes functions that are called often look more expensive than they are.
"""

from __future__ import annotations

import json
import pstats
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

from benchmarks.command import Parser, end_servers_on_sigterm
from benchmarks.crawl.contenders import OURS
from benchmarks.crawl.grounds import GROUNDS
from benchmarks.crawl.meter import PROFILE_FILE, SAMPLES_FILE
from benchmarks.crawl.pages import Size
from benchmarks.crawl.rig import rig

_ROOT = Path(__file__).parent.parent.parent
# What waits is no work.
_WAITS = ("poll", "acquire", "select")


def main() -> int:
    """Crawl under a profiler, and print the functions with the most time."""
    reader = Parser(prog="benchmarks.crawl.profile", description=__doc__)
    reader.add_argument("ground", nargs="?", choices=GROUNDS, default="usual")
    reader.add_argument("--calls", action="store_true", help="count calls, by cProfile")
    reader.add_argument("--hosts", type=int, default=250, help="hosts to crawl (250)")
    reader.add_argument("--top", type=int, default=15, help="functions to print (15)")
    arguments = reader.parse_args()
    end_servers_on_sigterm()
    ground = GROUNDS[arguments.ground]
    pages_a_host = ground.full.seeds // ground.full.hosts
    size = Size(seeds=arguments.hosts * pages_a_host, hosts=arguments.hosts)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        found = Path(folder, "profile")
        file = PROFILE_FILE if arguments.calls else SAMPLES_FILE
        profiled = replace(OURS, environment={**OURS.environment, file: str(found)})
        with rig(ground, size) as place:
            run = place.crawl(profiled)
        if arguments.calls:
            lines = table(pstats.Stats(str(found)), run.pages, arguments.top)
        else:
            lines = sampled(json.loads(found.read_text()), run.cpu_ms, arguments.top)
    print(f"{run.cpu_ms:.2f} ms of CPU a page", *lines, sep="\n")
    return 0


def table(profile: pstats.Stats, pages: int, top: int) -> list[str]:
    """The functions with the most time of their own, a page."""
    rows = [
        (own_s, calls, f"{_short(file)}:{name}")
        for (file, _, name), (_, calls, own_s, _, _) in profile.stats.items()  # type: ignore[attr-defined]
        if not any(f"'{wait}'" in name for wait in _WAITS)
    ]
    rows.sort(reverse=True)
    total_s = sum(own_s for own_s, _, _ in rows)
    return [
        f"{own_s / total_s:6.1%} {own_s / pages * 1e6:7.0f} µs {calls / pages:7.1f} calls  {name}"
        for own_s, calls, name in rows[:top]
    ]


def sampled(stacks: list[tuple[list[str], int]], cpu_ms: float, top: int) -> list[str]:
    """The functions that most samples were in, alone, and those with all that they call."""
    own: Counter[str] = Counter()
    whole: Counter[str] = Counter()
    for stack, count in stacks:
        own[stack[0]] += count
        whole.update(dict.fromkeys(stack, count))
    total = own.total()

    def lines(found: Counter[str], title: str) -> list[str]:
        return [
            title,
            *(
                f"{count / total:6.1%} {count / total * cpu_ms * 1000:7.0f} µs  {_short(name)}"
                for name, count in found.most_common(top)
            ),
        ]

    ours = Counter({name: count for name, count in whole.items() if f"{_ROOT}/crawler/" in name})
    return [*lines(own, "alone:"), *lines(ours, "ours, with all that they call:")]


def _short(file: str) -> str:
    """A path from its package on."""
    _, installed, rest = file.rpartition("site-packages/")
    return rest if installed else file.rpartition(f"{_ROOT}/")[2]


if __name__ == "__main__":
    sys.exit(main())
