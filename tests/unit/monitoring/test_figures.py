"""Whatever components count, the fleet has the same few names."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.download.errors import KINDS
from crawler.monitoring.figures import FIGURES, by_word, count_figures, known_cause, known_code
from crawler.settings import RETRY_HTTP_CODES

CRAWLER = Path(__file__).resolve().parents[3] / "crawler"


def test_scrapys_stats_become_figures_of_the_fleet() -> None:
    assert count_figures(
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
            "shard/pages/11": 2,
            "shard/pages/of the web": 1,
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
        "shard_pages/11": 2,
        "shard_pages/other": 1,
    }


@given(st.dictionaries(st.text(max_size=40), st.integers(0, 9), max_size=50))
def test_no_text_of_the_web_becomes_a_name(parts: dict[str, int]) -> None:
    stats = {f"{row.stat}/{text}": n for row in FIGURES for text, n in parts.items()}
    labels = {name.rpartition("/")[2] for name in count_figures(stats)}
    assert not {label for label in labels if len(label) > 40}
    assert len(count_figures(stats)) <= 120


def test_the_list_of_names_is_short() -> None:
    statuses = {known_code(str(code)) for code in range(1000)}
    assert len(statuses) < 70
    assert len(FIGURES) < 60


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
    assert known_cause(text) == cause


def test_codes_nobody_knows_are_told_by_class() -> None:
    assert [known_code(text) for text in ("404", "499", "700", "abc")] == [
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
        assert count_figures({f"links/refused/{reason}": 1}) == {f"links/refused/{reason}": 1}


def test_causes_of_failures_are_told_apart() -> None:
    for kind in KINDS:
        assert known_cause(kind.reason) == kind.reason
    for status in RETRY_HTTP_CODES:
        assert known_cause(f"status_{status}") == f"status_{status}"


def test_causes_of_delays_are_told_apart() -> None:
    text = (CRAWLER / "politeness" / "host_delays.py").read_text(encoding="utf-8")
    body = text.partition("cause, longest_s = ")[2].partition("return Delay")[0]
    causes = set(re.findall(r'"(\w+)"', body))
    assert {"minimum", "host_rule", "retry_after", "breaker"} <= causes
    for cause in causes:
        assert count_figures({f"delay/{cause}": 1}) == {f"waits/{cause}": 1}


def test_a_part_is_sorted_by_size() -> None:
    assert by_word({"status/404": 1, "status/200": 5, "status/500": 0, "pages": 2}, "status") == {
        "200": 5,
        "404": 1,
    }


def test_every_stat_of_the_table_is_counted_by_a_component() -> None:
    files = [path for path in CRAWLER.rglob("*.py") if "monitoring" not in path.parts]
    code = "\n".join(path.read_text(encoding="utf-8") for path in files)
    code = re.sub(r'\bf"', '"', code)
    scrapys = ("downloader/", "item_scraped_count", "log_count/")
    for row in FIGURES:
        family = row.label is not None and row.label.known is not None
        stat = f'"{row.stat}/' if family else f'"{row.stat}"'
        assert row.stat.startswith(scrapys) or stat in code, row.stat


def test_figures_of_one_metric_have_the_same_meaning_and_label() -> None:
    for row in FIGURES:
        alike = [other for other in FIGURES if row.metric and other.metric == row.metric]
        assert len({(other.help, other.label and other.label.name) for other in alike}) <= 1
