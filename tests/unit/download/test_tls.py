"""TLS without a network: records in pieces of any size, and which sessions are kept."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from crawler.download import tls as tls_layers
from crawler.download.request_writer import Origin
from crawler.download.tls import TlsLayer, TlsSessions
from tests.support.certificates import server_context

SERVER = Origin("https", "h.test", 443, "h.test", "h.test", b"")
BODY = bytes(range(256)) * 250


class Peer:
    """A server of TLS in memory, and the layer that speaks to it."""

    def __init__(self, folder: Path, proxy: Peer | None = None) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = server_context(folder).wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.sent = 0
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        outer = None if proxy is None else proxy.layer
        self.layer = TlsLayer(context, SERVER, self._take, outer=outer)
        self._proxy = proxy

    def _take(self, data: bytes) -> None:
        self.sent += 1
        self._incoming.write(data)

    def packed(self, data: bytes) -> bytes:
        """What the server sends, with these bytes of HTTP in it."""
        while data:
            data = data[self.tls.write(data) :]
        return self._outgoing.read()

    def shake_hands(self, step: int = 1 << 20) -> None:
        self.layer.begin()
        with pytest.raises(ssl.SSLWantReadError):
            self.tls.do_handshake()
        for part in cut(self._outgoing.read(), step):
            received = part if self._proxy is None else self._proxy.packed(part)
            assert self.layer.receive(received) == b""
        assert self.layer.ready.done()
        self.layer.write(b"GET /")
        self.tls.do_handshake()
        assert self.tls.read(100) == b"GET /"


def tunnel(folder: Path) -> tuple[Peer, Peer]:
    """A proxy that speaks TLS, and a server behind it."""
    proxy = Peer(folder)
    proxy.shake_hands()
    server = Peer(folder, proxy)
    server.shake_hands()
    return proxy, server


def cut(data: bytes, step: int) -> list[bytes]:
    return [data[at : at + step] for at in range(0, len(data), step)]


@pytest.mark.parametrize("step", [1, 3, 4, 5, 6, 1000, 16_384, 16_406, 65_536, 1 << 20])
async def test_records_may_come_in_pieces_of_any_size(tmp_path: Path, step: int) -> None:
    peer = Peer(tmp_path)
    peer.shake_hands(step)
    for _ in range(2):
        parts = [peer.layer.receive(part) for part in cut(peer.packed(BODY), step)]
        assert b"".join(parts) == BODY
    assert not peer.layer.is_ended
    # Two tickets and the handshake, no pages.
    assert peer.layer.overhead_bytes < 8000


async def test_a_handshake_needs_one_message_before_the_request_and_one_with_it(
    tmp_path: Path,
) -> None:
    peer = Peer(tmp_path)
    peer.shake_hands()
    assert peer.sent == 2


async def test_the_end_is_told_after_the_last_bytes(tmp_path: Path) -> None:
    peer = Peer(tmp_path)
    peer.shake_hands()
    data = peer.packed(b"last")
    with pytest.raises(ssl.SSLWantReadError):
        peer.tls.unwrap()
    assert peer.layer.receive(data + peer.packed(b"")) == b"last"
    assert peer.layer.is_ended


async def test_a_tunnel_ends_with_the_connection_to_its_proxy(tmp_path: Path) -> None:
    proxy = Peer(tmp_path)
    proxy.shake_hands()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tunnel = TlsLayer(context, SERVER, [].append, outer=proxy.layer)
    tunnel.begin()
    with pytest.raises(ssl.SSLWantReadError):
        proxy.tls.unwrap()
    assert tunnel.receive(proxy.packed(b"")) == b""
    assert tunnel.is_ended


def damaged(record: bytes) -> bytes:
    return record[:-1] + bytes([record[-1] ^ 1])


async def test_a_damaged_record_is_an_error_after_the_good_ones(tmp_path: Path) -> None:
    peer = Peer(tmp_path)
    peer.shake_hands()
    good, bad, after = peer.packed(b"good"), damaged(peer.packed(b"bad")), peer.packed(b"after")
    assert peer.layer.receive(good + bad + after) == b"good"
    assert isinstance(peer.layer.error, ssl.SSLError)


async def test_an_error_of_the_proxy_is_told_after_the_good_records_of_the_server(
    tmp_path: Path,
) -> None:
    proxy, server = tunnel(tmp_path)
    data = proxy.packed(server.packed(b"good")) + damaged(proxy.packed(b"bad"))
    assert server.layer.receive(data) == b"good"
    assert isinstance(server.layer.error, ssl.SSLError)


async def test_whether_a_connection_ends_inside_a_record_is_known(tmp_path: Path) -> None:
    peer = Peer(tmp_path)
    peer.shake_hands()
    peer.layer.receive(peer.packed(b""))
    assert not peer.layer.is_inside_record
    for part in cut(peer.packed(b"page"), 1)[:-1]:
        peer.layer.receive(part)
        assert peer.layer.is_inside_record


async def test_whether_a_connection_ends_inside_a_record_of_a_proxy_is_known(
    tmp_path: Path,
) -> None:
    proxy, server = tunnel(tmp_path)
    data = proxy.packed(server.packed(b"page"))
    server.layer.receive(data[:-1])
    assert server.layer.is_inside_record
    assert server.layer.receive(data[-1:]) == b"page"
    assert not server.layer.is_inside_record


async def test_what_follows_the_end_is_ignored(tmp_path: Path) -> None:
    peer = Peer(tmp_path)
    peer.shake_hands()
    with pytest.raises(ssl.SSLWantReadError):
        peer.tls.unwrap()
    peer.layer.receive(peer.packed(b"") + b"mo")
    assert peer.layer.is_ended
    assert not peer.layer.is_inside_record
    assert peer.layer.error is None


async def test_a_lost_connection_ends_the_handshake(tmp_path: Path) -> None:
    layer = Peer(tmp_path).layer
    layer.begin()
    layer.failed(None)
    with pytest.raises(ConnectionResetError):
        await layer.ready


async def finished(folder: Path, *, overhead_bytes: int = 0) -> TlsLayer:
    peer = Peer(folder)
    peer.shake_hands()
    peer.layer.receive(peer.packed(b"page"))
    peer.layer.overhead_bytes += overhead_bytes
    return peer.layer


async def test_sessions_of_the_servers_that_were_left_last_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_layers, "_SERVERS_MAX", 2)
    sessions, layer = TlsSessions(), await finished(tmp_path)
    for name in "abac":
        sessions.put(name, layer)
    assert [sessions.take(name) is not None for name in "abc"] == [True, False, True]
    assert sessions.take("a") is None


async def test_small_records_do_not_make_a_session_large(tmp_path: Path) -> None:
    peer, sessions = Peer(tmp_path), TlsSessions()
    peer.shake_hands()
    for _ in range(3000):
        peer.layer.receive(peer.packed(b"page"))
    sessions.put("h", peer.layer)
    assert sessions.take("h") is not None


async def test_tickets_count_after_pages_too(tmp_path: Path) -> None:
    peer = Peer(tmp_path)
    peer.shake_hands()
    before = peer.layer.overhead_bytes
    peer.layer.receive(peer.packed(b"page"))
    # The server sends its tickets with its first page.
    assert before + 200 < peer.layer.overhead_bytes < before + 2000


async def test_sessions_that_no_server_knows_any_more_are_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions, layer = TlsSessions(), await finished(tmp_path)
    monkeypatch.setattr(tls_layers, "monotonic", iter((0.0, 5000.0, 7201.0)).__next__)
    for name in "abc":
        sessions.put(name, layer)
    assert [sessions.take(name) is not None for name in "abc"] == [False, True, True]


async def test_large_and_unfinished_sessions_are_not_kept(tmp_path: Path) -> None:
    sessions, unfinished = TlsSessions(), Peer(tmp_path).layer
    unfinished.begin()
    sessions.put("unfinished", unfinished)
    sessions.put("large", await finished(tmp_path, overhead_bytes=100_000))
    assert sessions.take("unfinished") is sessions.take("large") is None
