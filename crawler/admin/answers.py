"""Turn the frontier's records into the API's answers. Pure."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, cast

from crawler.admin.models import DeadLetter, Failure, Host, UrlState
from crawler.frontier import Entry, HostState, Letter, UrlStatus

# Of a stored page what is not its content.
_LONG = ("links", "text", "body")
# The last moment that a date can tell.
_MAX_MS = 253_402_300_799_000


def moment(at_ms: float) -> datetime | None:
    """A time in ms since 1970 as a date; None for none."""
    return datetime.fromtimestamp(min(at_ms, _MAX_MS) / 1000, UTC) if at_ms > 0 else None


def host(state: HostState, delay_s: float | None) -> Host:
    """One host."""
    blocked = state.blocked_until_ms > state.now_ms
    return Host(
        host=state.host,
        state=cast(Any, state.state),
        waiting=state.waiting,
        in_flight=state.in_flight,
        pages=state.pages,
        next_contact=moment(state.clock_ms) if state.clock_ms > state.now_ms else None,
        usual_delay_s=state.delay_ms / 1000,
        delay_s=delay_s,
        blocked_until=moment(state.blocked_until_ms) if blocked else None,
        excluded=state.excluded,
        queue=state.queue or None,
        budget=state.budget,
        parallelism=state.parallelism,
    )


def url_state(url: str, found: UrlStatus, page: dict[str, Any] | None, note: str) -> UrlState:
    """One URL."""
    entry = found.entry
    return UrlState(
        url=url,
        state=cast(Any, found.state),
        owner=found.owner,
        reason=found.reason,
        at=moment(found.at_ms),
        depth=None if entry is None else entry.depth,
        queue=None if entry is None else entry.queue,
        attempts=None if entry is None else entry.attempts,
        history=history(entry),
        page=None if page is None else _record(page),
        page_note=note,
    )


def _record(page: dict[str, Any]) -> dict[str, Any]:
    """A stored page as JSON has it."""
    kept = {name: value for name, value in page.items() if name not in _LONG}
    found: dict[str, Any] = json.loads(json.dumps(kept, default=_as_json))
    return found


def _as_json(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def dead_letter(letter: Letter) -> DeadLetter:
    """One URL that was given up."""
    entry = letter.entry
    at = moment(letter.at_ms)
    return DeadLetter(
        url="" if entry is None else entry.url,
        host=letter.host,
        reason=letter.reason,
        at=at if at is not None else datetime.fromtimestamp(0, UTC),
        depth=None if entry is None else entry.depth,
        history=history(entry),
        cursor=letter.cursor,
    )


def history(entry: Entry | None) -> list[Failure]:
    """Failures that an entry remembers."""
    kept = [] if entry is None else entry.tail.get("history", [])
    return [
        Failure(reason=str(reason), at=datetime.fromtimestamp(at_s, UTC)) for reason, at_s in kept
    ]
