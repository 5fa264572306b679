"""Questions and plain answers of DNS as bytes, compared with a whole DNS library."""

import random

import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import pytest

from crawler.dns.message import Found, NotPlain, question, read

HOST = "www.shop-1.example.test"


def answer(asked: bytes, *records: str, rcode: int = dns.rcode.NOERROR, flags: int = 0) -> bytes:
    """What a server says; a record is "name ttl kind data"."""
    reply = dns.message.make_response(dns.message.from_wire(asked))
    for record in records:
        name, ttl, kind, data = record.split()
        reply.answer.append(dns.rrset.from_text(f"{name}.", int(ttl), "IN", kind, data))
    reply.set_rcode(dns.rcode.Rcode.make(rcode))
    reply.flags |= flags
    return reply.to_wire()


@pytest.mark.parametrize("kind", ["A", "AAAA"])
def test_a_question_is_what_a_library_would_ask(kind: str) -> None:
    asked = question(HOST, kind)
    theirs = dns.message.make_query(HOST, kind, use_edns=False)
    theirs.id = dns.message.from_wire(asked).id
    assert asked == theirs.to_wire()


def test_questions_cannot_be_guessed() -> None:
    assert len({question(HOST, "A")[:2] for _ in range(100)}) > 50


@pytest.mark.parametrize(
    "host", ["a..test", "x" * 64 + ".test", "a." * 127 + "b", "ü.test", "a b.c"]
)
def test_odd_names_are_left_to_the_library(host: str) -> None:
    with pytest.raises(NotPlain):
        question(host, "A")


def test_addresses_and_the_shortest_of_their_times_are_read() -> None:
    asked = question(HOST, "A")
    said = answer(asked, f"{HOST} 300 A 192.0.2.1", f"{HOST} 70 A 192.0.2.2")
    assert read(said, asked) == Found(("192.0.2.1", "192.0.2.2"), 70)
    asked = question(HOST, "AAAA")
    assert read(answer(asked, f"{HOST} 5 AAAA 2001:db8::1"), asked) == Found(("2001:db8::1",), 5)


def test_aliases_are_followed_in_any_order_and_whatever_their_case() -> None:
    asked = question(HOST, "A")
    chain = [
        "b.cdn.test 60 A 192.0.2.9",
        f"{HOST.upper()} 40 CNAME a.CDN.test.",
        "a.cdn.TEST 20 CNAME B.cdn.test.",
        "other.test 1 A 192.0.2.66",
    ]
    assert read(answer(asked, *chain), asked) == Found(("192.0.2.9",), 20)


def test_aliases_that_lead_nowhere_have_no_address() -> None:
    asked = question(HOST, "A")
    assert read(answer(asked, f"{HOST} 40 CNAME a.cdn.test."), asked) == Found(())


def test_aliases_that_lead_in_a_circle_are_not_plain() -> None:
    asked = question(HOST, "A")
    with pytest.raises(NotPlain):
        read(answer(asked, f"{HOST} 4 CNAME a.test.", f"a.test 4 CNAME {HOST}."), asked)


def test_no_such_name_and_no_address_are_plain() -> None:
    asked = question(HOST, "A")
    assert read(answer(asked, rcode=dns.rcode.NXDOMAIN), asked) == Found(())
    assert read(answer(asked), asked) == Found(())


@pytest.mark.parametrize("rcode", [dns.rcode.SERVFAIL, dns.rcode.REFUSED, dns.rcode.FORMERR])
def test_errors_of_servers_are_not_plain(rcode: int) -> None:
    asked = question(HOST, "A")
    with pytest.raises(NotPlain):
        read(answer(asked, rcode=rcode), asked)


def test_cut_answers_are_not_plain() -> None:
    asked = question(HOST, "A")
    with pytest.raises(NotPlain):
        read(answer(asked, f"{HOST} 300 A 192.0.2.1", flags=dns.flags.TC), asked)


def test_what_answers_another_question_is_not_listened_to() -> None:
    asked = question(HOST, "A")
    said = answer(asked, f"{HOST} 300 A 192.0.2.66")
    others = question("other.test", "A"), question(HOST, "AAAA"), question(HOST, "A")
    for other in others:
        forged = answer(other, f"{HOST} 300 A 192.0.2.66")
        assert read(asked[:2] + forged[2:], asked) is None or other[12:] == asked[12:]
    other_id = bytes((said[0] ^ 1,)) + said[1:]
    for wrong in (other_id, asked, said[:11], b""):
        assert read(wrong, asked) is None


def test_a_name_that_leads_into_itself_ends() -> None:
    asked = question(HOST, "A")
    header = answer(asked, f"{HOST} 300 A 192.0.2.1")[: len(asked)]
    at = len(asked)
    for name in (
        # To itself, further on, and back to a label before itself.
        (0xC000 | at).to_bytes(2),
        (0xC000 | at + 5).to_bytes(2),
        b"\x01a" + (0xC000 | at).to_bytes(2),
        b"\x40" + b"a" * 64 + b"\0",
    ):
        with pytest.raises(NotPlain):
            read(header + name + b"\0\x01\0\x01\0\0\0\x01\0\x04\x01\x02\x03\x04", asked)


def test_damaged_answers_are_found_out_or_say_what_the_library_says() -> None:
    chance = random.Random(1)
    asked = question(HOST, "A")
    records = [f"{HOST} 40 CNAME a.cdn.test.", "a.cdn.test 60 A 192.0.2.9"]
    whole = answer(asked, *records, "b.test 60 AAAA 2001:db8::1")
    for cut in range(len(whole)):
        try:
            found = read(whole[:cut], asked)
        except NotPlain:
            continue
        assert found is None
    for _ in range(3000):
        damaged = bytearray(whole)
        for _ in range(chance.randint(1, 3)):
            damaged[chance.randrange(len(asked), len(whole))] = chance.randrange(256)
        try:
            found = read(bytes(damaged), asked)
        except NotPlain:
            continue
        assert found is not None
        try:
            theirs = dns.message.from_wire(bytes(damaged)).resolve_chaining()
        except Exception:  # noqa: BLE001 - it refuses more than we need to
            continue
        expected = {record.address for record in theirs.answer or ()}
        assert set(found.addresses) == expected
        if expected:
            assert found.ttl_s == theirs.minimum_ttl
