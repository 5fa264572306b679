"""Addresses of hosts: where the overrides lead, and when the cache is asked."""

from typing import Any

import pytest

from crawler.dns.resolver import Resolver
from crawler.errors import ConfigurationError
from tests.support.crawlers import project_crawler


class Cache:
    """Knows the same addresses for every name, and what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def get(self, host: str, *, counted: bool = True) -> tuple[str, ...]:
        self.asked.append(host)
        return ("192.0.2.9", "2001:db8::9")

    def recent(self, host: str) -> tuple[str, ...]:
        return ("2001:db8::9", "192.0.2.9") if host == "known.test" else ()

    async def close(self) -> None: ...


def resolver_with(cache: Cache) -> Resolver:
    return Resolver(OVERRIDES, cache)  # type: ignore[arg-type]


OVERRIDES = {
    "exact.test": "192.0.2.1",
    ".suffix.test": "192.0.2.2:8080",
    "deep.suffix.test": "192.0.2.3",
    "Upper.Test": "192.0.2.4",
    "six.test": "2001:db8::1",
    "bracketed.test": "[2001:db8::2]",
    "six-port.test": "[2001:db8::3]:8080",
}


@pytest.mark.parametrize(
    ("host", "address", "port"),
    [
        ("exact.test", "192.0.2.1", 80),
        ("EXACT.test", "192.0.2.1", 80),
        ("exact.test.", "192.0.2.1", 80),
        ("a.suffix.test", "192.0.2.2", 8080),
        ("a.b.suffix.test", "192.0.2.2", 8080),
        ("deep.suffix.test", "192.0.2.3", 80),
        ("a.deep.suffix.test", "192.0.2.2", 8080),
        ("upper.test", "192.0.2.4", 80),
        ("six.test", "2001:db8::1", 80),
        ("bracketed.test", "2001:db8::2", 80),
        ("six-port.test", "2001:db8::3", 8080),
    ],
)
async def test_an_override_leads_to_its_address(host: str, address: str, port: int) -> None:
    resolver = resolver_with(Cache())
    assert await resolver.resolve(host, 80) == [(address, port)]
    await resolver.close()


@pytest.mark.parametrize("host", ["suffix.test", "other.test", "xexact.test", "a.exact.test"])
async def test_what_no_override_names_is_looked_up(host: str) -> None:
    cache = Cache()
    found = await resolver_with(cache).resolve(host.upper() + ".", 80)
    assert found == [("192.0.2.9", 80), ("2001:db8::9", 80)]
    assert cache.asked == [host]


@pytest.mark.parametrize("host", ["192.0.2.7", "2001:db8::7"])
async def test_an_address_is_not_looked_up(host: str) -> None:
    cache = Cache()
    assert await resolver_with(cache).resolve(host, 80) == [(host, 80)]
    assert not cache.asked


async def test_only_names_are_looked_up_before_a_fetch() -> None:
    cache, counted = Cache(), list[str]()
    resolver = Resolver(OVERRIDES, cache, counted.append)  # type: ignore[arg-type]
    for host in ("exact.test", "127.0.0.1", "::1", "localhost", "Other.test."):
        await resolver.look_up(host)
    assert cache.asked == ["other.test"]
    assert counted == ["dns/overridden"]


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("a.suffix.test", "192.0.2.2"),
        ("Exact.test.", "192.0.2.1"),
        ("198.51.100.7", "198.51.100.7"),
        ("known.test", "192.0.2.9"),
        ("unknown.test", None),
    ],
)
def test_hosts_are_known_by_one_address_once_it_was_looked_up(
    host: str, address: str | None
) -> None:
    cache = Cache()
    assert resolver_with(cache).address(host) == address
    assert not cache.asked


async def test_the_parts_of_a_crawl_share_one_resolver() -> None:
    crawler = project_crawler()
    assert Resolver.of(crawler) is Resolver.of(crawler)
    assert Resolver.of(crawler) is not Resolver.of(project_crawler())


@pytest.mark.parametrize(
    "to",
    ["", "localhost", "192.0.2.1:", "192.0.2.1:x", "192.0.2.1:70000", "192.0.2.1:-1", "192.0.2",
     "[::1", "[::1]x", "[]:80", ":80", 5],
)  # fmt: skip
def test_a_bad_override_is_named(to: Any) -> None:
    with pytest.raises(
        ConfigurationError, match=r"DNS_OVERRIDES: 'h.test' points to .*address:port"
    ):
        Resolver({"h.test": to}, Cache())  # type: ignore[arg-type]
