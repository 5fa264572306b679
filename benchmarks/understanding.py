"""What does it cost to understand pages: the language of their texts, and their main text?

The whole crawl with both (PAGE_FIELDS=text_language,main_text) beside the same crawl without any,
in turns in one run: CPU time of the crawler for each page, on pages with the markup of real sites
(`usual`), and on the web as it is (`web`: larger pages, compressed, TLS).

`understanding.cpu_share` is the worst of the grounds: CPU time with, over that without, less one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from statistics import median

from benchmarks.command import run
from benchmarks.crawl.contenders import OURS
from benchmarks.crawl.grounds import USUAL, WEB
from benchmarks.crawl.pages import Size
from benchmarks.crawl.rig import rig
from benchmarks.figures import Figure, at_most

_TARGET = 0.25
_ROUNDS, _QUICK_ROUNDS = 5, 3
_SIZE, _QUICK_SIZE = Size(seeds=1600, hosts=200), Size(seeds=800, hosts=100)
_WITHOUT, _WITH = (
    replace(
        OURS,
        key=key,
        name=f"ours with PAGE_FIELDS={fields}",
        command=(*OURS.command, "-s", f"PAGE_FIELDS={fields}"),
    )
    for key, fields in (("without", ""), ("with", "text_language,main_text"))
)


def measure(quick: bool) -> Iterator[Figure]:
    """Crawl with and without."""
    shares = []
    for ground in (USUAL, WEB):
        taken: dict[str, list[float]] = {"without": [], "with": []}
        with rig(ground, _QUICK_SIZE if quick else _SIZE) as place:
            for number in range(_QUICK_ROUNDS if quick else _ROUNDS):
                turns = (_WITHOUT, _WITH) if number % 2 == 0 else (_WITH, _WITHOUT)
                for contender in turns:
                    cpu_ms = place.crawl(contender).cpu_ms
                    taken[contender.key].append(cpu_ms)
                    print(f"{ground.name}, {contender.key}: {cpu_ms:.2f} ms", file=sys.stderr)
        without, both = median(taken["without"]), median(taken["with"])
        shares.append(both / without - 1)
        yield Figure(f"understanding.{ground.name}_cpu_ms", both, "ms")
        yield Figure(f"understanding.{ground.name}_cpu_share", shares[-1], "")
    yield Figure("understanding.cpu_share", max(shares), "", target=at_most(_TARGET))


PARTS = {"understanding": measure}

if __name__ == "__main__":
    sys.exit(run("benchmarks.understanding", __doc__, PARTS))
