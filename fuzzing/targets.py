"""The table of all targets."""

from __future__ import annotations

from fuzzing import admin, http, parsing, records, urls
from fuzzing.target import Target

TARGETS: dict[str, Target] = {
    target.name: target for part in (urls, parsing, http, records, admin) for target in part.TARGETS
}
