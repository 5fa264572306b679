"""Stop asking DNS while it does not answer. Pure: time is an argument."""

from __future__ import annotations

from collections import deque


class DnsBreaker:
    """Open after so many failures in a row within some seconds, until something works again.

    While it is open, one attempt at a time is let through to find out.
    """

    def __init__(
        self, failures: int = 8, *, within_s: float = 30.0, probe_gap_s: float = 1.0
    ) -> None:
        self._within_s = within_s
        self._probe_gap_s = probe_gap_s
        self._failed_at: deque[float] = deque(maxlen=failures)
        self._open = False
        self._probing = False
        self._next_probe = 0.0

    @property
    def is_open(self) -> bool:
        return self._open

    def enter(self, now: float) -> bool:
        """May an attempt be made? Each that is made ends with `worked`, `failed` or `left`."""
        if not self._open:
            return True
        if self._probing or now < self._next_probe:
            return False
        self._probing = True
        return True

    def worked(self) -> bool:
        """An attempt got an answer. True if that closed the breaker."""
        was_open, self._open, self._probing = self._open, False, False
        self._failed_at.clear()
        return was_open

    def failed(self, now: float) -> bool:
        """An attempt got none. True if that opened the breaker."""
        self._probing = False
        self._next_probe = now + self._probe_gap_s
        self._failed_at.append(now)
        row = self._failed_at
        if self._open or len(row) < (row.maxlen or 0) or now - row[0] > self._within_s:
            return False
        self._open = True
        return True

    def left(self) -> None:
        """An attempt was given up before it was known."""
        self._probing = False
