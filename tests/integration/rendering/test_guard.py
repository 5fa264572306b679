"""A browser reaches no network: whatever a page tries, only the crawl is asked."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest
import pytest_asyncio

from crawler.rendering.browsers import Browsers
from tests.integration.rendering.conftest import Make
from tests.support.rendering import URL, Site, render

pytestmark = pytest.mark.asyncio(loop_scope="module")

# What a page does; HOST is a server that listens, on loopback.
MARKUP = """
<link rel=preconnect href=//HOST crossorigin><link rel=dns-prefetch href=//localhost:PORT>
<link rel=prefetch href=//HOST/prefetch><link rel=preload as=fetch href=//HOST/preload>
<link rel=modulepreload href=//HOST/module.js><link rel=icon href=//HOST/icon>
<link rel=manifest href=//HOST/manifest><link rel=stylesheet href=//HOST/style.css>
<style>@import "//HOST/import.css"; @font-face { font-family: f; src: url(//HOST/font) }
  p { font-family: f; background: url(//HOST/background) }</style><p>text</p>
<script src=//HOST/script.js></script><script type=module src=//HOST/module2.js></script>
<script type=speculationrules>{"prefetch": [{"urls": ["/ahead", "//HOST/ahead"], "eagerness":
  "immediate"}], "prerender": [{"urls": ["/before", "//HOST/before"], "eagerness": "immediate"}]}
</script>
<img src=//HOST/image><img srcset="//HOST/image2 2x"><img src="file:///etc/hostname">
<picture><source srcset=//HOST/picture><img></picture><svg><image href=//HOST/svg /></svg>
<iframe src=//HOST/frame></iframe><iframe src="file:///etc/passwd"></iframe>
<iframe srcdoc="<img src=//HOST/inner><script>fetch('//HOST/inner')</script>"></iframe>
<object data=//HOST/object></object><embed src=//HOST/embed>
<video src=//HOST/video poster=//HOST/poster></video><audio src=//HOST/audio autoplay></audio>
<a id=ping href=//HOST/pinged ping=//HOST/ping>a</a><a id=file download href=//HOST/file>a</a>
<form id=post method=post action=//HOST/post target=inner></form><iframe name=inner></iframe>
<form id=get action=//HOST/get target=_blank></form>
"""
TRIES = """
const host = 'HOST', names = ['127.0.0.1', 'localhost', '[::1]', '0.0.0.0', '2130706433'];
const tries = {
  fetch: () => Promise.allSettled(names.map(name => fetch(`http://${name}:PORT/fetch`))),
  keepalive: () => fetch(`//${host}/keepalive`, {keepalive: true, method: 'POST', body: 'x'}),
  private: () => fetch(`//${host}/private`, {targetAddressSpace: 'loopback'}),
  file: () => fetch('file:///etc/passwd').then(r => r.text()).then(t => document.body.append(t)),
  internal: () => fetch('chrome://version'),
  xhr: () => new Promise(done => { const x = new XMLHttpRequest(); x.onloadend = done;
    x.open('GET', `//${host}/xhr`); x.send(); }),
  beacon: () => navigator.sendBeacon(`//${host}/beacon`, 'x'),
  events: () => closed(new EventSource(`//${host}/events`)),
  sockets: () => Promise.all(names.map(name => closed(new WebSocket(`ws://${name}:PORT/ws`)))),
  transport: () => new WebTransport(`https://${host}/transport`).ready,
  rtc: () => gathered(new RTCPeerConnection({iceServers: [
    {urls: 'stun:127.0.0.1:UDP'}, {urls: 'stun:localhost:UDP'},
    {urls: 'turn:127.0.0.1:PORT?transport=tcp', username: 'u', credential: 'c'}]})),
  frame_rtc: () => gathered(new (framed().RTCPeerConnection)({iceServers: [
    {urls: 'stun:127.0.0.1:UDP'}]})),
  frame_socket: () => closed(new (framed().WebSocket)(`ws://${host}/framed`)),
  worker: () => answered(new Worker(URL.createObjectURL(new Blob([WORKER])))),
  own_worker: () => answered(new Worker('/worker.js')),
  other_worker: () => new Worker(`//${host}/worker.js`),
  shared: () => answered(new SharedWorker('/shared.js').port),
  shared_blob: () => answered(new SharedWorker(URL.createObjectURL(new Blob([SHARED]))).port),
  service: () => navigator.serviceWorker.register('/service.js'),
  service_again: () => ServiceWorkerContainer.prototype.register.call(
    navigator.serviceWorker, '/service.js'),
  worklet: () => new OfflineAudioContext(1, 1, 8000).audioWorklet.addModule(`//${host}/worklet`),
  import: () => import(`//${host}/import.js`),
  opens: () => [open(`//${host}/open`), open(`//${host}/open2`, '_blank', 'noopener')],
  clicks: () => { ping.click(); file.click(); },
  forms: () => { post.submit(); get.submit(); },
  places: () => { location = `//${host}/place`; location = 'file:///etc/passwd'; },
};
const wait = ms => new Promise(done => setTimeout(done, ms));
const closed = it => new Promise(done => { it.onerror = it.onclose = done; });
const answered = it => new Promise(done => { it.onmessage = it.onerror = done; });
const framed = () => document.body.appendChild(document.createElement('iframe')).contentWindow;
const gathered = async connection => {
  connection.createDataChannel('a');
  await connection.setLocalDescription(await connection.createOffer());
  await new Promise(done => { connection.onicecandidate = e => e.candidate || done(); });
};
const ATTEMPTS = `Promise.allSettled([
  fetch('http://HOST/from_worker'),
  new Promise(done => { const s = new WebSocket('ws://HOST/from_worker');
    s.onerror = s.onclose = done; }),
  new Promise(done => { const x = new XMLHttpRequest(); x.onloadend = done;
    x.open('GET', 'http://HOST/xhr_from_worker'); x.send(); }),
  new Promise(done => { const e = new EventSource('http://HOST/events'); e.onerror = done; }),
])`;
const WORKER = `try { importScripts('http://HOST/imported.js'); } catch {}
  ${ATTEMPTS}.then(() => postMessage('done'))`;
const SHARED = `onconnect = e => ${ATTEMPTS}.then(() => e.ports[0].postMessage('done'))`;
(async () => {
  for (const [name, attempt] of Object.entries(tries)) {
    let how = 'ended';
    try { await Promise.race([attempt(), wait(1000).then(() => { how = 'waited'; })]); }
    catch (error) { how = error.name; }
    document.body.append(document.createElement('hr'), `${name}: ${how}`);
  }
  document.body.append('all tried');
})();
"""
WORKER = "fetch('http://HOST/from_own_worker').finally(() => postMessage('done'))"
SHARED = "onconnect = e => fetch('http://HOST/shared').finally(() => e.ports[0].postMessage(1))"


class Listener:
    """Servers on loopback that nobody is to reach."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._servers: list[asyncio.Server] = []

    async def start(self) -> None:
        self._servers.append(await asyncio.start_server(self._connected, "0.0.0.0", 0))
        self.port = self._servers[0].sockets[0].getsockname()[1]
        with suppress(OSError):
            self._servers.append(await asyncio.start_server(self._connected, "::1", self.port))
        self._udp.bind(("127.0.0.1", 0))
        self._udp.setblocking(False)
        self.udp_port = self._udp.getsockname()[1]

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.seen.append((await reader.readline()).decode("latin-1").strip() or "connected")
        writer.close()

    def datagrams(self) -> list[bytes]:
        found = []
        with suppress(BlockingIOError):
            while True:
                found.append(self._udp.recv(2000))
        return found

    async def close(self) -> None:
        self._udp.close()
        for server in self._servers:
            server.close()
            await server.wait_closed()

    def of_this(self, text: str) -> str:
        text = text.replace("HOST", f"127.0.0.1:{self.port}")
        return text.replace("PORT", str(self.port)).replace("UDP", str(self.udp_port))


@pytest_asyncio.fixture(loop_scope="module")
async def listener() -> AsyncIterator[Listener]:
    listener = Listener()
    await listener.start()
    yield listener
    await listener.close()


HEADERS = [
    ("Link", "<//HOST/linked>; rel=preload; as=script, <//HOST>; rel=preconnect"),
    ("Report-To", '{"group": "g", "max_age": 9, "endpoints": [{"url": "http://HOST/report"}]}'),
    ("Reporting-Endpoints", 'g="http://HOST/reporting"'),
    ("NEL", '{"report_to": "g", "max_age": 9, "success_fraction": 1}'),
    ("Content-Security-Policy-Report-Only", "script-src 'none'; report-uri //HOST/violation"),
]


@pytest.mark.parametrize("own_network", [False, True], ids=["by its arguments", "by the system"])
async def test_nothing_that_a_page_tries_reaches_a_server(
    make: Make, listener: Listener, own_network: bool
) -> None:
    if own_network and os.geteuid() != 0:
        pytest.skip("only root may give processes a network of their own")
    browsers = make(config={"own_network": own_network})
    site = Site({"worker.js": listener.of_this(WORKER), "shared.js": listener.of_this(SHARED)})
    document = listener.of_this(f"{MARKUP}<script>{TRIES}</script>")
    headers = [(name, listener.of_this(value)) for name, value in HEADERS]
    found = await attempt(browsers, document, site, headers=headers, scroll=3)
    assert b"all tried" in found.html
    assert b"root:" not in found.html
    assert not listener.seen
    assert not listener.datagrams()
    # All of these were asked for, and nothing but parts.
    asked = {part.url.rpartition("/")[2] for part in site.asked}
    expected = "script.js style.css fetch xhr from_worker from_own_worker worker.js keepalive"
    assert asked >= set(expected.split())
    assert {part.kind for part in site.asked} <= {"script", "stylesheet", "xhr", "fetch"}
    assert found.left_out.keys() >= {"iframe", "ping", "eventsource", "websocket", "media"}


async def attempt(browsers: Browsers, document: str, site: Site, **job: Any) -> Any:
    found = await render(browsers, document, site, **job)
    # Before the browser's own services end, which might be late.
    await render(browsers, "<p>another page", site)
    return found


async def test_names_are_not_looked_up(make: Make) -> None:
    """Not by the system either, whose resolver a browser may ask instead of a server of names."""
    browsers = make(config={"own_network": False})
    script = "fetch('http://localhost/a').catch(e => document.body.append('no: ' + e.message))"
    site = Site()
    found = await render(browsers, f"<script>{script}</script>", site)
    assert b"no: Failed to fetch" in found.html
    assert site.urls == ["http://localhost/a"]
    assert URL not in site.urls
