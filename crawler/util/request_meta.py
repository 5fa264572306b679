"""Keys of a request's meta that several packages use."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass

LEASE = "lease"
# A function: may the request be sent, or has its lease passed to another process?
MAY_FETCH = "may_fetch"
