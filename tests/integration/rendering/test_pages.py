"""What a browser makes of pages: those that need it, and those that want too much."""

import asyncio
import json

import pytest

from crawler.rendering.browsers import Browsers
from crawler.rendering.messages import MAX_HTML_BYTES, Part, PartAnswer, RenderFailed, RenderJob
from tests.support.rendering import URL, Site, render

pytestmark = pytest.mark.asyncio(loop_scope="module")

FETCH = "fetch('/data.json').then(r => r.json()).then(d => document.body.append(d.text))"
DATA = {"data.json": json.dumps({"text": "fetched later"})}


async def test_content_that_a_script_fetches_is_shown(browsers: Browsers) -> None:
    site = Site(DATA | {"app.js": FETCH})
    found = await render(browsers, '<script src="app.js"></script>', site)
    assert b"fetched later" in found.html
    assert found.html.startswith(b"<!DOCTYPE html><html>")
    assert (found.url, found.settled, found.redirect) == (URL, True, "")
    assert [(part.url, part.kind, part.method) for part in site.asked] == [
        (f"{URL}app.js", "script", "GET"),
        (f"{URL}data.json", "fetch", "GET"),
    ]
    assert site.asked[0].headers["user-agent"] == "tester/1.0"
    assert site.asked[0].headers["referer"] == URL


@pytest.mark.parametrize("delay_ms", [0, 200])
async def test_content_that_comes_soon_after_the_load_is_waited_for(
    browsers: Browsers, delay_ms: int
) -> None:
    script = f"<script>onload = () => setTimeout(() => {FETCH}, {delay_ms})</script>"
    assert b"fetched later" in (await render(browsers, script, DATA)).html


async def test_a_post_has_its_body(browsers: Browsers) -> None:
    site = Site(DATA)
    await render(browsers, "<script>fetch('/q', {method: 'POST', body: 'a=1'})</script>", site)
    assert [(part.method, part.body) for part in site.asked] == [("POST", b"a=1")]


async def test_parts_of_the_pages_own_site_have_its_cookies(browsers: Browsers) -> None:
    site = Site(DATA)
    script = f"<script>document.cookie = 'b=2'; {FETCH}; fetch('http://cdn.test/x')</script>"
    headers = [("content-type", "text/html"), ("set-cookie", "a=1")]
    await render(browsers, script, site, headers=headers)
    cookies = {part.url: part.headers.get("cookie", "") for part in site.asked}
    assert cookies == {f"{URL}data.json": "a=1; b=2", "http://cdn.test/x": ""}


async def test_text_in_any_alphabet_arrives(browsers: Browsers) -> None:
    found = await render(browsers, "<script>document.body.append('Привет \\ud800')</script>")
    assert "Привет" in found.html.decode()


async def test_a_document_in_another_encoding_is_read_by_its_header(browsers: Browsers) -> None:
    headers = [("content-type", "text/html; charset=windows-1251")]
    found = await render(browsers, "", headers=headers)
    assert "Page" in found.html.decode()


async def test_the_policy_of_a_page_holds(browsers: Browsers) -> None:
    headers = [("Content-Security-Policy", "script-src 'self'")]
    found = await render(browsers, f"<script>{FETCH}</script>", DATA, headers=headers)
    assert b"fetched later</body>" not in found.html


# --- addresses ------------------------------------------------------------------------------------


async def test_addresses_of_the_history_api_are_routes(browsers: Browsers) -> None:
    script = "history.pushState({}, '', '/a'); history.replaceState({}, '', '/b?c=1#d')"
    found = await render(browsers, f"<script>{script}</script>")
    assert found.routes == [f"{URL}a", f"{URL}b?c=1"]
    assert found.url == f"{URL}b?c=1#d"


async def test_routes_are_bounded(browsers: Browsers) -> None:
    script = "for (let n = 0; n < 199; n++) history.pushState({}, '', '/' + n)"
    links = "'<a href=/x></a>'.repeat(300)"
    shadow = f"document.body.attachShadow({{mode: 'open'}}).innerHTML = {links}"
    found = await render(browsers, f"<script>{script}; {shadow}</script>")
    assert len(found.routes) == 200


