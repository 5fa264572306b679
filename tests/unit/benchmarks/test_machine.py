"""The limit on open files of a benchmark."""

import resource

import pytest

from benchmarks.machine import raise_file_limit

_NONE = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("limits", "needed", "set_to"),
    [
        ((256, 4096), 1000, (1000, 4096)),
        ((256, 4096), 9000, (4096, 4096)),
        ((256, _NONE), 9000, (9000, _NONE)),
        ((2000, 4096), 1000, None),
        ((_NONE, _NONE), 1000, None),
    ],
)
def test_the_limit_is_raised_and_never_lowered(
    limits: tuple[int, int],
    needed: int,
    set_to: tuple[int, int] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    changed = []
    monkeypatch.setattr(resource, "getrlimit", lambda _which: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _which, pair: changed.append(pair))
    raise_file_limit(needed)
    assert changed == ([set_to] if set_to else [])
