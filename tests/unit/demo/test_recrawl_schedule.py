"""The recrawl policy in virtual time, on pages that change on the synthetic web's schedule."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import pytest

from crawler.dedup.content import SHINGLE, simhashes, words_digest
from crawler.parsing.html import HtmlReader
from crawler.scheduling.recrawl_policy import (
    DIGEST_BYTES,
    RecrawlPolicy,
    Visit,
    VisitResult,
    policy_of,
)
from demo.answer import Answer
from demo.answers import Answers
from demo.clock import Clock
from demo.validators import Validators
from demo.web import Web, WebOptions

HOUR, DAY = 3600, 86_400
START_S = 1_750_000_000.0
# All features are on some host of the first 64.
WEB = Web(WebOptions(hosts=64, pages=8, seed=3))
HOST = next(WEB.hosts_with("changing")).host


class VirtualClock(Clock):
    """Stands still until it is moved."""

    def __init__(self) -> None:
        super().__init__()
        object.__setattr__(self, "started_s", START_S)

    def now_s(self) -> float:
        return self.started_s

    def forward(self, seconds: float) -> None:
        object.__setattr__(self, "started_s", self.started_s + seconds)


@dataclass
class Visits:
    """What came of the visits of one page."""

    intervals_s: list[float] = field(default_factory=list)
    not_modified: int = 0
    changed: int = 0
    last: Visit | None = None


def head_of(answer: Answer) -> dict[str, str]:
    lines = answer.wire[: answer.head_bytes].decode().split("\r\n")[1:]
    return dict(line.split(": ", 1) for line in lines if ": " in line)


def found_in(answer: Answer, url: str) -> VisitResult:
    body = answer.wire[answer.head_bytes :]
    text = HtmlReader(max_links=0).read(body.decode(), url).text
    digest = hashlib.sha256(body).digest()[:DIGEST_BYTES]
    return VisitResult(digest, simhashes([text], SHINGLE)[0], words_digest(text))


def crawl(path: str, policy: RecrawlPolicy, *, days: int, conditional: bool = True) -> Visits:
    """Visit a page again and again, as a crawl does, without waiting for it."""
    clock, visits = VirtualClock(), Visits()
    answers = Answers(WEB, clock)
    head: dict[str, str] = {}
    while clock.now_s() < START_S + days * DAY:
        validators = Validators(head.get("ETag", ""), head.get("Last-Modified", ""))
        answer = answers.answer(HOST, path, validators if head and conditional else None)
        if answer.status == 304:
            visits.not_modified += 1
            found = VisitResult()
        else:
            assert answer.status == 200
            found = found_in(answer, f"http://{HOST}{path}")
            head = head_of(answer)
        decision = policy.visited(visits.last, found, now_s=clock.now_s())
        visits.last = decision.visit
        visits.changed += decision.changed
        visits.intervals_s.append(decision.wait_s)
        clock.forward(decision.wait_s)
    return visits


ADAPTIVE = RecrawlPolicy()


@pytest.mark.parametrize("conditional", [True, False])
def test_a_page_that_stays_the_same_is_visited_once_a_month(conditional: bool) -> None:
    visits = crawl("/", ADAPTIVE, days=365, conditional=conditional)
    assert visits.changed == 0
    assert visits.intervals_s[-1] == 30 * DAY
    assert len(visits.intervals_s) < 18
    assert visits.not_modified == (len(visits.intervals_s) - 1 if conditional else 0)


def test_a_clock_on_a_page_is_no_change() -> None:
    visits = crawl("/live/clock", ADAPTIVE, days=365)
    assert (visits.changed, visits.not_modified) == (0, 0)
    assert visits.intervals_s[-1] == 30 * DAY


@pytest.mark.parametrize(
    ("path", "days", "least_s", "most_s"),
    [
        ("/live/every-10s", 25, HOUR, HOUR),
        ("/live/every-3600s", 30, HOUR, 3 * HOUR),
        ("/live/every-86400s", 120, DAY // 3, 3 * DAY),
    ],
)
def test_the_interval_comes_to_that_of_the_changes(
    path: str, days: int, least_s: int, most_s: int
) -> None:
    visits = crawl(path, ADAPTIVE, days=days)
    learnt = visits.intervals_s[len(visits.intervals_s) // 2 :]
    assert least_s <= min(learnt)
    assert max(learnt) <= most_s
    assert visits.changed > len(visits.intervals_s) / 3


def test_a_page_that_changes_all_the_time_is_hourly_after_eleven_changes() -> None:
    visits = crawl("/live/every-10s", ADAPTIVE, days=24)
    assert visits.intervals_s[:2] == [7 * DAY, pytest.approx(4.9 * DAY)]
    assert visits.intervals_s[11] == HOUR
    assert visits.intervals_s[10] > HOUR


def test_a_fixed_interval_sees_every_change_of_slower_pages() -> None:
    policy = policy_of("fixed:12h")
    assert policy is not None
    visits = crawl("/live/every-86400s", policy, days=60)
    assert set(visits.intervals_s) == {12 * HOUR}
    assert len(visits.intervals_s) == 120
    assert visits.changed + visits.not_modified == 119
    assert 59 <= visits.changed <= 60
