"""The benchmark of idle connections where it cannot run."""

import pytest

from benchmarks import connections
from benchmarks.figures import Skipped


def test_a_machine_with_few_files_is_told_how_many_are_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections.file_limit, "limits", lambda: (1024, 4096))
    (found,) = connections.measure(quick=False)
    assert found == Skipped("connections", "only 4096 files may be open, and 5314 are needed")
