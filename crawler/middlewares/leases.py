"""Settle the lease of each response when all that came of it is safe. Spider middleware.

The requests of a callback go to the frontier in batches. A lease is done when the callback's output
is exhausted, Redis has acknowledged its requests, and its items are scraped or dropped. An error in
the callback or in a pipeline fails the URL: it is retried, and given up after the last attempt.
NotStored of a pipeline hands the URL back, and does not count as an attempt. Where there are sinks,
and the callback gave no Page, they get the response and its items before the lease is done.
"""

from __future__ import annotations

import asyncio
from asyncio import CancelledError
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from hashlib import sha256
from time import perf_counter
from typing import TYPE_CHECKING, Any, Self

from pydispatch.dispatcher import getAllReceivers  # type: ignore[import-untyped]
from scrapy import Request, signals
from scrapy.exceptions import CloseSpider, IgnoreRequest
from scrapy.http import Response
from twisted.python.failure import Failure

from crawler.errors import NotStored
from crawler.frontier import ADD_MAX, Entry, Kind, Lease
from crawler.items import Page, plain_item
from crawler.monitoring.process_stats import ProcessStats
from crawler.scheduler import Scheduler
from crawler.scheduling.outcome import Bury, no_page_stat
from crawler.scheduling.page_maker import PageMaker
from crawler.util.request_meta import GIVEN_UP, LEASE

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

# Items of one response that its record has.
_ITEMS_MAX = 1000
# Hashing takes about 0.5 ms for so many bytes: larger bodies are hashed in a thread.
_HASH_INLINE_BYTES = 500_000


def _request_of(response: Response) -> Request:
    assert response.request is not None
    return response.request


@dataclass(slots=True)
class _Account:
    """Outputs of the callback of one lease that are not finished yet."""

    lease: Lease
    response: Response
    page: bool
    # The stat that counts why there is no page.
    no_page: str
    # The last attempt failed: the URL is given up on.
    given_up: Bury | None = None
    open_items: int = 0
    # The output is being read: an error in it is noticed there.
    iterating: bool = False
    exhausted: bool = False
    failed: str | None = None
    not_stored: bool = False
    # Whether the callback gave a Page: a pipeline stores it.
    has_page: bool = False
    # Other items that were scraped, as dicts, if sinks get them.
    items: list[dict[str, Any]] = field(default_factory=list)
    # Set when the sinks have the response, or it is settled without them.
    recorded: asyncio.Event | None = None


