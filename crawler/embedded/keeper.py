"""Start an embedded server again that ended while a crawl uses it: nobody else would."""

import asyncio
import logging

from crawler.embedded.servers import EmbeddedServers
from crawler.errors import CrawlerError
from crawler.tasks import end, in_daemon_thread

logger = logging.getLogger(__name__)

_LOOK_S = 5.0
# After a start that failed: its text is long.
_FAILED_S = 60.0


class Keeper:
    """Looks every few seconds, from its first start() until it is stopped."""

    def __init__(self, servers: EmbeddedServers, *, look_s: float = _LOOK_S) -> None:
        self._servers = servers
        self._look_s = look_s
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Keep the servers that are in use, from now on."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._keep())

    async def stop(self) -> None:
        """Start nothing again from now on."""
        task, self._task = self._task, None
        if task is not None:
            await end(task)

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(self._look_s)
            try:
                for program in await in_daemon_thread(self._servers.revive):
                    logger.warning("The embedded %s had ended; it runs again", program)
            except CrawlerError as error:
                logger.error("%s", error)
                await asyncio.sleep(_FAILED_S)
