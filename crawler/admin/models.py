"""What the API takes and answers, as its OpenAPI document tells. Times are ISO 8601, in UTC."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=0)]


class Strict(BaseModel):
    """A request's body: a name that it does not know is a mistake."""

    model_config = ConfigDict(extra="forbid")


# --- the crawl ------------------------------------------------------------------------------------


class Dropped(BaseModel):
    """URLs that were left out after they had been found."""

    excluded: Count
    purged: Count
    budget: Count
    refused: Count


class Worker(BaseModel):
    """One live process of the crawl, as it told with its last beat."""

    id: str
    machine: str = ""
    pid: int = 0
    pages: Count = 0
    held: Count = Field(0, description="Leases that it holds")
    shards: list[int] = Field(default=[], description="In the order in which it asks them")
    troubles: list[str] = Field(default=[], description="Servers that do not answer it, and why")
    about: dict[str, Any] = Field(default={}, description="All that it says of itself")


class Status(BaseModel):
    """How the whole crawl stands, all runs and processes."""

    crawl: str
    at: datetime
    paused: bool
    waiting: Count = Field(description="URLs in front and back queues")
    waiting_by_queue: list[Count] = Field(description="Front queues 1 to 5")
    waiting_by_host: Count = Field(description="In the back queues of active hosts")
    leased: Count = Field(description="URLs that processes hold")
    retries: Count
    recrawls: Count
    found: Count
    done: Count
    pages: Count = Field(description="Answers with a status 2xx")
    dead: Count = Field(description="URLs in the dead-letter queue, ever")
    unfinished: Count = Field(description="Waiting, leased or to be retried")
    dropped: Dropped
    hosts: Count = Field(description="Hosts with URLs and a free slot")
    workers: list[Worker]
    troubles: list[str] = Field(description="Those of all workers: machine, pid and trouble")
    options: dict[str, Any] = Field(description="What the whole fleet follows")
    memory_share: float = Field(description="Used share of Redis' maxmemory; 0 without a limit")


class Paused(BaseModel):
    """Whether the crawl is paused now."""

    crawl: str
    paused: bool


# --- seeds and limits -----------------------------------------------------------------------------


class SeedUrls(Strict):
    """Seeds by their name."""

    urls: list[str] | str


class SeedAnswer(BaseModel):
    """What became of one URL."""

    given: str
    url: str = Field(description="As the crawl spells it; empty if it is rejected")
    state: Literal["added", "known", "rejected"]
    reason: str = ""
    detail: str = ""


class SeedAnswers(BaseModel):
    """What became of all of them."""

    added: Count
    known: Count
    rejected: Count
    urls: list[SeedAnswer]


class UrlLimits(Strict):
    """Limits for the whole fleet; what is not named stays, null lifts a limit."""

    excludedDomains: list[str] | str | None = Field(  # noqa: N815
        default=None, description="Domains, with all below them; replaces the list"
    )
    depthLimit: int | None = Field(  # noqa: N815
        default=None, ge=0, le=255, description="Links from a seed; 0 for no limit"
    )
    urlLengthLimit: int | None = Field(  # noqa: N815
        default=None, ge=0, le=1_000_000, description="Characters of a URL; 0 for no limit"
    )


class UrlLimitsNow(BaseModel):
    """The limits that hold now."""

    excludedDomains: list[str]  # noqa: N815
    depthLimit: Count  # noqa: N815
    urlLengthLimit: Count  # noqa: N815


# --- hosts, URLs, dead letters --------------------------------------------------------------------


class Host(BaseModel):
    """What the frontier keeps of one host, and what people ordered for it."""

    host: str
    state: Literal["excluded", "blocked", "in_flight", "ready", "resting", "idle"]
    waiting: Count = Field(description="URLs in its back queues; more may be in front queues")
    in_flight: Count
    pages: Count
    next_contact: datetime | None = Field(description="Earliest time of the next fetch")
    usual_delay_s: float = Field(description="Rest after its last fetch")
    delay_s: float | None = Field(description="Ordered: rest after each fetch; null for the usual")
    blocked_until: datetime | None = Field(description="Ordered")
    excluded: bool = Field(description="Ordered: not crawled any more")
    queue: int | None = Field(description="Ordered: back queue (1 to 5) of all its URLs")
    budget: int | None = Field(description="Ordered: pages that it may give")
    parallelism: int | None = Field(description="Ordered: fetches at a time")


