"""Seeds in, and limits for all URLs."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Request

from crawler.admin.dependencies import TheControl, note
from crawler.admin.errors import ProblemError
from crawler.admin.models import SeedAnswer, SeedAnswers, SeedUrls, UrlLimits, UrlLimitsNow
from crawler.frontier import CrawlControl
from crawler.scheduling import options
from crawler.scheduling.add_seeds import add_seeds

MAX_SEEDS = 10_000
# What the API calls an option of the crawl.
_NAMES = {
    "excludedDomains": "excluded_domains",
    "depthLimit": "max_depth",
    "urlLengthLimit": "max_url_length",
}

router = APIRouter(tags=["URLs"])


@router.post("/seed/urls")
async def seed_urls(
    request: Request,
    control: TheControl,
    body: Annotated[
        list[str] | str | SeedUrls,
        Body(description="A list of URLs, or one string with commas or blanks between them"),
    ],
) -> SeedAnswers:
    """Add seeds; the answer says of each whether it was added, known or rejected, and why."""
    given = body.urls if isinstance(body, SeedUrls) else body
    texts = given.replace(",", " ").split() if isinstance(given, str) else given
    if not 0 < len(texts) <= MAX_SEEDS:
        raise ProblemError(422, f"Give 1 to {MAX_SEEDS:,} URLs, not {len(texts):,}.")
    found = await add_seeds(control, texts)
    states = [seed.state for seed in found]
    answer = SeedAnswers(
        added=states.count("added"),
        known=states.count("known"),
        rejected=states.count("rejected"),
        urls=[
            SeedAnswer(
                given=seed.given,
                url=seed.url,
                state=seed.state,
                reason=seed.reason,
                detail=seed.detail,
            )
            for seed in found
        ],
    )
    note(request, f"({answer.added} added, {answer.known} known, {answer.rejected} rejected)")
    return answer


@router.get("/url/limit")
async def limits(control: TheControl) -> UrlLimitsNow:
    """The limits that hold now."""
    return await _limits(control)


@router.post("/url/limit")
async def set_limits(request: Request, control: TheControl, body: UrlLimits) -> UrlLimitsNow:
    """Change limits: the whole fleet follows within 2 s.

    Waiting URLs of excluded domains are skipped when their turn comes; depth and length are for
    links that are found from then on.
    """
    given = body.model_dump(exclude_unset=True)
    if not given:
        raise ProblemError(422, f"Name a limit: {', '.join(_NAMES)}.")
    chosen: dict[str, Any] = {_NAMES[name]: value for name, value in given.items()}
    wanted = {name: value for name, value in chosen.items() if value is not None}
    checked = options.checked(wanted)
    await control.set_options({**dict.fromkeys(chosen), **checked})
    note(request, " ".join(f"{name}={_brief(value)}" for name, value in chosen.items()))
    return await _limits(control)


async def _limits(control: CrawlControl) -> UrlLimitsNow:
    now = options.CrawlOptions().changed(await control.options())
    return UrlLimitsNow(
        excludedDomains=list(now.excluded_domains),
        depthLimit=now.max_depth,
        urlLengthLimit=now.max_url_length,
    )


def _brief(value: Any) -> str:
    return ascii(value)[:100]
