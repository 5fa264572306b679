"""Targets that read URLs, links, seeds, and the messages that bring them."""

from __future__ import annotations

from datetime import date

from scrapy import Request, Spider
from scrapy.exceptions import DownloadFailedError, UnsupportedURLSchemeError

from crawler.discovery import pushed, seeds
from crawler.discovery.priority import front_queue, score
from crawler.discovery.scope import kind_of
from crawler.discovery.traps import PageLinks, Traps
from crawler.download.request_writer import write
from crawler.errors import ConfigurationError
from crawler.frontier.entry import Entry, decode, encode, host_in
from crawler.scheduling.request_codec import NotCarried, to_entry, to_request
from crawler.storage.warc.keys import surt
from crawler.urls import (
    DEFAULT,
    FOLDS,
    Base,
    Rejected,
    UrlRules,
    Urls,
    authority_of,
    host_of,
    icann_domain,
    registered_domain,
    written_url,
)
from crawler.urls.canonical import MAX_LENGTH, hostname_of, leads_nowhere
from fuzzing.target import Target, expect, text_of

BY_DOMAIN = Urls(UrlRules(group_by="domain", fold=frozenset(FOLDS)))
SPIDER = Spider(name="web")
_THRESHOLDS = (80, 60, 40, 20)
_NOW_S = 1_800_000_000.0
_TODAY = date(2026, 11, 1)

_URLS = (
    b"http://example.com/",
    b"HTTPS://User@Example.COM:443/a/../b/./c;jsessionid=12345678901234567890abcd?b=2&a=1#f",
    b"http://xn--bcher-kva.example/%7euser/%e4%b8%ad?q=%41&utm_source=x&sid=1",
    "http://bücher.example/ü?ö=ß".encode(),
    b"http://[::1]:8080/a|b[c]^d`e{f}\\g",
    b"http://0x7f.1/%2e%2E/..;a=1/%252e",
    b"//example.com\\path",
    b"http://a.b.co.uk./x?phpsessid=abcdefghijklmnopqrstuvwx12&&=&a",
)
_WORDS = (
    *(b"http://", b"https://", b"//", b"/../", b"/./", b"%2e", b"%2E%2e", b"%25", b"%41", b"%zz"),
    *(
        b";jsessionid=",
        b"?",
        b"#",
        b"&",
        b"=",
        b"@",
        b":80",
        b":443",
        b"[::1]",
        b"\\",
        b"\t",
        b"\n",
    ),
    *(b"xn--", b".co.uk", b"utm_source=", b"sid=", b"\xc3\xbc", b"\xe2\x80\xa8", b"\xed\xa0\x80"),
    *(b"..", b"//.", b".:", b"%00", b"%ff", b"index.html", b"www."),
)


def _url(data: bytes) -> None:
    text = text_of(data)
    found = DEFAULT.spelling(text)
    if isinstance(found, Rejected):
        return
    url, part = found
    expect(len(url) <= MAX_LENGTH and url.isascii(), url)
    expect(DEFAULT.canonical(url) == url, (url, DEFAULT.canonical(url)))
    if part:
        written = written_url(url, part)
        expect(DEFAULT.canonical(written) == url, (url, part, DEFAULT.canonical(written)))


def _identity(data: bytes) -> None:
    """Find the host, domain, group and key of a URL, and store it."""
    text = text_of(data)
    leads_nowhere(data)
    surt(text)
    found = DEFAULT.spelling(text)
    if isinstance(found, Rejected):
        return
    url, part = found
    host, authority = host_of(url), authority_of(url)
    name = hostname_of(url)
    expect(url.startswith(f"{authority}/") and authority.endswith(f"//{host}"), (url, host))
    expect(name == hostname_of(authority + "/"), url)
    expect(":" in name or name.endswith(registered_domain(host)), (host, registered_domain(host)))
    icann_domain(host)
    surt(url)
    kind_of(url)
    front_queue(score(url, 1), _THRESHOLDS)
    expect(DEFAULT.fingerprint(url) == DEFAULT.fingerprints([url])[0], url)
    BY_DOMAIN.fingerprint(url)
    entry = Entry(id=1, url=url, group_skip=BY_DOMAIN.group_skip(url), written=part)
    expect(decode(encode(entry)) == entry, entry)
    expect(host_in(encode(entry)) == entry.host.encode(), entry)


