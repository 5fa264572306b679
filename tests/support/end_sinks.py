"""A sink that notes the ends of crawls in a file, a line of JSON for each."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from crawler.items import Page
from crawler.storage.sink import Sink


class EndNotes(Sink):
    """Sink whose target is the file; "refuse" in its name lets every note fail."""

    wants_end = True

    async def open(self) -> None:
        self._is_open = True

    async def write(self, pages: Sequence[Page]) -> None:
        """Write nothing."""

    async def crawl_ended(self, summary: Mapping[str, Any]) -> None:
        assert self._is_open
        if "refuse" in self.target:
            raise OSError("no ends today")
        await asyncio.to_thread(self._note, json.dumps(summary))

    def _note(self, line: str) -> None:
        with Path(self.target).open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")

    async def close(self) -> None:
        self._is_open = False
