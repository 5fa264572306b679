"""What the API takes and answers, as its OpenAPI document tells. Times are ISO 8601, in UTC."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

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
    pages: Count
    dead: Count
    unfinished: Count = Field(description="Waiting, leased or to be retried")
    dropped: Dropped
    hosts: Count = Field(description="Hosts with URLs and a free slot")
    workers: list[Worker]
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


class Health(BaseModel):
    """What works."""

    ok: bool
    parts: dict[str, str] = {}
