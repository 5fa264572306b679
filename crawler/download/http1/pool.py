"""Keep idle connections for the next fetch of their host: for some seconds, for some hosts."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import NamedTuple

from crawler.download.http1.connection import Connection
from crawler.download.http1.request_writer import Origin, Proxy

BindAddress = tuple[str, int]

# A request must arrive before the server stops listening: otherwise it is lost, and one that may
# not be sent again fails.
_MARGIN_S = 1.0
# Least seconds between two sweeps for connections that were idle for too long.
_SWEEP_GAP_S = 0.05


class Route(NamedTuple):
    """Key of a connection: fetches with the same route may share one."""

    origin: Origin
    bind: BindAddress | None = None
    proxy: Proxy | None = None


class Pool:
    """Idle connections by route, the route that was used longest ago first."""

    def __init__(self, *, hosts_max: int, keep_s: float) -> None:
        self.waiting: dict[Route, list[tuple[Connection, float]]] = {}
        self._hosts_max = hosts_max
        self._keep_s = keep_s
        self._sweeping: asyncio.TimerHandle | None = None

    def take(self, route: Route) -> Connection | None:
        """Return the connection that was used last, if one is still open."""
        waiting = self.waiting.get(route)
        while waiting:
            connection, since = waiting.pop()
            if not waiting:
                del self.waiting[route]
            if connection.is_open:
                if monotonic() - since <= min(self._keep_s, connection.listens_s - _MARGIN_S):
                    return connection
                connection.close()
        return None

    def put(self, route: Route, connection: Connection) -> None:
        """Keep a connection whose last response has ended."""
        now = monotonic()
        # Inserted anew, so that the routes stay in the order of their last use.
        waiting = self.waiting.pop(route, [])
        self.waiting[route] = waiting
        while waiting and waiting[0][1] < now - self._keep_s:
            waiting.pop(0)[0].close()
        waiting.append((connection, now))
        if len(self.waiting) > self._hosts_max:
            for oldest, _ in self.waiting.pop(next(iter(self.waiting))):
                oldest.close()
        if self._sweeping is None and self.waiting:
            self._sweep_after(self._keep_s)

    def shed(self) -> bool:
        """Close all idle connections; return False if there is none."""
        if not self.waiting:
            return False
        self._close_all()
        return True

    def close(self) -> None:
        """Close all idle connections, and keep none from now on."""
        self._hosts_max = 0
        if self._sweeping is not None:
            self._sweeping.cancel()
        self._close_all()

    def _close_all(self) -> None:
        for waiting in self.waiting.values():
            for connection, _ in waiting:
                connection.close()
        self.waiting.clear()

    def _sweep_after(self, delay_s: float) -> None:
        self._sweeping = asyncio.get_running_loop().call_later(delay_s, self._sweep)

    def _sweep(self) -> None:
        self._sweeping = None
        latest = monotonic() - self._keep_s
        for route, waiting in list(self.waiting.items()):
            since = waiting[-1][1]
            if since > latest:
                self._sweep_after(max(since - latest, _SWEEP_GAP_S))
                break
            for connection, _ in self.waiting.pop(route):
                connection.close()
