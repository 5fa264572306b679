"""Compile the regular expressions of users, and refuse those that could take for ever. Pure.

Python's matcher backtracks: a pattern such as `(a+)+b` takes twice as long for each character of a
URL. There is no way to stop it half way, so each pattern is tried on texts of growing length first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from time import thread_time

MAX_PATTERNS = 100
MAX_CHARS = 500
# Of this thread's own time, for one URL. A pattern that is not at fault takes microseconds.
_PATIENCE_S = 0.05
_LENGTHS = (8, 12, 14, 16, 18, 20, 22, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024, 2048)
_TRIED = ("a", "0", "/", "a/", "0-", "&a=0", "%20", ".")


class BadPattern(ValueError):
    """A pattern that is not used; the text says why."""


def compiled(patterns: Sequence[str]) -> tuple[re.Pattern[str], ...]:
    """The patterns, to be searched for anywhere in a URL; BadPattern names one that will not do."""
    if len(patterns) > MAX_PATTERNS:
        raise BadPattern(f"{len(patterns)} patterns are too many; give {MAX_PATTERNS} at the most")
    return tuple(_compiled(text) for text in patterns)


@lru_cache(maxsize=2 * MAX_PATTERNS)
def _compiled(text: str) -> re.Pattern[str]:
    if len(text) > MAX_CHARS:
        start = f"{text[:40]}…"
        raise BadPattern(f"{start!r} has {len(text)} characters; use {MAX_CHARS} at the most")
    try:
        pattern = re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise BadPattern(f"{text!r} is no regular expression: {error}") from error
    for length in _LENGTHS:
        for part in _TRIED:
            # No URL has line breaks: they keep the pattern from matching too soon.
            tried = (part * length)[:length] + "\n\n"
            before = thread_time()
            pattern.search(tried)
            if thread_time() - before > _PATIENCE_S:
                raise BadPattern(
                    f"{text!r} takes too long on a URL of {length} characters; avoid a repetition "
                    "within a repetition, as in (a+)+, and several .* in a row"
                )
    return pattern
