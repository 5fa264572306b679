"""Private redis-server and mongod for crawls that name no server of their own.

They have unix sockets only, readable by this user alone: nothing listens on a port, so no password
is needed. File locks need a local disk, and Linux or macOS.

    servers  servers of one data folder, shared by crawls; the last user stops them
    server   one server process: its program, its options, start and stop; locks that the kernel
             drops when their holder dies

`python -m crawler.servers.embedded remove FOLDER` deletes a crawl's data.
Entry points: the names below.
"""

from crawler.servers.embedded.server import find_mongod, find_redis_server
from crawler.servers.embedded.servers import EmbeddedServers

__all__ = ["EmbeddedServers", "find_mongod", "find_redis_server"]
