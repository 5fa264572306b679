"""Addresses: which are never connected to, however they are written."""

import logging

import pytest

from crawler.download.address_guard import Guard, RefusedAddress
from crawler.errors import ConfigurationError
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
192.0.0.8 192.0.0.192 ::ffff:192.0.0.192 64:ff9b::c000:c0 2002:c000:c0:: ::ffff:192.88.99.1
168.63.129.16 ::ffff:168.63.129.16 192.88.99.1 2001:0:7f00:1::1 2001:0:4136:e378:8000:63bf:3fff:fdd2
""".split()
PUBLIC = """
1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.1 93.184.216.34 100.63.255.255 100.128.0.1 126.255.255.255
128.0.0.1 169.253.255.255 172.15.255.255 172.32.0.1 192.167.255.255 192.169.0.1 223.255.255.255
2606:4700:4700::1111 2001:4860:4860::8888 2a00:1450:4001::1 ::ffff:8.8.8.8 64:ff9b::8.8.8.8
2002:808:808::1 168.63.129.17 192.0.1.1
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


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "a.localhost", "[::1]", "10.0.0.1."])
def test_the_host_of_a_url_is_judged_where_it_is_an_address_itself(host: str) -> None:
    with pytest.raises(RefusedAddress):
        Guard([]).check_literal(host)


@pytest.mark.parametrize("host", ["h.test", "8.8.8.8", "[2606:4700:4700::1111]", "localhost.test"])
def test_names_and_public_addresses_pass_unasked(host: str) -> None:
    Guard([]).check_literal(host)


def test_a_refused_host_is_counted_always_and_named_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    counted: list[str] = []
    guard = Guard([], counted.append)
    for number in range(3000):
        guard.refused("h.test")
        guard.refused(f"{number}.test")
    assert counted == ["guard/refused"] * 6000
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(lines) == len(set(lines)) == 1000
    assert lines[0] == (
        "h.test is not connected to: its address is in a private or reserved network; "
        "ALLOW_NETWORKS can open it"
    )
