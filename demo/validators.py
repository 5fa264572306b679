"""Decide whether a client's copy of a page is still good. Pure."""

from dataclasses import dataclass
from email.utils import parsedate_to_datetime


@dataclass(frozen=True, slots=True)
class Validators:
    """The conditional fields of a request; empty means absent."""

    if_none_match: str = ""
    if_modified_since: str = ""

    def hold(self, etag: str, modified_s: int) -> bool:
        """Say whether the copy is current. If-None-Match wins over If-Modified-Since."""
        if self.if_none_match:
            tags = [tag.strip().removeprefix("W/") for tag in self.if_none_match.split(",")]
            return "*" in tags or etag in tags
        try:
            return parsedate_to_datetime(self.if_modified_since).timestamp() >= modified_s
        except ValueError:
            return False
