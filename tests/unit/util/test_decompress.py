"""Unpacking without the optional library."""

import gzip
import sys
import zlib
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

import pytest

from crawler.util import decompress

PAGE = b"<p>page" * 1000


@pytest.fixture(params=["isal", "zlib"])
def module(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module as it is where isal is installed, and where it is not."""
    if request.param == "isal":
        return decompress
    monkeypatch.setitem(sys.modules, "isal", None)
    spec = spec_from_file_location("decompress_without_isal", decompress.__file__)
    assert spec is not None
    assert spec.loader is not None
    found = module_from_spec(spec)
    spec.loader.exec_module(found)
    assert found.inflate is zlib
    return found


@pytest.mark.parametrize(
    ("encoding", "packed"),
    [(b"gzip", gzip.compress(PAGE, mtime=0)), (b"deflate", zlib.compress(PAGE))],
)
def test_a_body_is_unpacked_with_and_without_isal(
    module: Any, encoding: bytes, packed: bytes
) -> None:
    begun = module.unpacking(encoding, packed)
    parts = []
    while not begun.is_whole:
        parts.append(begun.more(1000))
        assert len(parts[-1]) <= 1000
    assert b"".join(parts) == PAGE
    assert module.is_whole(encoding, packed, 0)
    assert not module.is_whole(encoding, packed[:-1], 0)
    assert not module.is_whole(encoding, packed + b"tail", 0)
    damaged = bytearray(packed)
    damaged[-4] ^= 1
    assert not module.is_whole(encoding, bytes(damaged), 0)
    with pytest.raises(module.NotPacked):
        module.unpacking(encoding, bytes(damaged)).more(100_000)
