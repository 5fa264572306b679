"""The truth that near-duplicates are measured by, and a first look at how they are found."""

import random
from collections import defaultdict

import pytest

from benchmarks import near_duplicates
from benchmarks.near_duplicates import Version, jaccard

WORDS = [f"word{number}" for number in range(2000)]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Version]:
    chance = random.Random(1)
    documents = [
        [" ".join(chance.choices(WORDS, k=chance.randint(15, 40))) for _ in range(60)]
        for _ in range(40)
    ]
    monkeypatch.setattr(near_duplicates, "paragraphs", lambda _count: documents)
    return near_duplicates.versions(12)


def test_what_is_around_an_article_does_not_count(made: list[Version]) -> None:
    by_kind = defaultdict(list)
    first = {version.article: version for version in made if version.kind == "first"}
    for version in made:
        by_kind[version.kind].append(jaccard(version, first[version.article]))
    for kind in ("first", "date", "ads", "links", "comments", "print", "elsewhere"):
        assert set(by_kind[kind]) == {1}
    assert 0.5 < min(by_kind["edited"]) < max(by_kind["edited"]) < 1
    assert max(by_kind["shorter"]) > 0.9
    assert max(by_kind["part"]) < 0.9
    assert len({version.html for version in made}) == len(made)


def test_every_page_has_its_article(made: list[Version]) -> None:
    for version in made:
        html = version.html.decode()
        assert all(paragraph in html for paragraph in version.paragraphs)
