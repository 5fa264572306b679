"""Hosts: look at them, and give orders that the whole fleet follows."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request

from crawler import options
from crawler.admin import answers
from crawler.admin.models import Host, HostOrders, Hosts, Purged
from crawler.admin.problems import ProblemError
from crawler.admin.questions import TheSteering, note
from crawler.frontier import Steering
from crawler.frontier.host_orders import READ_MAX
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
    steering: TheSteering,
    search: Annotated[str, Query(max_length=300, description="A part of the name")] = "",
    state: State = "",
    sort: Annotated[Sort, Query(description="next: those that wait, the next due first")] = "next",
    offset: Annotated[int, Query(ge=0, le=_OFFSET_MAX)] = 0,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> Hosts:
    """Hosts that are in the frontier or were crawled."""
    page = await steering.hosts(
        text=search.strip().lower(), state=state, sort=sort, offset=offset, limit=limit
    )
    delays = await _delays(steering)
    return Hosts(
        hosts=[answers.host(one, delays.get(one.host)) for one in page.hosts],
        total=page.total,
        complete=page.complete,
        offset=offset,
        limit=limit,
    )


@router.get("/hosts/{host}")
async def host(steering: TheSteering, host: Name) -> Host:
    """One host; 404 if the crawl never met it: all its URLs, if any, wait in front queues."""
    found = await steering.host(_named(host))
    delay_s = (await _delays(steering)).get(found.host)
    if not found.is_known and delay_s is None:
        raise ProblemError(404, f"The crawl has not met the host {found.host!r} (yet).")
    return answers.host(found, delay_s)


@router.patch("/hosts/{host}")
async def change_host(
    request: Request, steering: TheSteering, host: Name, body: HostOrders
) -> Host:
    """Give orders for a host; they hold for the whole fleet and survive restarts.

    Also for one that the crawl has not met: they hold when it does.
    """
    given = body.model_dump(exclude_unset=True)
    if not given:
        raise ProblemError(422, f"Name an order: {', '.join(HostOrders.model_fields)}.")
    name = _named(host)
    if "delay_s" in given:
        await options.set_host_delay(steering, name, body.delay_s)
    orders: dict[str, Any] = {order: given[order] for order in given if order in _PLAIN}
    if "excluded" in given:
        orders["exclude"] = body.excluded
    if "queue" in given:
        orders["queue"] = body.queue or 0
    if "blocked_until" in given:
        until = body.blocked_until
        orders["block"] = 0 if until is None else max(0, round(until.timestamp() * 1000))
    found = await steering.host(name, **orders)
    note(request, " ".join(f"{order}={value}" for order, value in given.items()))
    return answers.host(found, (await _delays(steering)).get(name))


@router.delete("/hosts/{host}/queue")
async def purge(request: Request, steering: TheSteering, host: Name) -> Purged:
    """Drop all that waits of a host; links to it that are found later are crawled again."""
    found = await steering.host(_named(host))
    await steering.host(found.host, purge=True)
    note(request, f"({found.waiting} dropped)")
    return Purged(host=found.host, dropped=found.waiting)


# Orders that the frontier takes as they are.
_PLAIN = ("budget", "parallelism")


async def _delays(steering: Steering) -> dict[str, float]:
    return dict(options.Options().changed(await steering.options()).host_delays)


def _named(text: str) -> str:
    url = canonical(f"http://{text}/")
    if isinstance(url, Rejected) or url.count("/") != 3:
        raise ProblemError(422, f"{text[:100]!r} is no host; write it as www.example.com.")
    return host_of(url)