async def test_links_in_shadow_trees_are_routes(browsers: Browsers) -> None:
    script = """
        const outer = document.body.appendChild(document.createElement('x-outer'));
        outer.attachShadow({mode: 'open'}).innerHTML =
            '<a href="/one">1</a><a href="mailto:a@b.test">2</a><x-inner></x-inner>';
        outer.shadowRoot.querySelector('x-inner').attachShadow({mode: 'open'}).innerHTML =
            '<a href="two">3</a>';
    """
    found = await render(browsers, f"<script>{script}</script>")
    assert found.routes == [f"{URL}one", f"{URL}two"]


@pytest.mark.parametrize(
    "document",
    [
        "<script>location.href = '/next'</script>",
        "<script>location = '/next'</script>",
        "<script>location.replace('/next')</script>",
        "<script>onload = () => setTimeout(() => location.assign('/next'), 100)</script>",
        "<script>location = '/first'; setTimeout(() => location = '/next', 0)</script>",
        '<meta http-equiv="refresh" content="0; url=/next">',
        "<form action=/next></form><script>document.forms[0].submit()</script>",
        "<a href=/next>a</a><script>document.links[0].click()</script>",
    ],
)
async def test_another_document_is_a_redirect(browsers: Browsers, document: str) -> None:
    site = Site()
    found = await render(browsers, document, site)
    assert found.redirect.rstrip("?") == f"{URL}next"
    assert found.url == URL
    assert not site.asked


async def test_a_refresh_by_the_header_is_a_redirect(browsers: Browsers) -> None:
    found = await render(browsers, "", headers=[("Refresh", "0; url=https://other.test/a")])
    assert found.redirect == "https://other.test/a"


@pytest.mark.parametrize(
    "wish",
    [
        "location.reload()",
        "location = location.href",
        "location = '#part'",
        "history.pushState({}, '', '/a'); location.reload()",
        "location = 'mailto:a@page.test'",
        "location = 'file:///etc/passwd'",
        "location = 'javascript:void 0'",
        "location = 'data:text/html,<p>data'",
        "close()",
        "print()",
        "stop()",
    ],
)
async def test_a_page_that_goes_nowhere_stays_as_it_is(browsers: Browsers, wish: str) -> None:
    found = await render(browsers, f"<p>stays</p><script>{wish}</script>")
    assert b"<p>stays</p>" in found.html
    assert (found.redirect, found.settled) == ("", True)


async def test_a_form_that_is_posted_is_no_redirect(browsers: Browsers) -> None:
    form = "<form method=post action=/next></form><script>document.forms[0].submit()</script>"
    found = await render(browsers, form)
    assert (found.redirect, found.left_out) == ("", {"navigation": 1})


@pytest.mark.parametrize(
    "wish",
    [
        "location = 'about:blank'",
        "history.back()",
        "location = URL.createObjectURL(new Blob(['<p>mine'], {type: 'text/html'}))",
    ],
)
async def test_a_page_that_leaves_its_document_is_not_rendered(
    browsers: Browsers, wish: str
) -> None:
    with pytest.raises(RenderFailed) as failed:
        await render(browsers, f"<script>{wish}</script>")
    assert failed.value.reason == "crashed"
    assert "went to" in str(failed.value)


# --- when a page is ready -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "tick",
    ["p.textContent = new Date()", "p.innerHTML = '<b>' + performance.now() + '</b>'"],
)
async def test_a_clock_that_ticks_does_not_hold_a_page_up(browsers: Browsers, tick: str) -> None:
    found = await render(
        browsers, f"<p id=p>12:00</p><script>setInterval(() => {tick}, 20)</script>"
    )
    assert found.settled


