"""Addresses: where the overrides lead, and which are never connected to."""

import socket
from typing import Any

import pytest

from crawler.errors import ConfigurationError
from crawler.resolver import Guard, RefusedAddress, Resolver
from crawler.urls import canonical, host_of

PRIVATE = """
0.0.0.0 0.0.0.1 0.255.255.255 10.0.0.0 10.0.0.1 10.255.255.255 100.64.0.1 100.127.255.255
127.0.0.1 127.0.0.53 127.255.255.255 169.254.0.1 169.254.169.254 172.16.0.1 172.31.255.255
192.0.0.1 192.0.2.1 192.168.0.1 192.168.255.255 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1
224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255
:: ::1 ::1%lo fe80::1 fe80::1%eth0 febf::1 fec0::1 feff::1 fc00::1 fd00::1 fd12:3456::1
ff00::1 ff02::1 ff0e::1 100::1 2001:db8::1 2001::1 2001:10::1 3fff::1 5f00::1
::ffff:127.0.0.1 ::ffff:7f00:1 ::ffff:10.0.0.1 ::ffff:192.168.0.1 ::ffff:169.254.169.254 ::ffff:0:0
::127.0.0.1 ::10.0.0.1 ::7f00:1 ::ffff:0:127.0.0.1 ::ffff:0:10.0.0.1
64:ff9b::127.0.0.1 64:ff9b::a00:1 64:ff9b::169.254.169.254
64:ff9b:1::1 64:ff9b:1:7f00:0:1:808:808 64:ff9b:1::8.8.8.8
2002:7f00:1:: 2002:7f00:1::1 2002:a00:1::1 2002:c0a8:1::1 2002:a9fe:a9fe::1
2001:0:7f00:1::1 2001:0:4136:e378:8000:63bf:3fff:fdd2
""".split()
PUBLIC = """
1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.1 93.184.216.34 100.63.255.255 100.128.0.1 126.255.255.255
128.0.0.1 169.253.255.255 172.15.255.255 172.32.0.1 192.167.255.255 192.169.0.1 223.255.255.255
2606:4700:4700::1111 2001:4860:4860::8888 2a00:1450:4001::1 ::ffff:8.8.8.8 64:ff9b::8.8.8.8
2002:808:808::1
""".split()
# Hosts of URLs that are spellings of private IPv4 addresses.
SPELLINGS = """
127.1 127.0.1 2130706433 0x7f000001 0x7f.1 017700000001 0177.0.0.1 127.0.0.1. 0 0x0 0xa000001
10.1 ①②⑦.⓪.⓪.① 192.168.1 3232235521 0xc0.0xa8.0.1 169.254.43518 2852039166 [::ffff:7f00:1]
[0:0:0:0:0:0:0:1] [::127.0.0.1]
""".split()


def test_there_are_spellings_enough() -> None:
    assert len({*PRIVATE, *SPELLINGS}) >= 60


@pytest.mark.parametrize("address", PRIVATE)
def test_a_private_or_reserved_address_is_refused(address: str) -> None:
    with pytest.raises(RefusedAddress, match="ALLOW_NETWORKS"):
        Guard([]).check(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_passes(address: str) -> None:
    Guard([]).check(address)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_spelling_in_a_url_becomes_the_address_that_is_refused(spelling: str) -> None:
    url = canonical(f"http://{spelling}/")
    assert isinstance(url, str)
    with pytest.raises(RefusedAddress):
        Guard([]).check(host_of(url).strip("[]"))


@pytest.mark.parametrize(
    ("networks", "address"),
    [
        (["127.0.0.0/8"], "127.0.0.1"),
        (["127.0.0.1"], "127.0.0.1"),
        (["127.0.0.9/8"], "127.0.0.1"),
        (["fd00::/8"], "fd00::1"),
        (["10.0.0.0/8", "::1"], "::1"),
        (["fe80::/10"], "fe80::1%eth0"),
    ],
)
def test_allowed_networks_are_open(networks: list[str], address: str) -> None:
    Guard(networks).check(address)


@pytest.mark.parametrize("address", ["10.0.0.1", "::1", "::ffff:10.0.0.1", "169.254.169.254"])
def test_one_open_network_opens_no_other(address: str) -> None:
    with pytest.raises(RefusedAddress):
        Guard(["127.0.0.0/8"]).check(address)


@pytest.mark.parametrize("network", ["localhost", "127.0.0.0/33", "", "127.0.0.1:80"])
def test_a_bad_network_is_named(network: str) -> None:
    with pytest.raises(ConfigurationError, match=r"ALLOW_NETWORKS: .*Write networks such as"):
        Guard([network])


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
    resolver = Resolver(OVERRIDES)
    (found,) = await resolver.resolve(host, 80)
    assert (found["host"], found["port"]) == (address, port)
    assert found["family"] == (socket.AF_INET6 if ":" in address else socket.AF_INET)
    await resolver.close()


@pytest.mark.parametrize("host", ["suffix.test", "other.test", "xexact.test", "a.exact.test"])
async def test_what_no_override_names_goes_to_the_system(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    async def system(self: Any, name: str, *rest: Any) -> list[Any]:
        asked.append(name)
        return []

    monkeypatch.setattr("crawler.resolver.ThreadedResolver.resolve", system)
    assert await Resolver(OVERRIDES).resolve(host, 80) == []
    assert asked == [host]


@pytest.mark.parametrize(
    "to",
    ["", "localhost", "192.0.2.1:", "192.0.2.1:x", "192.0.2.1:70000", "192.0.2.1:-1", "192.0.2",
     "[::1", "[::1]x", "[]:80", ":80", 5],
)  # fmt: skip
def test_a_bad_override_is_named(to: Any) -> None:
    with pytest.raises(
        ConfigurationError, match=r"DNS_OVERRIDES: 'h.test' points to .*address:port"
    ):
        Resolver({"h.test": to})
