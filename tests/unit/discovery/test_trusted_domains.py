"""Domains that are trusted, from lists and files."""

from pathlib import Path

import pytest

from crawler.discovery import follow
from crawler.discovery.follow import trusted_domains
from crawler.errors import ConfigurationError
from tests.support.crawlers import project_crawler


@pytest.mark.parametrize("given", [None, "", [], ()])
def test_there_may_be_none(given: str | list[str] | None) -> None:
    assert trusted_domains(given) == {}


@pytest.mark.parametrize("given", [["A.com", "b.org"], "a.com,b.org", " a.com  b.org "])
def test_a_list_is_taken_in_any_form(given: str | list[str]) -> None:
    assert trusted_domains(given) == {"a.com": 0, "b.org": 0}


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        ("a.com\nb.org\n", {"a.com": 0, "b.org": 0}),
        ("1,a.com\r\n2,b.org\r\n30,a.com", {"a.com": 1, "b.org": 2}),
        ("# the best\n\na.com\nb.org", {"a.com": 0, "b.org": 0}),
    ],
)
def test_a_file_has_a_domain_a_line_perhaps_with_its_rank(
    tmp_path: Path, text: str, ranks: dict[str, int]
) -> None:
    file = tmp_path / "top.csv"
    file.write_text(text)
    assert trusted_domains(str(file)) == ranks


def test_of_a_long_file_the_first_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "MAX_TRUSTED_DOMAINS", 2)
    file = tmp_path / "top.csv"
    file.write_text("".join(f"{rank},h{rank}.com\n" for rank in range(9)))
    assert trusted_domains(str(file)) == {"h0.com": 0, "h1.com": 1}


@pytest.mark.parametrize("given", ["a.com/b", "/no/such/file", ["http://a.com"], "a b:c"])
def test_what_is_no_domain_is_named(given: str | list[str]) -> None:
    with pytest.raises(ConfigurationError, match="TRUSTED_DOMAINS"):
        trusted_domains(given)


def test_the_list_that_comes_with_the_crawler_has_domains_once_and_names_its_source() -> None:
    found = trusted_domains("well-known")
    assert len(found) > 60
    assert set(found.values()) == {0}
    assert {"wikipedia.org", "w3.org", "who.int"} < found.keys()
    text = (Path(follow.__file__).parent / "trusted_domains.txt").read_text()
    listed = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert len(listed) == len(found)
    assert "# Source: " in text


def test_the_list_that_comes_with_the_crawler_gives_points() -> None:
    crawler = project_crawler(TRUSTED_DOMAINS="well-known")
    reasons = follow.scorer(crawler.settings).explain("https://en.wikipedia.org/wiki/A", 1)
    assert any("trusted" in reason for reason, _ in reasons)
