"""The texts and queries of the search benchmark."""

from collections import Counter

from benchmarks.search import pages, queries, vocabulary
from crawler.storage.search.query import words_of


def test_words_are_as_frequent_as_in_natural_language():
    words = vocabulary()
    assert len(set(words)) == len(words) == 50_000
    found = pages(200, words)
    counts = Counter(word for page in found for word in page.text.split())
    assert counts[words[0]] > 5 * counts[words[30]] > 0
    assert len(counts) > 5_000
    assert len({page.visit for page in found}) == 200
    assert pages(3, words) == pages(3, words)


def test_queries_have_one_to_three_words_or_a_phrase_of_a_page():
    words = vocabulary()
    found = pages(50, words)
    asked = list(queries(20, words, found))
    assert all(1 <= len(words_of(text)) <= 3 for text in asked)
    phrases = [text.strip('"') for text in asked if '"' in text]
    assert len(phrases) == 2
    assert all(any(phrase in page.text for page in found) for phrase in phrases)
