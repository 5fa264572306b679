"""The frontier: every known URL, its state, and every host's clock, in Redis.

The only package that touches frontier keys. One Lua script per verb, one method per script.
"""

from crawler.frontier.entry import Entry
from crawler.frontier.errors import OwnerDead, RedisAway
from crawler.frontier.frontier import ADD_MAX, Frontier
from crawler.frontier.records import Added, Again, Claim, HostState, Lease, Letter, Sizes
from crawler.frontier.steering import Steering
from crawler.frontier.tuning import Tuning

__all__ = [
    "ADD_MAX",
    "Added",
    "Again",
    "Claim",
    "Entry",
    "Frontier",
    "HostState",
    "Lease",
    "Letter",
    "OwnerDead",
    "RedisAway",
    "Sizes",
    "Steering",
    "Tuning",
]