async def test_a_page_that_grows_for_ever_is_taken_as_it_is(browsers: Browsers) -> None:
    script = "setInterval(() => document.body.append(document.createElement('hr')), 20)"
    found = await render(browsers, f"<script>{script}</script>", deadline_s=3)
    assert not found.settled
    assert b"<hr><hr>" in found.html


async def test_a_page_whose_part_does_not_come_is_taken_without_it(browsers: Browsers) -> None:
    cancelled = asyncio.Event()

    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    site = Site()
    site.on_part = lambda _part: hang()
    found = await render(browsers, f"<p>rest</p><script>{FETCH}</script>", site, deadline_s=3)
    assert (found.settled, b"<p>rest</p>" in found.html) == (False, True)
    assert cancelled.is_set()


async def test_a_list_that_grows_is_scrolled_as_often_as_is_wanted(browsers: Browsers) -> None:
    document = """<div id=list style="height:2000px"></div><script>
        onscroll = () => fetch('/more.json').then(r => r.json()).then(d => {
            list.append(document.createElement('hr')); list.style.height = 9e3 + scrollY + 'px'; });
    </script>"""
    for scroll, more in ((0, 0), (1, 1), (3, 3)):
        found = await render(browsers, document, {"more.json": "{}"}, scroll=scroll)
        assert found.html.count(b"<hr>") == more


async def test_a_page_that_does_not_grow_is_not_scrolled_on(browsers: Browsers) -> None:
    script = "onscroll = () => document.body.append('scrolled ')"
    document = f'<div style="height:5000px"></div><script>{script}</script>'
    found = await render(browsers, document, scroll=1000)
    assert found.html.count(b"scrolled </body>") == 1
    assert found.settled


# --- what a page does not get ---------------------------------------------------------------------


async def test_images_fonts_media_and_frames_are_left_out_and_counted(browsers: Browsers) -> None:
    document = """
        <style>@font-face { font-family: f; src: url(/f.woff2) } body { font-family: f }</style>
        <img src=/a.png><img src=/b.png><img src="data:image/gif;base64,R0lGODlhAQABAIAAAAUEBAAA
        ACwAAAAAAQABAAACAkQBADs="><video src=/v.mp4></video><iframe src=/f></iframe>text
        <script>document.images[0].onerror = () => document.body.append('error seen')</script>"""
    site = Site()
    found = await render(browsers, document, site)
    assert found.left_out == {"image": 2, "font": 1, "media": 1, "iframe": 1}
    # As if the images could not be fetched: pages that wait for them go on.
    assert b"error seen" in found.html
    assert found.console_errors == 0
    assert not site.asked


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        ("new EventSource('/events')", "eventsource"),
        ("navigator.sendBeacon('/beacon', 'x')", "ping"),
        ("new WebSocket('ws://page.test/socket')", "websocket"),
    ],
)
async def test_connections_of_other_kinds_are_left_out(
    browsers: Browsers, script: str, kind: str
) -> None:
    site = Site()
    found = await render(browsers, f"<script>{script}</script>", site)
    assert found.left_out == {kind: 1}
    assert not site.asked


@pytest.mark.parametrize(
    "script",
    [
        "open('/popup')",
        "open('/popup', '_blank', 'noopener')",
        "document.links[0].click()",
        "open('', 'name').location = '/popup'",
        "document.forms[0].submit()",
    ],
)
async def test_windows_do_not_open(browsers: Browsers, script: str) -> None:
    site = Site()
    links = "<a href=/popup target=_blank>a</a><form action=/popup target=_blank></form>"
    found = await render(browsers, f"{links}<script>{script}</script><p>goes on</p>", site)
    assert b"<p>goes on</p>" in found.html
    assert (site.asked, found.redirect) == ([], "")


async def test_dialogs_do_not_hold_a_page_up(browsers: Browsers) -> None:
    script = "alert('a'); confirm('b'); prompt('c'); document.body.append('goes on')"
    found = await render(browsers, f"<script>onbeforeunload = () => 'd'; {script}</script>")
    assert b"goes on" in found.html


