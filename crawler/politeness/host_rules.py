"""Rules for single hosts, given by name or by suffix. Pure."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class HostRule:
    """Settings of one host; None for those of all hosts."""

    # Seconds from the end of a fetch to the next; replaces DELAY_MIN and DELAY_FACTOR.
    delay: float | None = None
    # Fetches that may start within a minute.
    per_minute: float | None = None
    # Pages that are crawled at most.
    budget: int | None = None
    # Fetches at the same time; replaces HOST_PARALLELISM.
    parallelism: int | None = None
    # Never contacted.
    blocked: bool = False


class HostRules:
    """Rules of the HOST_RULES setting. The longest name that matches a host applies."""

    def __init__(self, given: Mapping[str, Any], *, per_minute: float = 0.0) -> None:
        """Read {"host" or ".suffix": {field: value}}; raises ValueError with what is wrong.

        `per_minute` applies to hosts without one of their own; 0 is no limit.
        """
        self._default = HostRule(per_minute=per_minute or None)
        self._rules = {_pattern(name): self._rule(name, rule) for name, rule in given.items()}

    def for_host(self, host: str) -> HostRule:
        """Return the rule of a host, which is given with its port if that is not the default."""
        if not self._rules:
            return self._default
        name = host.lower()
        bare = name.rpartition(":")[0] if ":" in name and not name.endswith("]") else name
        for exact in (name, bare):
            if exact in self._rules:
                return self._rules[exact]
        # A suffix matches the domain itself, too.
        suffix = "." + bare
        while suffix:
            if suffix in self._rules:
                return self._rules[suffix]
            suffix = suffix[suffix.find(".", 1) :] if "." in suffix[1:] else ""
        return self._default

    def _rule(self, name: str, given: Any) -> HostRule:
        if not isinstance(given, Mapping):
            text = f'{name!r} has {given!r}; give an object such as {{"delay": 5}}'
            raise ValueError(text)  # noqa: TRY004 - the value of a setting
        for field, value in given.items():
            if field not in _FIELDS:
                raise ValueError(f"{name!r} has {field!r}; use any of {', '.join(_FIELDS)}")
            fits, wanted = _FIELDS[field]
            if not fits(value):
                raise ValueError(f"{field} of {name!r} is {value!r}; give {wanted}")
        return replace(self._default, **given)


def _pattern(name: Any) -> str:
    text = str(name).strip().lower()
    if not text.strip(".") or any(character in text for character in "/*@ "):
        raise ValueError(f"{name!r} is no host; use www.example.com, or .example.com for all of it")
    return text


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


_FIELDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "delay": (lambda value: _is_number(value) and value >= 0, "seconds, 0 or more"),
    "per_minute": (lambda value: _is_number(value) and value > 0, "a number above 0"),
    "budget": (
        lambda value: _is_number(value) and isinstance(value, int) and value >= 1,
        "a whole number of pages, 1 or more",
    ),
    "parallelism": (
        lambda value: _is_number(value) and isinstance(value, int) and 1 <= value <= 100,
        "a whole number of fetches, 1 to 100",
    ),
    "blocked": (lambda value: isinstance(value, bool), "true or false"),
}
