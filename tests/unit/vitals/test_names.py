"""Whatever components count, the fleet has the same few names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.policy.politeness import Fetch, Host, Politeness
from crawler.vitals.names import FAMILIES, PLAIN, cause_of, code_of, figures_of, part


def test_scrapys_stats_become_figures_of_the_fleet() -> None:
    assert figures_of(
        {
            "item_scraped_count": 3,
            "downloader/response_status_count/200": 5,
            "retry/timeout": 2,
            "dead/callback_error_KeyError": 1,
            "dead/callback_error_ValueError": 1,
            "links/refused/trap_deep": 7,
            "start_time": "no number",
            "some/other": 9,
        }
    ) == {
        "pages": 3,
        "status/200": 5,
        "retries/timeout": 2,
        "failed/callback_error": 2,
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
        ("DownloadFailedError", "connection"),
        ("item_error_WriteError", "item_error"),
        ("unreadable: no such callback", "unreadable"),
        ("SomethingElse", "other"),
        ("status_503", "status_503"),
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


def test_the_causes_of_rests_are_the_policys_own() -> None:
    overload = Fetch(1.0, 503)
    host = Host(usual_s=1.0, overloads=2)
    cause = Politeness().rest(overload, host).cause
    assert figures_of({f"delay/{cause}": 1}) == {"waits/overload": 1}


def test_a_part_is_sorted_by_size() -> None:
    assert part({"status/404": 1, "status/200": 5, "status/500": 0, "pages": 2}, "status") == {
        "200": 5,
        "404": 1,
    }
