"""A dict that forgets what was not used for longest, within a number of bytes. Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar, overload

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
Default = TypeVar("Default")

# Memory of an entry beside the characters of its key: the dict's own, the two objects, and room
# that a dict has when it has just grown.
ENTRY_BYTES = 160


def text_bytes(key: str, _value: object) -> int:
    """Estimate the memory of an entry whose key is a text and whose value is small."""
    return ENTRY_BYTES + len(key)


class RecentDict(Generic[Key, Value]):
    """Dict of the entries that were read or set last. No value is None.

    When the entries of the younger generation have half of `max_bytes`, they become the older one,
    and those that were the older one are forgotten. So an entry takes half of the memory that an
    OrderedDict needs for it. `size_of` estimates what a new entry takes.
    """

    def __init__(self, max_bytes: int, size_of: Callable[[Key, Value], int]) -> None:
        self._half = max_bytes // 2
        self._size_of = size_of
        self._young: dict[Key, Value] = {}
        self._old: dict[Key, Value] = {}
        self._young_bytes = 0

    def __contains__(self, key: Key) -> bool:
        return key in self._young or key in self._old

    def __len__(self) -> int:
        """Return the number of entries; one that is used anew counts twice for a while."""
        return len(self._young) + len(self._old)

    def __setitem__(self, key: Key, value: Value) -> None:
        young = self._young
        if key in young:
            young[key] = value
            return
        self._young_bytes += self._size_of(key, value)
        if self._young_bytes > self._half:
            self._old, young = young, {}
            self._young = young
            self._young_bytes = self._size_of(key, value)
        young[key] = value

    @overload
    def get(self, key: Key) -> Value | None: ...
    @overload
    def get(self, key: Key, default: Default) -> Value | Default: ...
    def get(self, key: Key, default: Default | None = None) -> Value | Default | None:
        """Return a value, which counts as a use of it."""
        found = self._young.get(key)
        if found is None:
            found = self._old.get(key)
            if found is None:
                return default
            self[key] = found
        return found

    def pop(self, key: Key) -> None:
        """Forget an entry, if there is one."""
        self._old.pop(key, None)
        value = self._young.pop(key, None)
        if value is not None:
            self._young_bytes -= self._size_of(key, value)

    def clear(self) -> None:
        """Forget all."""
        self._young, self._old, self._young_bytes = {}, {}, 0
