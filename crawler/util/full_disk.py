"""Tell a full disk from other errors of files: it passes when somebody frees space. Pure."""

import errno

# No space on the disk or in the quota of the user, or a file as large as it may be (ulimit -f).
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
REMEDY = "free some space"


def is_full(error: OSError) -> bool:
    """Return whether a file could not be written because there is no room."""
    return error.errno in _FULL
