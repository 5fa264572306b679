"""Readers of foreign bytes: the cases that broke one once, and a fuzzer's work in small."""

import random
import zlib
from pathlib import Path

import pytest

from fuzzing.results import CASES
from fuzzing.target import Blowup, Target, check, enlarged, mutated, peak_kb
from fuzzing.targets import TARGETS

FOUND = sorted(CASES.glob("*/*"))
# Targets that ask a server are run by tests of their own.
QUICK = [target for target in TARGETS.values() if not target.is_slow]
# This machine may be busy: what is too slow is so by far.
SLOWER = 5.0


@pytest.mark.parametrize("path", FOUND, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_case_that_was_found_passes(path: Path) -> None:
    check(TARGETS[path.parent.name], path.read_bytes(), slower=SLOWER)


@pytest.mark.parametrize("target", QUICK, ids=lambda target: target.name)
def test_a_target_takes_its_seeds_and_what_chance_makes_of_them(target: Target) -> None:
    chance = random.Random(zlib.crc32(target.name.encode()))
    made = [mutated(chance, target) for _ in range(60)]
    large = [enlarged(data, target.large_bytes // 4) for data in (*target.seeds[:2], *made[:2])]
    for data in (b"", *target.seeds, *made, *large):
        check(target, data, slower=SLOWER)


def slow(data: bytes) -> None:
    sum(range(500_000))


def hungry(data: bytes) -> None:
    # Beyond what earlier tests of this process had, in pages that are touched.
    now_kb = int(Path("/proc/self/statm").read_text().split()[1]) * 4
    assert b"a" * (1024 * (peak_kb() - now_kb) + 60 * 2**20)


def wrong(data: bytes) -> None:
    raise KeyError(data)


def test_an_input_that_takes_long_is_found() -> None:
    with pytest.raises(Blowup, match=r"slow: 1 bytes took 0\.\d+ s, of 0\.00"):
        check(Target("slow", slow, (b"",), most_s=0.001), b"a")


def test_an_input_that_takes_memory_is_found() -> None:
    with pytest.raises(Blowup, match=r"hungry: 1 bytes took \d+ MB"):
        check(Target("hungry", hungry, (b"",), most_s=60.0, most_mb=30), b"a")


def test_what_a_target_raises_is_found() -> None:
    with pytest.raises(KeyError):
        check(Target("wrong", wrong, (b"",)), b"a")


def test_a_large_input_repeats_a_part_of_a_small_one() -> None:
    made = [enlarged(bytes([65 + number]) + b"bcdef", 1000) for number in range(20)]
    assert all(1000 <= len(data) <= 1012 for data in made)
    assert len({len(set(data[100:900])) for data in made}) > 1
    assert enlarged(b"", 1000) == b""


def test_names_of_targets_differ_and_cases_belong_to_one() -> None:
    assert len(TARGETS) == sum(
        len(__import__(module, fromlist=["TARGETS"]).TARGETS)
        for module in {target.run.__module__ for target in TARGETS.values()}
    )
    assert {path.parent.name for path in FOUND} <= TARGETS.keys()
    assert all(path.stat().st_size < 10_000 for path in FOUND)
