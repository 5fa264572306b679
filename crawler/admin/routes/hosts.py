"""Hosts: look at them, and give orders that the whole fleet follows."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request

from crawler.admin import queries
from crawler.admin.dependencies import TheControl, note
from crawler.admin.errors import ProblemError
from crawler.admin.models import Host, HostOrders, Hosts, Purged
from crawler.frontier import CrawlControl
from crawler.frontier.host_control import READ_MAX
from crawler.scheduling import options
from crawler.urls import Rejected, canonical, host_of

# No list looks at more; a search finds the rest.
_OFFSET_MAX = READ_MAX
Name = Annotated[str, Path(description="As in URLs, with its port if it has one", max_length=300)]
State = Literal["", "excluded", "blocked", "in_flight", "ready", "resting", "idle"]
Sort = Literal["next", "waiting", "pages", "delay", "host"]

router = APIRouter(tags=["hosts"])


@router.get("/hosts")
async def hosts(
    *,
    control: TheControl,
    search: Annotated[str, Query(max_length=300, description="A part of the name")] = "",
    state: State = "",
    sort: Annotated[Sort, Query(description="next: those that wait, the next due first")] = "next",
    offset: Annotated[int, Query(ge=0, le=_OFFSET_MAX)] = 0,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> Hosts:
    """Hosts that are in the frontier or were crawled."""
    page = await control.hosts(
        text=search.strip().lower(), state=state, sort=sort, offset=offset, limit=limit
    )
    delays = await _delays(control)
    return Hosts(
        hosts=[queries.host(one, delays.get(one.host)) for one in page.hosts],
        total=page.total,
        complete=page.complete,
        offset=offset,
        limit=limit,
    )


@router.get("/hosts/{host}")
async def host(control: TheControl, host: Name) -> Host:
    """One host; 404 if the crawl never met it: all its URLs, if any, wait in front queues."""
    found = await control.host(_named(host))
    delay_s = (await _delays(control)).get(found.host)
    if not found.is_known and delay_s is None:
        raise ProblemError(404, f"The crawl has not met the host {found.host!r} (yet).")
    return queries.host(found, delay_s)


@router.patch("/hosts/{host}")
async def change_host(request: Request, control: TheControl, host: Name, body: HostOrders) -> Host:
    """Give orders for a host; they hold for the whole fleet and survive restarts.

    Also for one that the crawl has not met: they hold when it does.
    """
    given = body.model_dump(exclude_unset=True)
    if not given:
        raise ProblemError(422, f"Name an order: {', '.join(HostOrders.model_fields)}.")
    name = _named(host)
    if "delay_s" in given:
        await options.set_host_delay(control, name, body.delay_s)
    orders: dict[str, Any] = {order: given[order] for order in given if order in _PLAIN}
    if "excluded" in given:
        orders["exclude"] = body.excluded
    if "queue" in given:
        orders["queue"] = body.queue or 0
    if "blocked_until" in given:
        until = body.blocked_until
        orders["block"] = 0 if until is None else max(0, round(until.timestamp() * 1000))
    found = await control.host(name, **orders)
    note(request, " ".join(f"{order}={value}" for order, value in given.items()))
    return queries.host(found, (await _delays(control)).get(name))


@router.delete("/hosts/{host}/queue")
async def purge(request: Request, control: TheControl, host: Name) -> Purged:
    """Drop all that waits of a host; links to it that are found later are crawled again."""
    found = await control.host(_named(host))
    await control.host(found.host, purge=True)
    note(request, f"({found.waiting} dropped)")
    return Purged(host=found.host, dropped=found.waiting)


# Orders that the frontier takes as they are.
_PLAIN = ("budget", "parallelism")


async def _delays(control: CrawlControl) -> dict[str, float]:
    return dict(options.CrawlOptions().changed(await control.options()).host_delays)


def _named(text: str) -> str:
    url = canonical(f"http://{text}/")
    if isinstance(url, Rejected) or url.count("/") != 3:
        raise ProblemError(422, f"{text[:100]!r} is no host; write it as www.example.com.")
    return host_of(url)