class Hosts(BaseModel):
    """A part of the list of hosts."""

    hosts: list[Host]
    total: Count = Field(description="How many fit, as far as was looked")
    complete: bool = Field(description="False if there are more hosts than one list looks at")
    offset: Count
    limit: Count


class HostOrders(Strict):
    """Orders for one host, for the whole fleet; what is not named stays, null takes one back."""

    delay_s: float | None = Field(default=None, ge=0, le=86_400)
    blocked_until: AwareDatetime | None = None
    excluded: bool = False
    queue: int | None = Field(default=None, ge=1, le=5)
    budget: int | None = Field(default=None, ge=1, le=1_000_000_000)
    parallelism: int | None = Field(default=None, ge=1, le=100)


class Purged(BaseModel):
    """What was dropped of a host's waiting URLs."""

    host: str
    dropped: Count = Field(description="From its back queues; those in front queues follow")


class Failure(BaseModel):
    """Why an attempt failed, and when."""

    reason: str
    at: datetime


class UrlState(BaseModel):
    """Where a URL is, what happened to it, and what is stored of it."""

    url: str = Field(description="As the crawl spells it")
    state: Literal["unseen", "known", "waiting", "leased", "delayed", "dead"] = Field(
        description="known: done, or far back in a queue"
    )
    owner: str = Field(description="Process that holds the lease")
    reason: str = Field(description="Why it is dead; retry or recrawl if it is delayed")
    at: datetime | None = Field(description="When it died or is due")
    depth: int | None
    queue: int | None
    attempts: int | None
    history: list[Failure] = Field(description="Failed attempts, the last ones")
    page: dict[str, Any] | None = Field(description="Its record in MongoDB, without content")
    page_note: str = Field(description="Why there is no record")


class Forgotten(BaseModel):
    """A URL that may be added again."""

    url: str
    forgotten: bool


class DeadLetter(BaseModel):
    """A URL that was given up."""

    url: str = Field(description="Empty if the record is damaged")
    host: str
    reason: str
    at: datetime
    depth: int | None
    history: list[Failure]
    cursor: str


class DeadLetters(BaseModel):
    """The newest dead letters; `next` goes on as `before`."""

    letters: list[DeadLetter]
    total: Count = Field(description="All dead letters, whatever was asked for")
    next: str = Field(description="Empty at the end")


class Requeue(Strict):
    """Which of the dead get another life; without both, all."""

    reason: str = Field(default="", max_length=500)
    host: str = Field(default="", max_length=500)


class Requeued(BaseModel):
    """How many wait again."""

    requeued: Count


# --- the scheduler --------------------------------------------------------------------------------


class DelayedQueue(BaseModel):
    """URLs that wait for their retry or recrawl, in buckets of time."""

    total_items: Count
    active_buckets: Count
    current_bucket: datetime | None = Field(description="When the next bucket is due")


class SchedulerStatus(BaseModel):
    """The frontier at work, over all processes."""

    crawl: str
    at: datetime
    urls_scheduled: Count = Field(description="URLs that were ever added")
    urls_waiting: Count
    urls_delayed: Count
    urls_rejected: dict[str, int] = Field(description="Links that were not followed, by reason")
    robots_denied: Count
    shard_assignments: dict[str, list[int]] = Field(
        description="Process: shards it prefers, the first most"
    )
    active_shards: Count = Field(description="Shards that have URLs to crawl")
    shards: Count
    delayed_queue: DelayedQueue
    insert_rate: float = Field(description="URLs added a second, over the last minutes")
    retrieval_rate: float = Field(description="URLs fetched a second, over the last minutes")
    average_delay_s: float | None = Field(description="Mean rest that hosts were given lately")
    cache_hit_ratios: dict[str, float | None] = Field(description="known URLs, dns, robots")


class Health(BaseModel):
    """What works."""

    ok: bool
    parts: dict[str, str] = {}
