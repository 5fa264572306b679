"""Write batches of pages to the two collections; says which pages were at fault.

Content goes first, so that metadata never points to what is not there. Every write may be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pymongo import WriteConcern
from pymongo.errors import BulkWriteError, OperationFailure

from crawler.storage.documents import Documents, Operation
from crawler.storage.schema import CONTENT, METADATA
from crawler.storage.trouble import DUPLICATE_KEY, code_may_pass

if TYPE_CHECKING:
    from pymongo.asynchronous.collection import AsyncCollection
    from pymongo.asynchronous.database import AsyncDatabase

# Position in the batch → why it was not written.
Faults = dict[int, OperationFailure]


class Writer:
    """The pages of one database."""

    def __init__(
        self, database: AsyncDatabase[dict[str, Any]], concern: WriteConcern, *, one_journal: bool
    ) -> None:
        # Where both collections have one journal, what was written before is safe with it.
        first = {**concern.document, "j": False} if one_journal else concern.document
        self._content = database.get_collection(CONTENT, write_concern=WriteConcern(**first))
        self._metadata = database.get_collection(METADATA, write_concern=concern)

    async def write(self, batch: Sequence[Documents]) -> Faults:
        """Store a batch; raises what may pass, see trouble.py."""
        with_content = [i for i, each in enumerate(batch) if each.content is not None]
        faults, _ = await _write(
            self._content, batch, with_content, Documents.insert_content, Documents.update_content
        )
        whole = [i for i in range(len(batch)) if i not in faults]
        more, updated = await _write(
            self._metadata, batch, whole, Documents.insert_metadata, Documents.update_metadata
        )
        bare = [batch[i] for i in updated if _has_no_content_now(batch[i])]
        if bare:
            await self._content.bulk_write([each.delete_content() for each in bare], ordered=False)
        return faults | more


Make = Callable[[Documents], Operation]


async def _write(
    collection: AsyncCollection[dict[str, Any]],
    batch: Sequence[Documents],
    chosen: Sequence[int],
    insert: Make,
    update: Make,
) -> tuple[Faults, list[int]]:
    """Insert what is new and update what is known; also returns which were updated."""
    fresh = [i for i in chosen if not batch[i].known]
    errors = await _bulk(collection, [insert(batch[i]) for i in fresh])
    existing = {fresh[n] for n, error in errors.items() if _is_duplicate(error)}
    faults = {fresh[n]: error for n, error in errors.items() if not _is_duplicate(error)}
    updated = [i for i in chosen if i in existing or batch[i].known]
    errors = await _bulk(collection, [update(batch[i]) for i in updated])
    # A duplicate key here: what is stored is newer.
    faults |= {updated[n]: error for n, error in errors.items() if not _is_duplicate(error)}
    return faults, updated


async def _bulk(collection: AsyncCollection[dict[str, Any]], operations: list[Operation]) -> Faults:
    """Write, and return the errors of single operations by their positions."""
    if not operations:
        return {}
    try:
        await collection.bulk_write(operations, ordered=False)
    except BulkWriteError as error:
        details = error.details
        errors = details["writeErrors"]
        passing = [each for each in errors if code_may_pass(each["code"])]
        for each in (*passing, *details["writeConcernErrors"]):
            raise OperationFailure(each["errmsg"], each["code"], each) from error
        return {
            each["index"]: OperationFailure(each["errmsg"], each["code"], each) for each in errors
        }
    return {}


def _is_duplicate(error: OperationFailure) -> bool:
    return error.code == DUPLICATE_KEY


def _has_no_content_now(documents: Documents) -> bool:
    """Was it answered, but not with content of its own? What a page had before is not it."""
    page = documents.page
    return 200 <= page.status < 300 and documents.content is None
