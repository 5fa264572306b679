"""The access log: one TSV line per request, in a form that the judge reads back.

Columns: start and end (epoch seconds with µs, from a monotonic clock), host, target (path with
query), status (0: no answer), outcome (ok, reset, silent, truncated or aborted), seconds asked for
by Retry-After, client address, user agent.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from demo.tracking import without_tracking

FLUSH_EVERY_S: Final = 0.2
_LINES_KEPT: Final = 5_000
_EPOCH_S: Final = time.time() - time.monotonic()


def now_s() -> float:
    """Return epoch seconds that never run backwards within the process."""
    return _EPOCH_S + time.monotonic()


class Entry(NamedTuple):
    """One request and how it was answered."""

    start_s: float
    end_s: float
    host: str
    target: str
    status: int
    outcome: str = "ok"
    retry_after_s: float = 0.0
    client: str = "-"
    agent: str = "-"

    @property
    def url(self) -> str:
        """The URL that was asked for, as the truth has it: without tracking parameters."""
        return f"http://{self.host}{without_tracking(self.target)}"


def format_entry(entry: Entry) -> str:
    """Return the line of an entry, with its line end."""
    start, end, host, target, status, outcome, retry_after, client, agent = entry
    return (
        f"{start:.6f}\t{end:.6f}\t{host}\t{target}\t{status}\t{outcome}\t{retry_after:g}"
        f"\t{client}\t{agent}\n"
    )


def parse_entry(line: str) -> Entry:
    """Return the entry of a line; ValueError if it is none."""
    fields = line.rstrip("\n").split("\t", 8)
    if len(fields) != 9:
        raise ValueError(f"an access log line has 9 columns, this one has {len(fields)}")
    start, end, host, target, status, outcome, retry_after, client, agent = fields
    return Entry(
        float(start),
        float(end),
        host,
        target,
        int(status),
        outcome,
        float(retry_after),
        client,
        agent,
    )


def read_log(path: str | Path) -> Iterator[Entry]:
    """Yield the entries of a log file; a last line cut off by a kill is left out."""
    with Path(path).open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            if not line.endswith("\n"):
                return
            try:
                yield parse_entry(line)
            except ValueError as error:
                raise ValueError(f"{path}, line {number}: {error}.") from error


class AccessLog:
    """Appends entries to a file. Buffered: the owner calls `flush` every FLUSH_EVERY_S."""

    def __init__(self, path: str | Path) -> None:
        self._file = Path(path).open("a", encoding="utf-8", errors="replace")  # noqa: SIM115
        self._lines: list[str] = []

    def write(self, entry: Entry) -> None:
        """Add an entry to the buffer; a full buffer is written at once."""
        self._lines.append(format_entry(entry))
        if len(self._lines) >= _LINES_KEPT:
            self.flush()

    def flush(self) -> None:
        """Write out the buffer."""
        if self._lines:
            self._file.write("".join(self._lines))
            self._file.flush()
            self._lines.clear()

    def close(self) -> None:
        """Write out the buffer and close the file."""
        self.flush()
        self._file.close()