class Leases:
    """Spider middleware nearest to the engine: it gets what the others let through."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._observe = ProcessStats.of(crawler).parse.observe
        # Bounded by the leases a process holds.
        self._accounts: dict[tuple[int, bytes], _Account] = {}

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        leases = cls(crawler)
        crawler.signals.connect(leases._item_scraped, signals.item_scraped)
        crawler.signals.connect(leases._item_finished, signals.item_dropped)
        crawler.signals.connect(leases._item_failed, signals.item_error)
        crawler.signals.connect(leases._cancelled, signals.spider_error)
        return leases

    @cached_property
    def _scheduler(self) -> Scheduler:
        return Scheduler.of(self._crawler)

    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        # The engine reads start() as fast as it can, even while Redis is away.
        async for output in start:
            await self._scheduler.adder.room()
            yield output

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        account = self._open_account(response)
        if account is not None:
            account.iterating = True
        # An errback settles the lease itself, at its end. Its requests must be safe by then.
        batch = 1 if getattr(_request_of(response).errback, "draining", False) else ADD_MAX
        requests: list[Request] = []
        # The time in the callback, without the time in the consumers of its output.
        spent_s, since_s = 0.0, perf_counter()
        try:
            async for output in result:
                spent_s += perf_counter() - since_s
                if isinstance(output, Request):
                    requests.append(output)
                    if len(requests) >= batch:
                        await self._add(requests, account)
                        requests = []
                elif output is not None:
                    # None is not an item: no signal would ever say that it was scraped.
                    if account is not None:
                        account.open_items += 1
                        account.has_page |= isinstance(output, Page)
                    yield output
                since_s = perf_counter()
            self._observe(spent_s + perf_counter() - since_s)
            await self._add(requests, account)
        except Exception as error:
            # What the callback gave before its error counts, as in Scrapy.
            try:
                await self._add(requests, account)
            finally:
                self._fail(account, error)
            raise
        if account is not None:
            account.exhausted = True
            if self._is_recorded(account):
                account.recorded = asyncio.Event()
            self._settle_if_finished(account)
            if account.recorded is not None:
                # Meanwhile the response is in progress: while a sink is away, Scrapy limits the
                # bytes of such responses.
                await account.recorded.wait()

    def process_spider_exception(self, response: Response, exception: Exception) -> None:
        account = self._open_account(response)
        if account is None or not account.iterating:
            self._fail(account, exception)

    def _cancelled(self, failure: Failure, response: Response | Failure | None) -> None:
        """Fail the lease of a callback that was cancelled: Scrapy calls no middleware then."""
        if isinstance(failure.value, CancelledError) and isinstance(response, Response):
            self._fail(self._open_account(response), failure.value)

    def _open_account(self, response: Response) -> _Account | None:
        lease: Lease | None = response.meta.get(LEASE)
        if lease is None or not self._scheduler.leases.holds(lease):
            return None
        account = self._accounts.get(lease.key)
        if account is None:
            there, is_page = 200 <= response.status < 300, lease.entry.kind is Kind.PAGE
            no_page = no_page_stat(response) if is_page and not there else ""
            given_up = response.meta.get(GIVEN_UP)
            account = _Account(lease, response, there and is_page, no_page, given_up)
            self._accounts[lease.key] = account
        return account

    # --- requests ------------------------------------------------------------------------------

    async def _add(self, requests: list[Request], account: _Account | None) -> None:
        if not requests:
            return
        scheduler = self._scheduler
        source = account.lease.entry if account is not None else None
        listened = bool(list(getAllReceivers(self._crawler, signals.request_scheduled)))
        plain: list[Entry] = []
        forced: list[Entry] = []
        for request in requests:
            if listened and self._ignored(request):
                continue
            entry = scheduler.entry_of(request, source=source)
            if entry is not None:
                (forced if request.dont_filter else plain).append(entry)
        if plain:
            await scheduler.add(plain)
        if forced:
            await scheduler.add(forced, "force")

    def _ignored(self, request: Request) -> bool:
        """Send request_scheduled, as the engine does, and tell if a handler refused the request."""
        answers = self._crawler.signals.send_catch_log(
            signals.request_scheduled,
            request=request,
            spider=self._crawler.spider,
            dont_log=IgnoreRequest,
        )
        return any(
            isinstance(answer, Failure) and isinstance(answer.value, IgnoreRequest)
            for _, answer in answers
        )

    # --- items ---------------------------------------------------------------------------------

    def _item_scraped(self, item: Any, response: Response | Failure | None) -> None:
        account = self._account_of(response)
        if account is not None:
            if self._is_recorded(account):
                if len(account.items) < _ITEMS_MAX:
                    account.items.append(plain_item(item))
                else:
                    self._scheduler.count("store/items_left_out")
            self._item_finished(response)

    def _item_finished(self, response: Response | Failure | None) -> None:
        account = self._account_of(response)
        if account is not None:
            account.open_items -= 1
            self._settle_if_finished(account)

    def _item_failed(self, response: Response | Failure | None, failure: Failure) -> None:
        account = self._account_of(response)
        if account is not None:
            if isinstance(failure.value, NotStored):
                account.not_stored = True
            else:
                account.failed = f"item_error_{type(failure.value).__name__}"
            self._item_finished(response)

    def _account_of(self, response: Response | Failure | None) -> _Account | None:
        request = getattr(response, "request", None)
        lease = request.meta.get(LEASE) if request is not None else None
        return self._accounts.get(lease.key) if lease is not None else None

    # --- settlement ----------------------------------------------------------------------------

    def _fail(self, account: _Account | None, error: BaseException) -> None:
        if account is None:
            return
        account.exhausted = True
        if isinstance(error, NotStored):
            # The crawl ends before its requests are safe.
            account.not_stored = True
        elif not isinstance(error, CloseSpider):
            account.failed = f"callback_error_{type(error).__name__}"
        self._settle_if_finished(account)

    def _settle_if_finished(self, account: _Account) -> None:
        if not account.exhausted or account.open_items > 0:
            return
        self._accounts.pop(account.lease.key, None)
        scheduler = self._scheduler
        again = scheduler.recrawls.take(account.lease)
        is_held = scheduler.leases.holds(account.lease)
        is_done = is_held and account.failed is None and not account.not_stored
        is_recorded = is_done and self._is_recorded(account)
        if account.recorded is not None and not is_recorded:
            account.recorded.set()
        if not is_held:
            # Its errback may be settling it, as for an answer that is no page.
            return
        if account.failed is not None:
            decision = scheduler.failures.decide(account.lease, account.failed)
            scheduler.failures.fail(account.lease, decision)
        elif account.not_stored:
            scheduler.leases.hand_back(account.lease, 0)
        else:
            done = partial(
                scheduler.leases.done,
                account.lease,
                page=account.page,
                no_page=account.no_page,
                again=again,
            )
            if account.given_up is not None and again is None:
                done = partial(scheduler.leases.fail, account.lease, account.given_up)
            if is_recorded:
                self._record(account, done)
            else:
                done()

    def _is_recorded(self, account: _Account) -> bool:
        """Tell whether sinks get the response itself: its callback gave no page."""
        scheduler = self._scheduler
        if account.lease.entry.kind is Kind.PAGE:
            return not account.has_page and scheduler.failures.record is not None
        return scheduler.archive is not None

    def _record(self, account: _Account, done: Callable[[], None]) -> None:
        """Give the response and its items to the sinks, and settle its lease when they have it."""
        # Parsing it killed no process.
        self._scheduler.leases.parsed(account.lease)
        recorded, waits = asyncio.ensure_future(self._record_page(account)), account.recorded
        if waits is not None:
            recorded.add_done_callback(lambda _: waits.set())

        def settle(error: BaseException | None) -> None:
            if error is None:
                done()
            else:
                reason = f"item_error_{type(error).__name__}"
                decision = self._scheduler.failures.decide(account.lease, reason)
                self._scheduler.failures.fail(account.lease, decision)

        self._scheduler.leases.settle_after(account.lease, recorded, settle)

    async def _record_page(self, account: _Account) -> None:
        scheduler = self._scheduler
        page = PageMaker.of(self._crawler).page_of(account.response)
        if account.lease.entry.kind is not Kind.PAGE:
            assert scheduler.archive is not None
            scheduler.recrawls.fill_in(page, account.lease, None)
            await scheduler.archive(page)
            return
        record = scheduler.failures.record
        assert record is not None
        if page.stored and page.body:
            is_small = len(page.body) < _HASH_INLINE_BYTES
            digest = sha256(page.body) if is_small else await asyncio.to_thread(sha256, page.body)
            page.content_hash = digest.hexdigest()
        page.items = account.items
        await record(page)
