"""The frontier: every known URL, its state, and every host's clock, in Redis.

The only package that touches frontier keys. One Lua script per verb, one method per script.
"""

from crawler.frontier.entry import Entry
from crawler.frontier.frontier import Claim, Frontier, Lease, Sizes

__all__ = ["Claim", "Entry", "Frontier", "Lease", "Sizes"]
