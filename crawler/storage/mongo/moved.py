"""Read and delete content that was moved from MongoDB to an object store.

A document in `pages_content` says by its `tier` where the content is:

    none         in the document
    warm, cold   in the object `object`, of `object_size` bytes
    gone         nowhere: the page has no content of its own any more

A document with a body has its content, whatever its tier is: processes of versions without tiers
store new content, and leave the tier and the object of the earlier visit as they are.

`loose_object` names an object that may exist and that no reader needs: one that is being written,
or that of an earlier visit. storage/mongo/tiers.py deletes the latter. The name of an object has
the time of the visit, so an object is never written again with other content, and each object is
named by a document from before it is written until after it is deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pymongo import DeleteOne

from crawler.errors import ConfigurationError, CrawlerError
from crawler.servers.objects import ObjectStore
from crawler.storage import objects
from crawler.storage.reader import StoredContent

if TYPE_CHECKING:
    from pymongo.asynchronous.collection import AsyncCollection

Document = dict[str, Any]

URL_SETTING = "PAGES_TIER_URL"
GONE = "gone"
# Update for a document that gets content: its object is that of an earlier visit.
NOT_MOVED: dict[str, dict[str, Any]] = {
    "$unset": {"tier": True, "object_size": True},
    "$rename": {"object": "loose_object"},
}
# Requests to the object store at a time.
PARALLEL = 16
# How often a document that is moved meanwhile is read again to be deleted. A run moves it in two
# steps.
_LOOKS = 10
# What a document in `pages_content` says of its objects and its visit.
STATE_FIELDS = dict.fromkeys(
    ("crawl", "page_id", "crawled_at", "tier", "object", "loose_object"), True
)


class MovedContent:
    """Content in the object store at PAGES_TIER_URL, which is opened when first used."""

    def __init__(self, url: str | None = None) -> None:
        self._url = url

    @cached_property
    def store(self) -> ObjectStore:
        """Open the store; ConfigurationError if none is named."""
        if not self._url:
            raise ConfigurationError(
                f"Content was moved to an object store, and {URL_SETTING} is not set; set it to "
                "the store that has the content."
            )
        return ObjectStore.from_url(self._url, what=URL_SETTING)

    async def read(self, name: str, url: str) -> StoredContent:
        """Return the content of a URL; NotFound if it is gone, SinkAway if the store is away."""
        data = await self.store.get(name)
        try:
            found = objects.unpack(data)
            return StoredContent.of(url, found["body"], found)
        except (ValueError, KeyError, TypeError) as error:
            raise CrawlerError(
                f"{self.store.url}/{name} is damaged ({error}); crawl the page again."
            ) from error

    async def delete(self, names: Sequence[str]) -> None:
        """Delete objects; those that are gone do not matter."""
        if names:
            await self.store.delete(names)


def object_name(domain: str, document: Document) -> str:
    """Return the name of the object for the content of one visit."""
    at: datetime = document["crawled_at"]
    visit = f"{document['page_id']}-{at:%H%M%S}{at.microsecond // 1000:03}"
    return objects.object_name(document["crawl"], domain, at, visit)


def is_of_visit(name: str, document: Document) -> bool:
    """Return whether an object is that of the visit which the document describes."""
    parts = object_name("", document).split("/")
    # All but the crawl and the domain.
    return name.split("/")[2:] == parts[2:]


async def delete_contents(
    content: AsyncCollection[Document], moved: MovedContent, documents: Sequence[Document]
) -> int:
    """Delete content, its objects first; return the number of documents that are deleted.

    `documents` have the STATE_FIELDS. One that has content of another visit by now stays. One that
    is moved meanwhile is deleted where it is then.
    """
    deleted, left = 0, documents
    for _ in range(_LOOKS):
        deleted += await _delete_unchanged(content, moved, left)
        if not left or deleted == len(documents):
            break
        visits = {each["_id"]: each["crawled_at"] for each in left}
        found = content.find({"_id": {"$in": list(visits)}}, STATE_FIELDS)
        left = [each async for each in found if each["crawled_at"] == visits[each["_id"]]]
    return deleted


async def _delete_unchanged(
    content: AsyncCollection[Document], moved: MovedContent, documents: Sequence[Document]
) -> int:
    names = [each.get(key) for each in documents for key in ("object", "loose_object")]
    await moved.delete([name for name in names if name])
    same = [
        DeleteOne(
            {
                "_id": each["_id"],
                # None finds missing fields.
                **{key: each.get(key) for key in ("crawled_at", "tier", "object", "loose_object")},
            }
        )
        for each in documents
    ]
    if not same:
        return 0
    return (await content.bulk_write(same, ordered=False)).deleted_count
