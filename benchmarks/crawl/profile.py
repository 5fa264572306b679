"""Print where the CPU time of our crawl goes: `python -m benchmarks.crawl.profile`.

By cProfile, which makes functions that are called often look more expensive than they are; from
the start of the engine to its end.
"""

from __future__ import annotations

import pstats
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from benchmarks.crawl.contenders import OURS
from benchmarks.crawl.ground import ground
from benchmarks.crawl.meter import PROFILE_FILE
from benchmarks.crawl.pages import Size

_SIZE = Size(seeds=2000, hosts=250)
_TOP = 15
_ROOT = Path(__file__).parent.parent.parent
# What waits is no work.
_WAITS = ("poll", "acquire", "select")


def main() -> int:
    """Crawl under the profiler, and print the functions with the most time of their own."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        found = Path(folder, "profile")
        profiled = replace(OURS, environment={**OURS.environment, PROFILE_FILE: str(found)})
        with ground(_SIZE) as place:
            place.crawl(profiled)
        for line in table(pstats.Stats(str(found)), _SIZE.seeds):
            print(line)
    return 0


def table(profile: pstats.Stats, pages: int) -> list[str]:
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
        for own_s, calls, name in rows[:_TOP]
    ]


def _short(file: str) -> str:
    """A path from its package on."""
    _, installed, rest = file.rpartition("site-packages/")
    return rest if installed else file.rpartition(f"{_ROOT}/")[2]


if __name__ == "__main__":
    sys.exit(main())
