"""Recognize that the certificate of a server was refused, in errors of any client library. Pure."""

import re

# As Python's ssl module says it, and OpenSSL.
_REFUSED = re.compile(r"certificate verify failed(?:: (?P<why>.+?)(?:\s*\(_ssl|$))?")


def refused_certificate(error: BaseException) -> str | None:
    """Say why the certificate of a server was refused; None for other errors."""
    found = _REFUSED.search(str(error))
    if found is None:
        return None
    why = (found["why"] or "").rstrip(". ")
    return f"its certificate is refused ({why})" if why else "its certificate is refused"
