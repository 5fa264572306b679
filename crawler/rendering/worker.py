"""Browser process: renders the pages that come through standard input, one at a time.

It is started as `python -m crawler.rendering.worker CONFIG FOLDER`, starts a browser that has no
network of its own, and ends with its standard input, or with its crawl, and with it all that it
started. Every request of a page is intercepted: its document is known, parts are asked from the
crawl, and all others are refused. The crawl ends a process whose page went wrong.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import re
import shutil
import signal
import sys
from base64 import b64decode
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urldefrag

from playwright.async_api import Error, async_playwright

from crawler.reading.messages import READY, SIZE, packed, unpacked
from crawler.rendering.messages import (
    MAX_BODY_BYTES,
    MAX_HTML_BYTES,
    MAX_PARTS,
    MAX_ROUTES,
    MAX_SCREENSHOT_BYTES,
    MAX_TEXT_CHARS,
    PARTS_AT_ONCE,
    BrowserConfig,
    are_headers,
    is_of_site,
    is_web_url,
)
from crawler.rendering.processes import end_below

if TYPE_CHECKING:
    from playwright.async_api import (
        Browser,
        BrowserContext,
        BrowserType,
        CDPSession,
        Frame,
        Page,
        Request,
        Route,
    )

# The last such list counts, so it repeats what playwright turns off. Windows load pages of their
# own for their address bars (WebUI…), which nobody sees, and which take longer than most pages. A
# new profile would have a second renderer started (SpareRenderer…) for a page that does not come.
_FEATURES_OFF = (
    "AvoidCorsURLLoaderRestartOnRedirect,AvoidUnnecessaryBeforeUnloadCheckSync,"
    "DestroyProfileOnBrowserClose,HttpsFirstBalancedModeAutoEnable,HttpsUpgrades,LensOverlay,"
    "MediaRouter,NetworkTimeServiceQuerying,OptimizationHints,PaintHolding,PreconnectToSearch,"
    "ThirdPartyStoragePartitioning,AimEnabled,SpareRendererForSitePerProcess,"
    "WebUIOmniboxPopup,WebUIOmniboxAimPopup,WebUIOmniboxFullPopup,"
    "DialMediaRouteProvider,OptimizationGuideModelDownloading,Translate"
)
# Without any way to a network: what an interception does not see ends at a dead proxy, also on
# loopback, and at names that do not resolve. The rest saves time.
_ARGUMENTS = (
    "--proxy-server=http://127.0.0.1:1",
    "--proxy-bypass-list=<-loopback>",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--dns-prefetch-disable",
    "--disable-quic",
    "--disable-domain-reliability",
    "--disable-gpu",
    "--disable-notifications",
    "--disable-speech-api",
    "--js-flags=--max-old-space-size=512",
    "--no-pings",
    "--renderer-process-limit=2",
    f"--disable-features={_FEATURES_OFF}",
)
# What playwright allows and pages are not to have: windows, floods of navigations, 3D by the CPU.
_NOT_WANTED = (
    "--disable-ipc-flooding-protection",
    "--disable-popup-blocking",
    "--enable-unsafe-swiftshader",
)
# What pages find missing: connections that are no requests.
_WITHOUT = """
for (const name of ['RTCPeerConnection', 'webkitRTCPeerConnection', 'WebTransport']) {
  delete globalThis[name];
}
"""
# Pages have many images. Refused by their policy they fail at once, as a request would that is
# refused here, but take no time of this process.
_NO_IMAGES = "img-src data: blob:"
# Resolves when the page has stayed the same for `quiet` ms: a clock that ticks does not count.
_QUIET = """
new Promise(resolve => {
  let elements = -1, chars = -1, since = performance.now();
  const look = () => {
    const now = performance.now();
    const count = document.getElementsByTagName('*').length;
    const length = document.documentElement ? document.documentElement.textContent.length : 0;
    if (count !== elements || Math.abs(length - chars) > 20 || document.readyState === 'loading') {
      [elements, chars, since] = [count, length, now];
    }
    if (now - since >= %d) resolve(true); else setTimeout(look, 50);
  };
  look();
})
"""
_QUIET_MS = 300
_HEIGHT = "(document.scrollingElement || document.documentElement).scrollHeight"
_SCROLL = f"window.scrollTo(0, {_HEIGHT})"
# The page as it is; links in shadow trees, which its HTML does not have; images that failed.
_TAKE = """
(chars, links) => {
  const routes = [];
  const search = root => {
    for (const element of root.querySelectorAll('*')) {
      if (!element.shadowRoot || routes.length >= links) continue;
      for (const link of element.shadowRoot.querySelectorAll('a[href]')) routes.push(link.href);
      search(element.shadowRoot);
    }
  };
  search(document);
  const images = [...document.images].filter(
    image => !image.naturalWidth && /^https?:/.test(image.src)
  ).length;
  const html = '<!DOCTYPE html>' + document.documentElement.outerHTML;
  return {
    url: document.URL, html: html.slice(0, chars), routes: routes.slice(0, links), images
  };
}
"""
# Console events of a page that are looked at.
_CONSOLE_MAX = 1000
# After its time a page gets so many seconds to show what it has, and its browser to forget it. The
# crawl ends a browser that takes much longer.
_TAKE_S, _CLOSE_S = 3.0, 2.0
# Headers of responses that would do something to the browser, or that its interception writes.
_NOT_SHOWN = frozenset(
    "alt-svc clear-site-data connection content-disposition content-encoding content-length "
    "location nel report-to reporting-endpoints strict-transport-security "
    "transfer-encoding".split()
)
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]{1,100}")
_NOT_A_VALUE = re.compile(r"[^\t\x20-\x7e\x80-\xff]")
_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_CHILD_SUBREAPER = 1, 24, 36
_CAP_SYS_NICE, _CLONE_NEWNET = 23, 0x40000000


class _Failed(Exception):
    """Page that cannot be rendered."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class _Crawl:
    """Other end of the pipes: jobs and answers come in, requests for parts and pages go out."""

    def __init__(self, incoming: asyncio.StreamReader, outgoing: int) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._number = 0

    async def message(self) -> Any:
        """Return the next message; IncompleteReadError at the end."""
        size = SIZE.unpack(await self._incoming.readexactly(SIZE.size))[0]
        return unpacked(await self._incoming.readexactly(size))

    def send(self, message: Mapping[str, Any] | str) -> None:
        """Send a message. The crawl reads at once, or kills this process."""
        data = memoryview(packed(message))
        while data:
            data = data[os.write(self._outgoing, data) :]

    async def ask(self, part: Mapping[str, Any]) -> Any:
        """Return the crawl's answer for a part."""
        self._number += 1
        number = self._number
        answered = self._answers[number] = asyncio.get_running_loop().create_future()
        try:
            self.send({"part": number, **part})
            return await answered
        finally:
            del self._answers[number]

    def answered(self, message: Mapping[str, Any]) -> None:
        """Take an answer; those for a page that has ended are dropped."""
        waiting = self._answers.get(message["answer"])
        if waiting is not None and not waiting.done():
            waiting.set_result(message)