def _links(data: bytes) -> None:
    """Resolve links against a base, in the three ways that must give the same."""
    first, _, rest = text_of(data).partition("\n")
    base = DEFAULT.base(first)
    if not isinstance(base, Base):
        base = Base("http://example.com/a/b?c=d")
    links = rest.split("\0")[:40]
    found, written = DEFAULT.resolve_all(base, links)
    expect(len(found) == len(links), (len(found), len(links)))
    for link, url in zip(links, found, strict=True):
        alone = DEFAULT.resolve(base, link) if link and link[0] != "#" else Rejected("same")
        slowly = DEFAULT.spelling(base.join(link)) if link and link[0] != "#" else Rejected("same")
        expect(alone == slowly, (link, alone, slowly))
        expect(url == (None if isinstance(alone, Rejected) else alone[0]), (link, url, alone))
    expect(written.keys() <= set(filter(None, found)), written)


def _traps(data: bytes) -> None:
    first, *links = text_of(data).split("\n")[:50]
    page = DEFAULT.canonical(first)
    traps, links_of = Traps(), PageLinks(page if isinstance(page, str) else "http://example.com/")
    for link in links:
        url = DEFAULT.canonical(link)
        if isinstance(url, str) and traps.refuses(url, links_of, _TODAY) is None:
            traps.followed(url, page_url=links_of.page_url, today=_TODAY)
            traps.fetched(url, duplicate=len(url) % 2 == 0)


def _request(data: bytes) -> None:
    """Make the requests of URLs of any kind, take them through the frontier, and write them."""
    text = text_of(data)
    try:
        request = Request(text)
    except ValueError:
        # Scrapy's own rule: no scheme, or characters that no URL can have.
        return
    entry = to_entry(request, SPIDER, _THRESHOLDS, now_s=_NOW_S)
    if isinstance(entry, Rejected):
        return
    again = to_request(decode(encode(entry)), SPIDER)
    expect(DEFAULT.canonical(again.url) == entry.url, (request.url, again.url, entry.url))
    for each in (request, again):
        try:
            head = write(each).data
        except (UnsupportedURLSchemeError, DownloadFailedError):
            continue
        expect(head.count(b"\r\n\r\n") == 1 and head.startswith(b"GET "), head)


def _reader(entry_of: bool) -> pushed.PushedReader:
    def make(request: Request) -> Entry | None:
        try:
            found = to_entry(request, SPIDER, _THRESHOLDS, now_s=_NOW_S)
        except NotCarried:
            return None
        return None if isinstance(found, Rejected) else found

    return pushed.PushedReader("web:start_urls", entry_of=make if entry_of else None,
                               thresholds=_THRESHOLDS)  # fmt: skip


_READERS = (_reader(False), _reader(True))


def _pushed(data: bytes) -> None:
    for reader in _READERS:
        try:
            found = reader.parse(data, now_s=_NOW_S)
        except pushed.Unreadable:
            continue
        for one in found:
            expect(decode(encode(one.entry)) == one.entry, one)


def _seeds(data: bytes) -> None:
    text = text_of(data)
    for parse in (
        seeds.parse,
        seeds.split_topics,
        lambda given: seeds.parse_sitemaps(given, DEFAULT),
    ):
        try:
            parse(text)
        except ConfigurationError:
            continue


_PUSHED = (
    b"http://example.com/a",
    b'{"url": "http://example.com/", "method": "post", "meta": {"a": [1, null]}, "q": ["x", 2]}',
    b'{"schema": "discovered/1", "url": "http://example.com/", "score": 55}',
    b'{"url": 5}',
)
TARGETS = (
    Target("url", _url, _URLS, _WORDS),
    Target("identity", _identity, _URLS, _WORDS),
    Target(
        "links",
        _links,
        tuple(url + b"\na\0/b\0?c\0#d\0//e/f\0g:h\0../i" for url in _URLS),
        (*_WORDS, b"\0"),
        large_s=1.0,
    ),
    Target(
        "traps",
        _traps,
        (
            b"\n".join(_URLS),
            b"http://a.test/2026/01\nhttp://a.test/2026/02?page=3&sort=a\nhttp://a.test/a/a/a/a",
        ),
        (*_WORDS, b"\nhttp://a.test/", b"/2026/11/01", b"?page="),
    ),
    Target("request", _request, _URLS, _WORDS),
    Target(
        "pushed",
        _pushed,
        _PUSHED,
        (
            b'"url": ',
            b'"meta": {',
            b'"method": ',
            b"[",
            b"{",
            b"}",
            b"\\ud800",
            b"1e999",
            b"null",
            b'"schema": "discovered/',
            b"\xff\xfe",
            *_WORDS[:4],
        ),
    ),
    Target(
        "seeds",
        _seeds,
        (
            b"http://example.com/, http://example.org/",
            b"kafka://host:9092/topic,other",
            b"urls.txt -",
        ),
        (*_WORDS, b"kafka://", b",", b" ", b"\0"),
    ),
)
