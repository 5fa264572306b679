"""A private redis-server and mongod for crawls that were given none.

Only unix sockets, readable by this user alone: nothing listens on a port, so there is nothing to
guess, to race for or to protect by a password. Needs a local disk (file locks) and Linux or macOS.

    servers    the servers of one data folder, shared by crawls; the last one out stops them
    server     one server process: its program, its options, start and stop
    file_lock  locks that the kernel drops when their holder dies

`python -m crawler.servers.embedded remove FOLDER` deletes a crawl's data.
Entry points: the names below.
"""

from crawler.servers.embedded.server import find_mongod, find_redis_server
from crawler.servers.embedded.servers import EmbeddedServers

__all__ = ["EmbeddedServers", "find_mongod", "find_redis_server"]
