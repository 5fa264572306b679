"""Links of a page, chosen and scored as the policies say of each alone."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from crawler.discovery.counts import HostTally
from crawler.discovery.follow import Selection, SelectionRules, Source
from crawler.discovery.priority import Facts, Scorer
from crawler.discovery.scope import Scope, kind_of
from crawler.discovery.traps import PageLinks, Traps
from crawler.frontier.entry import Entry, decode
from crawler.urls import DEFAULT

PAGE = "http://www.h.test/"
NOW = datetime(2026, 6, 1, tzinfo=UTC)
NOW_S = round(NOW.timestamp())
SEGMENTS = st.sampled_from(["a", "news", "b.html", "c.PDF", "d.zip", "2061", "05", ""])
URLS = st.builds(
    "https://{}h.test/{}{}".format,
    st.sampled_from(["", "www.", "o."]),
    st.lists(SEGMENTS, max_size=6).map("/".join),
    st.sampled_from(["", "?a=1", "?a=1&a=1&a=1", "?b=" + "1" * 60]),
)
FACTS = st.none() | st.builds(Facts, fresh=st.booleans())


@given(URLS, st.integers(1, 12), FACTS)
def test_a_link_is_judged_and_scored_as_the_policies_say(
    url: str, depth: int, facts: Facts | None
) -> None:
    scope, traps = Scope(skipped_extensions=frozenset({"zip"})), Traps()
    scorer = Scorer(trusted={"o.h.test": 0})
    score = scorer.score(url, depth, scorer.host_points(url.split("/")[2], (0, 0)), facts)
    trap = traps.refuses(url, PageLinks(PAGE), NOW.date())
    reason = scope.refuses(url, page_url=PAGE, depth=depth) or (trap and f"trap_{trap}")
    # Only this score has this queue.
    queues = [3 if points == score else 1 for points in range(101)]
    rules = SelectionRules(scope, Traps(), scorer, queues, DEFAULT, HostTally(10))
    chosen = Selection(rules, Source(PAGE, depth, 7, {url: facts} if facts else {}), now_s=NOW_S)
    chosen.choose([url], [5], set())
    assert chosen.refused == ({reason: 1} if reason else {})
    found = [decode(data) for data in chosen.entries]
    queue_of_kind = {"document": 6, "medium": 7, "file": 7}
    expected = (
        []
        if reason
        else [Entry(5, url, queue_of_kind.get(kind_of(url), 3), depth, 7, discovered_s=NOW_S)]
    )
    assert found == expected


def test_what_a_sitemap_says_of_a_link_is_in_its_entry() -> None:
    rules = SelectionRules(Scope(), Traps(), Scorer(), [1] * 101, DEFAULT, HostTally(10))
    source = Source(PAGE, 1, 7, tails={PAGE + "a": {"every": 5}})
    chosen = Selection(rules, source, now_s=NOW_S)
    chosen.choose([PAGE + "a", PAGE + "b"], [1, 2], set())
    assert [decode(data).tail for data in chosen.entries] == [{"every": 5}, {}]


def test_points_of_a_page_and_of_single_links_change_their_scores() -> None:
    rules = SelectionRules(Scope(), Traps(), Scorer(), [1] * 101, DEFAULT, HostTally(10))
    source = Source(PAGE, 6, 7, points=-10, points_by_link={PAGE + "b": 25, PAGE + "c": 500})
    chosen = Selection(rules, source, now_s=NOW_S)
    chosen.choose([PAGE + "a", PAGE + "b", PAGE + "c"], [1, 2, 3], set())
    plain = Scorer().score(PAGE + "a", 6, Scorer().host_points("www.h.test", (0, 0)))
    assert chosen.scores == [plain - 10, plain + 15, 100]
