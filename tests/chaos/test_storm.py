"""A small storm (chaos/): real crawlers and servers, a few faults, and an audit without findings.

`make chaos` has long ones.
"""

from pathlib import Path

from chaos.run import run
from chaos.schedule import Planned, read
from chaos.storm import Plan
from demo.web import WebOptions

PLAN = Plan(
    seed=1,
    web=WebOptions(hosts=12, pages=9, seed=6, zoo="demo"),
    crawlers=2,
    sinks=("mongo", "warc"),
    end_s=120.0,
    delay_s=0.1,
    lease_ttl_s=2.0,
)
# Seconds, kinds, and seeds of what they draw. Short ones: what they need in all is the test's time.
SCHEDULE = [
    Planned(0.0, "line to redis resets replies", 1),
    Planned(0.1, "line to mongo cut", 2),
    Planned(0.2, "crawler killed", 3),
    Planned(0.6, "redis loses its last second", 4),
    Planned(0.7, "mongo killed", 5),
    Planned(1.0, "crawler told to end", 6),
]


def test_a_small_storm_costs_nothing_that_it_may_not(tmp_path: Path) -> None:
    said: list[str] = []
    report = run(PLAN, SCHEDULE, tmp_path, length_s=1.5, said=said.append)
    assert report.ok, "\n".join([*said, *report.lines()])
    assert sum(report.faults.values()) == len(SCHEDULE)
    assert report.figures["crawlers started"] >= 4
    # What a long one would be replayed from.
    lines = (tmp_path / "faults.jsonl").read_text(encoding="utf-8").splitlines()
    planned = sorted((each.planned for each in read(lines)), key=lambda each: each.at_s)
    assert planned == SCHEDULE
