"""Whatever components count, the fleet has the same few names."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.scheduling import failures
from crawler.settings import RETRY_HTTP_CODES
from crawler.util.stat_names import FAMILIES, PLAIN, cause_of, code_of, figures_of, part

CRAWLER = Path(__file__).resolve().parents[3] / "crawler"


def test_scrapys_stats_become_figures_of_the_fleet() -> None:
    assert figures_of(
        {
            "pages/crawled": 3,
            "item_scraped_count": 4,
            "downloader/response_status_count/200": 5,
            "retry/timeout": 2,
            "failed/callback_error_KeyError": 1,
            "failed/callback_error_ValueError": 1,
            "failed/status_404": 6,
            "dead/callback_error_KeyError": 1,
            "links/refused/trap_deep": 7,
            "start_time": "no number",
            "some/other": 9,
        }
    ) == {
        "pages": 3,
        "items": 4,
        "status/200": 5,
        "retries/timeout": 2,
        "failed/callback_error": 2,
        "failed/status_404": 6,
        "links/refused/trap_deep": 7,
    }


@given(st.dictionaries(st.text(max_size=40), st.integers(0, 9), max_size=50))
def test_no_text_of_the_web_becomes_a_name(parts: dict[str, int]) -> None:
    stats = {f"{family.stat}/{text}": n for family in FAMILIES for text, n in parts.items()}
    labels = {name.rpartition("/")[2] for name in figures_of(stats)}
    assert not {label for label in labels if len(label) > 20}
    assert len(figures_of(stats)) <= 120


def test_the_list_of_names_is_short() -> None:
    statuses = {code_of(str(code)) for code in range(1000)}
    assert len(statuses) < 70
    assert len(PLAIN) < 60


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("timeout", "timeout"),
        ("item_error_WriteError", "item_error"),
        ("unreadable: no such callback", "unreadable"),
        ("SomethingElse", "other"),
        ("status_503", "status_503"),
        ("status_404", "status_404"),
        ("status_499", "status_4xx"),
        ("status_<text of the web>", "status_other"),
    ],
)
def test_a_cause_is_one_of_a_few(text: str, cause: str) -> None:
    assert cause_of(text) == cause


def test_codes_nobody_knows_are_told_by_class() -> None:
    assert [code_of(text) for text in ("404", "499", "700", "abc")] == [
        "404",
        "4xx",
        "other",
        "other",
    ]


def words_in(path: str, pattern: str) -> set[str]:
    return set(re.findall(pattern, (CRAWLER / path).read_text(encoding="utf-8")))


def test_reasons_of_the_policies_are_told_apart() -> None:
    filters = words_in("discovery/scope.py", r'return "(\w+)"')
    traps = words_in("discovery/traps.py", r'(?:return |append\(\()"(\w+)"')
    assert {"depth", "scope"} <= filters
    assert {"deep", "calendar"} <= traps
    for reason in filters | {f"trap_{reason}" for reason in traps}:
        assert figures_of({f"links/refused/{reason}": 1}) == {f"links/refused/{reason}": 1}


def test_causes_of_failures_are_told_apart() -> None:
    for cause in {*failures._REASONS.values(), *failures._FINAL.values()}:
        assert cause_of(cause) == cause
    for status in RETRY_HTTP_CODES:
        assert cause_of(f"status_{status}") == f"status_{status}"


def test_causes_of_rests_are_told_apart() -> None:
    text = (CRAWLER / "politeness" / "delay.py").read_text(encoding="utf-8")
    body = text.partition("wishes = {")[2].partition("cause = max")[0]
    causes = set(re.findall(r'"(\w+)"', body))
    assert {"minimum", "retry_after", "breaker"} <= causes
    for cause in causes:
        assert figures_of({f"delay/{cause}": 1}) == {f"waits/{cause}": 1}


def test_a_part_is_sorted_by_size() -> None:
    assert part({"status/404": 1, "status/200": 5, "status/500": 0, "pages": 2}, "status") == {
        "200": 5,
        "404": 1,
    }
