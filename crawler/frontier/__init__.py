"""The frontier: every known URL, its state, and every host's clock, in Redis.

The only package that touches frontier keys. One Lua script per verb, one method per script.
"""

from crawler.frontier.adding import ADD_MAX
from crawler.frontier.entry import Entry, Kind
from crawler.frontier.errors import OwnerDead, RedisAway
from crawler.frontier.frontier import Frontier
from crawler.frontier.records import (
    Added,
    Again,
    Beat,
    Claim,
    HostPage,
    HostState,
    Lease,
    Letter,
    Sizes,
    UrlStatus,
)
from crawler.frontier.steering import Steering
from crawler.frontier.tuning import Tuning

__all__ = [
    "ADD_MAX",
    "Added",
    "Again",
    "Beat",
    "Claim",
    "Entry",
    "Frontier",
    "HostPage",
    "HostState",
    "Kind",
    "Lease",
    "Letter",
    "OwnerDead",
    "RedisAway",
    "Sizes",
    "Steering",
    "Tuning",
    "UrlStatus",
]
