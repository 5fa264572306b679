"""Run a private redis-server and mongod for crawls that were given none.

Only unix sockets, readable by this user alone: nothing listens on a port, so there is nothing to
guess, to race for or to protect by a password. Needs a local disk (file locks) and Linux or macOS.
"""

from crawler.embedded.binaries import find_mongod, find_redis_server
from crawler.embedded.servers import EmbeddedServers

__all__ = ["EmbeddedServers", "find_mongod", "find_redis_server"]