class _Rendering:
    """One page in its browser."""

    def __init__(self, crawl: _Crawl, config: BrowserConfig, job: Mapping[str, Any]) -> None:
        self._crawl = crawl
        self._kinds = config.kinds
        self._job = job
        self._page: Page
        self._cdp: CDPSession
        self._world = 0
        self._begun = False
        self._redirect = ""
        self._routes: dict[str, None] = {}
        self._left_out: Counter[str] = Counter()
        self._console_errors = 0
        self._console_events = 0
        self._crashed = asyncio.Event()
        # Parts under way, and how many there were.
        self._parts = 0
        self._parts_begun = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._turns = asyncio.Semaphore(PARTS_AT_ONCE)

    async def run(self, context: BrowserContext) -> dict[str, Any]:
        """Render the page; raises _Failed."""
        work = asyncio.ensure_future(self._run(context))
        crash = asyncio.ensure_future(self._crashed.wait())
        try:
            await asyncio.wait((work, crash), return_when=asyncio.FIRST_COMPLETED)
            if crash.done():
                raise _Failed("crashed", "its tab crashed")
            return work.result()
        finally:
            work.cancel()
            crash.cancel()

    async def _run(self, context: BrowserContext) -> dict[str, Any]:
        await context.add_init_script(_WITHOUT)
        await context.route("**/*", self._routed)
        self._page = page = await context.new_page()
        context.on("page", self._close_popup)
        page.on("crash", lambda _: self._crashed.set())
        page.on("close", lambda _: self._crashed.set())
        page.on("framenavigated", self._navigated)
        # They fail, as there is no network.
        page.on("websocket", lambda _: self._leave_out("websocket"))
        self._cdp = await context.new_cdp_session(page)
        self._cdp.on("Runtime.exceptionThrown", self._on_exception)
        self._cdp.on("Runtime.consoleAPICalled", self._on_console)
        await self._cdp.send("Runtime.enable")
        await page.goto(self._job["url"], wait_until="commit", timeout=0)
        deadline = asyncio.get_running_loop().time() + self._job["deadline_s"]
        settled = False
        with suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                await self._settle()
                await self._scroll()
                settled = True
        try:
            async with asyncio.timeout_at(deadline + _TAKE_S):
                return await self._take(settled=settled)
        except TimeoutError as error:
            raise _Failed("timeout", "its page does not show what it has") from error

    async def _settle(self) -> None:
        """Wait until no part is under way, and the page stays the same."""
        while not self._redirect:
            await self._idle.wait()
            begun = self._parts_begun
            await self._evaluate(_QUIET % _QUIET_MS)
            if self._parts == 0 and self._parts_begun == begun:
                return

    async def _scroll(self) -> None:
        """Scroll the page to its end, as often as is wanted and as it grows."""
        for _ in range(self._job["scroll"]):
            before = await self._evaluate(_HEIGHT)
            await self._evaluate(_SCROLL)
            await self._settle()
            if await self._evaluate(_HEIGHT) <= before:
                return

    async def _take(self, *, settled: bool) -> dict[str, Any]:
        found = await self._evaluate(f"({_TAKE})({MAX_HTML_BYTES}, {MAX_ROUTES})")
        screenshot = await self._screenshot() if self._job["screenshot"] else b""
        if not is_of_site(found["url"], self._job["url"]):
            # As about:blank, where scripts send visitors whom they do not like.
            raise _Failed("crashed", f"its page went to {found['url']:.100}")
        self._leave_out("image", found["images"])
        routes = [*self._routes, *filter(is_web_url, found["routes"])]
        return {
            "url": found["url"],
            "html": found["html"].encode("utf-8", "replace")[:MAX_HTML_BYTES],
            "redirect": self._redirect,
            "routes": routes[:MAX_ROUTES],
            "settled": settled,
            "console_errors": self._console_errors,
            "left_out": dict(self._left_out),
            "screenshot": screenshot,
        }

    async def _screenshot(self) -> bytes:
        found = await self._cdp.send(
            "Page.captureScreenshot", {"format": "webp", "quality": 80, "optimizeForSpeed": True}
        )
        image = b64decode(found["data"])
        return image if len(image) <= MAX_SCREENSHOT_BYTES else b""

    async def _evaluate(self, script: str) -> Any:
        """Run a script in a world of its own, whose functions the page cannot replace."""
        for _ in range(2):
            try:
                if not self._world:
                    tree = await self._cdp.send("Page.getFrameTree")
                    made = await self._cdp.send(
                        "Page.createIsolatedWorld", {"frameId": tree["frameTree"]["frame"]["id"]}
                    )
                    self._world = made["executionContextId"]
                found = await self._cdp.send(
                    "Runtime.evaluate",
                    {
                        "expression": script,
                        "contextId": self._world,
                        "awaitPromise": True,
                        "returnByValue": True,
                    },
                )
            except Error:
                # Its document is gone, as when a page opens itself anew.
                self._world = 0
                continue
            if "exceptionDetails" not in found:
                return found["result"].get("value")
            self._world = 0
        raise _Failed("crashed", "its document is gone")

    # --- what the page does --------------------------------------------------------------------

    async def _routed(self, route: Route) -> None:
        # Its page has ended.
        with suppress(Error):
            request = route.request
            if request.is_navigation_request():
                await self._navigate(route, request)
            else:
                await self._fetch(route, request)

    async def _fetch(self, route: Route, request: Request) -> None:
        """Answer a request of the page with what the crawl has for it."""
        kind, url = request.resource_type, urldefrag(request.url).url
        body = request.post_data_buffer or b""
        reason = self._why_not(kind, url, request.headers, body)
        if reason:
            self._leave_out(reason)
            await route.abort("blockedbyclient")
            return
        self._parts += 1
        self._parts_begun += 1
        self._idle.clear()
        try:
            async with self._turns:
                answer = await self._crawl.ask(
                    {
                        "url": url,
                        "method": request.method,
                        "kind": kind,
                        "headers": request.headers,
                        "body": body,
                    }
                )
                # The crawl follows redirects.
                if "reason" in answer or 300 <= answer["status"] < 400:
                    await route.abort("blockedbyclient")
                    return
                await route.fulfill(
                    status=answer["status"],
                    headers=_joined(answer["headers"]),
                    body=answer["body"],
                )
        finally:
            self._parts -= 1
            if not self._parts:
                self._idle.set()

    def _why_not(self, kind: str, url: str, headers: Mapping[str, str], body: bytes) -> str:
        """Return why a request is left out without asking the crawl; else nothing."""
        if kind not in self._kinds:
            return kind
        if not is_web_url(url) or not are_headers(headers) or len(body) > MAX_BODY_BYTES:
            return "url"
        return "budget" if self._parts_begun >= MAX_PARTS else ""

    async def _navigate(self, route: Route, request: Request) -> None:
        try:
            frame = request.frame
            is_ours = frame.page is self._page
        except Error:
            # A window that has no page yet.
            is_ours = False
        if not is_ours:
            self._leave_out("popup")
        elif frame.parent_frame is not None:
            self._leave_out("iframe")
        elif not self._begun:
            self._begun = True
            await route.fulfill(
                status=self._job["status"],
                headers=_joined([*self._job["headers"], *self._policy()]),
                body=self._job["body"],
            )
            return
        else:
            self._wants(request)
        # The page stays as it is.
        await route.abort("aborted")

    def _wants(self, request: Request) -> None:
        """Note another document that the page wants to go to; not if it loads itself again."""
        target = request.url
        here = {urldefrag(url).url for url in (self._job["url"], self._page.url)}
        if request.method != "GET" or not is_web_url(target):
            self._leave_out("navigation")
        elif urldefrag(target).url not in here:
            self._redirect = target

    def _policy(self) -> list[tuple[str, str]]:
        return [] if "image" in self._kinds else [("content-security-policy", _NO_IMAGES)]

    def _navigated(self, frame: Frame) -> None:
        if frame is self._page.main_frame and len(self._routes) < MAX_ROUTES:
            url = urldefrag(frame.url).url
            if url != urldefrag(self._job["url"]).url and is_of_site(url, self._job["url"]):
                self._routes[url] = None

    async def _close_popup(self, page: Page) -> None:
        if page is not self._page:
            with suppress(Error):
                await page.close()

    def _leave_out(self, reason: str, number: int = 1) -> None:
        if number:
            self._left_out[reason] += number

    async def _on_exception(self, _event: object) -> None:
        await self._on_console({"type": "error"})

    async def _on_console(self, event: Mapping[str, Any]) -> None:
        self._console_events += 1
        if self._console_events <= _CONSOLE_MAX:
            self._console_errors += event["type"] == "error"
        if self._console_events == _CONSOLE_MAX:
            # It may go on for ever.
            with suppress(Error):
                await self._cdp.send("Runtime.disable")


