"""Content-seen: which page has this content already, exactly or nearly. In Redis."""

from crawler.content_seen.content_seen import ContentSeen, NotCompared
from crawler.content_seen.layout import MAX_DISTANCE
from crawler.content_seen.records import Content, Duplicate

__all__ = ["MAX_DISTANCE", "Content", "ContentSeen", "Duplicate", "NotCompared"]
