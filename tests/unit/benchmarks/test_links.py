"""The made-up web of the frontier's benchmark."""

from benchmarks.frontier.links import (
    HOST_RUN,
    KNOWN_SHARE,
    LINKS_A_PAGE,
    URL_CHARS,
    entry,
    page_links,
    url,
)
from crawler.urls import canonical


def test_urls_are_canonical_distinct_and_of_one_length():
    urls = {url(number, 100) for number in range(5_000)}
    assert len(urls) == 5_000
    assert {len(text) for text in urls} == {URL_CHARS}
    assert all(canonical(text) == text for text in urls)


def test_a_number_is_always_the_same_entry():
    assert entry(42, 100) == entry(42, 100)
    assert entry(42, 100).id != entry(43, 100).id


def test_hosts_come_in_runs_and_are_as_many_as_asked():
    hosts = [entry(number, 7).host for number in range(7 * HOST_RUN)]
    assert len(set(hosts)) == 7
    assert len(set(hosts[:HOST_RUN])) == 1


def test_pages_have_the_stated_share_of_known_links():
    pages = list(page_links(known=1_000, pages=20))
    new = [link for links in pages for link in links if link >= 1_000]
    assert {len(links) for links in pages} == {LINKS_A_PAGE}
    assert len(new) == round(20 * LINKS_A_PAGE * (1 - KNOWN_SHARE))
    assert len(set(new)) == len(new)