async def test_downloads_are_not_made(browsers: Browsers) -> None:
    document = """<a href=/file download>a</a><a href="data:text/plain,x" download>b</a>
        <script>for (const link of document.links) link.click()</script>"""
    site = Site()
    found = await render(browsers, document, site)
    assert (site.asked, found.redirect) == ([], "")


async def test_nothing_is_left_for_the_next_page(browsers: Browsers) -> None:
    script = "document.body.append('[' + localStorage.a + document.cookie + name + ']')"
    keep = "localStorage.a = 1; document.cookie = 'b=1'; name = 'c'"
    for _ in range(2):
        found = await render(browsers, f"<script>{script}; {keep}</script>")
        assert b"[undefined]" in found.html


async def test_permissions_are_denied(browsers: Browsers) -> None:
    script = """
        const say = what => document.body.append(what);
        navigator.geolocation.getCurrentPosition(() => say('here'), () => say('denied'));
    """
    assert b"denied" in (await render(browsers, f"<script>{script}</script>")).html


# --- bounds ---------------------------------------------------------------------------------------


async def test_errors_on_the_console_are_counted_up_to_a_bound(browsers: Browsers) -> None:
    script = "console.error('a'); console.log('b'); throw Error('c')"
    assert (await render(browsers, f"<script>{script}</script>")).console_errors == 2
    script = "for (let n = 0; n < 5000; n++) console.error(n)"
    assert (await render(browsers, f"<script>{script}</script>")).console_errors == 1000


async def test_a_huge_page_is_cut(browsers: Browsers) -> None:
    script = "document.body.append(document.createComment('ä'.repeat(12e6)))"
    found = await render(browsers, f"<script>{script}</script>")
    assert len(found.html) == MAX_HTML_BYTES


@pytest.mark.parametrize(
    "request_",
    ["'/' + 'a'.repeat(9000)", "'/a', {method: 'POST', body: 'a'.repeat(2e6)}"],
)
async def test_a_request_that_is_too_long_is_left_out(browsers: Browsers, request_: str) -> None:
    site = Site()
    found = await render(browsers, f"<script>fetch({request_})</script>", site)
    assert (site.asked, found.left_out) == ([], {"url": 1})


async def test_few_parts_are_asked_for_at_once(browsers: Browsers) -> None:
    under_way: set[str] = set()
    most = 0
    full = asyncio.Event()

    async def wait(part: Part) -> None:
        nonlocal most
        under_way.add(part.url)
        most = max(most, len(under_way))
        if len(under_way) == 6:
            full.set()
        await full.wait()
        under_way.discard(part.url)

    site = Site()
    site.on_part = wait
    script = "for (let n = 0; n < 30; n++) fetch('/' + n)"
    await render(browsers, f"<script>{script}</script>", site)
    assert (len(site.asked), most) == (30, 6)


async def test_a_redirect_for_a_part_is_no_answer(browsers: Browsers) -> None:
    async def redirect(part: Part) -> PartAnswer:
        return PartAnswer(302, [("Location", "http://other.test/")], b"")

    script = "<script>fetch('/a').catch(() => document.body.append('failed'))</script>"
    job = RenderJob(URL, 200, [("Content-Type", "text/html")], f"<body>{script}".encode())
    assert b"failed" in (await browsers.render(job, redirect)).html


async def test_headers_that_would_break_a_response_are_left_out(browsers: Browsers) -> None:
    headers = [("X-Bad", "a\nb"), ("Bad Name", "a"), ("Content-Encoding", "gzip"), ("É", "é")]
    found = await render(browsers, "<p>shown", headers=[*headers, ("Set-Cookie", "a=1")])
    assert b"<p>shown" in found.html


async def test_a_screenshot_is_a_webp_image(browsers: Browsers) -> None:
    found = await render(browsers, "<h1>Seen</h1>", screenshot=True)
    assert found.screenshot[:4] + found.screenshot[8:12] == b"RIFFWEBP"
    assert not (await render(browsers, "<h1>Not seen</h1>")).screenshot