def _joined(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return headers as playwright takes them: several cookies are lines of one value."""
    found: dict[str, str] = {}
    for each, value in headers:
        name = each.lower()
        if name in _NOT_SHOWN or not _NAME.fullmatch(name) or _NOT_A_VALUE.search(value):
            continue
        between = "\n" if name == "set-cookie" else ", "
        found[name] = f"{found[name]}{between}{value}" if name in found else value
    return found


def _why(error: Exception) -> str:
    """Return what an error says; if it is of the start of a browser, with what that printed."""
    first, *others = str(error).splitlines() or [""]
    said = [line.partition("[err] ")[2] for line in others if "[err] " in line]
    return " ".join([first, *said[:5]])[:MAX_TEXT_CHARS]


async def _serve(config: BrowserConfig, incoming: int, outgoing: int) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1_000_000)
    await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(incoming, "rb", 0)
    )
    crawl = _Crawl(reader, outgoing)
    with suppress(asyncio.IncompleteReadError):
        try:
            playwright = await async_playwright().start()
            browser = await _launch(playwright.chromium, config)
        except (OSError, Error) as error:
            crawl.send({"failed": "start", "text": _why(error)})
            await crawl.message()
            return
        crawl.send(READY)
        page: asyncio.Task[None] | None = None
        while True:
            message = await crawl.message()
            if "answer" in message:
                crawl.answered(message)
            else:
                assert page is None or page.done()
                page = asyncio.ensure_future(_render(browser, crawl, config, message["job"]))


def _launch(chromium: BrowserType, config: BrowserConfig) -> Any:
    return chromium.launch(
        executable_path=config.program,
        args=list(_ARGUMENTS),
        ignore_default_args=list(_NOT_WANTED),
        chromium_sandbox=config.sandbox,
        handle_sigint=False,
        handle_sigterm=False,
        handle_sighup=False,
        timeout=config.start_s * 1000,
    )


async def _render(
    browser: Browser, crawl: _Crawl, config: BrowserConfig, job: Mapping[str, Any]
) -> None:
    """Render a page and send what came of it."""
    try:
        context = await browser.new_context(
            accept_downloads=False,
            ignore_https_errors=True,
            permissions=[],
            reduced_motion="reduce",
            service_workers="block",
            user_agent=config.user_agent,
        )
        found = await _Rendering(crawl, config, job).run(context)
    # Whatever a page makes go wrong, it costs this page.
    except Exception as error:  # noqa: BLE001
        reason = error.reason if isinstance(error, _Failed) else "crashed"
        crawl.send({"failed": reason, "text": _why(error)})
        return
    is_last = False
    try:
        async with asyncio.timeout(_CLOSE_S):
            await context.close()
    except (Error, TimeoutError):
        is_last = True
    crawl.send({"rendered": found, "last": is_last})


# --- the process ---------------------------------------------------------------------------------


def main(argument: str, folder: str) -> None:
    """Render pages until there are no more."""
    config = BrowserConfig.from_argument(argument)
    incoming, outgoing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(nothing, descriptor)
    os.close(nothing)
    # These are for the crawl, which ends its browsers when their pages are rendered.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _go_on)
    signal.signal(signal.SIGHUP, lambda *_: _end(folder))
    os.nice(config.nice)
    if sys.platform == "linux":
        system = ctypes.CDLL(None)
        # What a browser leaves behind stays below this process. Its crawl's death is told to it.
        system.prctl(_PR_SET_CHILD_SUBREAPER, 1)
        system.prctl(_PR_SET_PDEATHSIG, signal.SIGHUP)
        # Chromium gives its processes a higher priority than any other has, where it may: as root.
        system.prctl(_PR_CAPBSET_DROP, _CAP_SYS_NICE)
        if config.own_network:
            # Only root may. Others have Chromium's sandbox.
            system.unshare(_CLONE_NEWNET)
    try:
        asyncio.run(_serve(config, incoming, outgoing))
    finally:
        _end(folder)


def _go_on(_number: int, _frame: object) -> None:
    """Handle a signal; programs that are started do not inherit this, as they would SIG_IGN."""


def _end(folder: str) -> None:
    """End with all that was started, and leave nothing in the folder."""
    end_below(os.getpid())
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
