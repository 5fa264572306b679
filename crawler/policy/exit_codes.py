"""Exit codes: how a command ended, for shells and supervisors. Pure.

docs/operations.md has this table for people.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit code of a command. Of several that fit, the largest below INTERRUPTED says most."""

    # The crawl is over, a limit is reached, or it was stopped gracefully.
    DONE = 0
    # A feed or start() failed, the process did not end by itself, or Python raised an exception.
    # Of commands that look something up: it is not there.
    FAILED = 1
    # Arguments, settings or seeds are wrong: the next start would fail the same way.
    MISTAKE = 2
    # Redis or MongoDB does not answer, or takes nothing now: a later start may work.
    SERVER_AWAY = 3
    # Redis lost more of the crawl than its processes can repeat: somebody has to decide.
    DATA_LOST = 4
    # A signal stopped it before the crawl began, or a second one stopped it at once.
    INTERRUPTED = 130
