"""Turn a request into an answer. Counts the hits on failing URLs; keeps recent pages as bytes."""

import gzip
import zlib
from collections import OrderedDict
from dataclasses import replace
from typing import Final, Protocol

from demo.answer import Answer, http_date, not_modified, whole
from demo.clock import Clock
from demo.html import special_page
from demo.node import Behaviour, Node, Role
from demo.ordinary_page import OrdinaryPages
from demo.robots_answer import robots_answer
from demo.validators import Validators
from demo.web import Web

CACHE_BYTES: Final = 64 * 1024 * 1024
_FIRST_MODIFIED_S: Final = 1_600_000_000
_PLAIN: Final = "text/plain; charset=utf-8"


class Answering(Protocol):
    """What answers the requests to a web."""

    def answer(self, host: str, target: str, validators: Validators | None = None) -> Answer:
        """Answer a GET."""


class Answers:
    """The answers of one web. `cache_bytes` bounds the pages kept; hit counts grow with hosts."""

    def __init__(self, web: Web, clock: Clock, cache_bytes: int = CACHE_BYTES) -> None:
        self._web = web
        self._clock = clock
        self._ordinary = OrdinaryPages(web)
        self._hits: dict[str, int] = {}
        self._kept: OrderedDict[tuple[str, str], Answer] = OrderedDict()
        self._room_bytes = cache_bytes

    def answer(self, host: str, target: str, validators: Validators | None = None) -> Answer:
        """Answer a GET; a validator that still holds gives a 304."""
        key = (host, target)
        found = self._kept.get(key)
        if found is None:
            found = self._make(key)
        else:
            self._kept.move_to_end(key)
        if validators is not None and found.etag and validators.hold(found.etag, found.modified_s):
            return not_modified(found)
        return found

    def _make(self, key: tuple[str, str]) -> Answer:
        host, target = key
        if target.endswith("/robots.txt"):
            rules = robots_answer(self._web, host, target, self._hit(host + target))
            if rules is not None:
                return rules
        node = self._web.find(host, target)
        if node is None:
            return whole(404, b"There is no such page.\n", {"Content-Type": _PLAIN})
        if node.behaviour is Behaviour.FILE:
            return self._keep(key, replace(self._validated(node, node.body), delay_s=node.delay_s))
        if node.behaviour is not Behaviour.PAGE and not self._recovered(node):
            return self._misbehave(node)
        if node.period_s:
            return self._changing(node)
        if node.clock:
            now_s = int(self._clock.now_s())
            return self._validated(node, special_page(node, clock=http_date(now_s)), now_s)
        return self._keep(key, self._validated(node, self._page(node)))

    def _page(self, node: Node) -> bytes:
        if node.body:
            return node.body
        return special_page(node) if node.index is None else self._ordinary.render(node)

    def _hit(self, name: str) -> int:
        before = self._hits.get(name, 0)
        self._hits[name] = before + 1
        return before

    def _recovered(self, node: Node) -> bool:
        return node.fails is not None and self._hit(node.url) >= node.fails

    def _keep(self, key: tuple[str, str], answer: Answer) -> Answer:
        self._kept[key] = answer
        self._room_bytes -= len(answer.wire)
        while self._room_bytes < 0 and len(self._kept) > 1:
            self._room_bytes += len(self._kept.popitem(last=False)[1].wire)
        return answer

    def _validated(self, node: Node, body: bytes, modified_s: int = 0) -> Answer:
        if node.encoding == "gzip":
            body = gzip.compress(body, compresslevel=6, mtime=0)
        digest = zlib.crc32(body)
        etag = f'"{digest:08x}-{len(body):x}"'
        modified_s = modified_s or _FIRST_MODIFIED_S + digest % 1000 * 86_400
        fields = {
            "Content-Type": node.content_type,
            "Content-Encoding": node.encoding,
            "ETag": etag,
            "Last-Modified": http_date(modified_s),
            # Pages of other hosts read them too.
            "Access-Control-Allow-Origin": "*" if node.role is Role.PART else "",
        }
        return whole(200, body, fields, etag=etag, modified_s=modified_s)

    def _changing(self, node: Node) -> Answer:
        version = self._clock.version(node.period_s)
        body = special_page(node, version)
        return self._validated(node, body, version * node.period_s)

    def _misbehave(self, node: Node) -> Answer:
        kind = node.behaviour
        if kind is Behaviour.REDIRECT:
            return whole(node.status, b"", {"Location": node.location, "Content-Type": _PLAIN})
        if kind is Behaviour.STATUS:
            return self._failed(node)
        if kind in {Behaviour.RESET, Behaviour.TIMEOUT}:
            return Answer(0, behaviour=kind)
        if kind is Behaviour.HUGE:
            return Answer(200, behaviour=kind)
        page = self._validated(node, self._page(node))
        return replace(page, behaviour=kind, delay_s=node.delay_s, etag="")

    def _failed(self, node: Node) -> Answer:
        value, wait_s = node.retry_after, 0.0
        if value.startswith("+"):
            # An HTTP date has whole seconds, so up to one second less than this is asked for, and
            # the answer is on its way for a moment.
            wait_s = float(value) - 1.1
            value = http_date(int(self._clock.now_s() + float(value)))
        elif value.isdigit():
            wait_s = float(value)
        body = f"{node.status}: this page is not available.\n".encode()
        fields = {"Content-Type": _PLAIN, "Retry-After": value}
        return whole(node.status, body, fields, retry_after_s=wait_s)
