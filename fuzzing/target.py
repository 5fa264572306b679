"""What a target is, and one run of it: it must end in time, in little memory, and as it says."""

from __future__ import annotations

import random
import resource
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

# An input that took too long counts only if it does so again: other programs use the cores too.
_AGAIN = 3
# A large input is a small one of which a part is repeated.
_LARGE_BYTES = 65_536


class Blowup(Exception):
    """Input that took too much time or memory."""


@dataclass(frozen=True, slots=True)
class Target:
    """Reader of foreign bytes. `run` raises for a defect, and for nothing else."""

    name: str
    run: Callable[[bytes], None]
    # Valid inputs, and words that such inputs have.
    seeds: tuple[bytes, ...]
    words: tuple[bytes, ...] = ()
    # Longer inputs are not made, except for the large ones.
    max_bytes: int = 4096
    # Seconds of CPU for an input, and for a large one, without the fuzzer's instruments.
    most_s: float = 0.1
    large_s: float = 0.5
    large_bytes: int = _LARGE_BYTES
    # By how much an input may raise the peak of the process's memory.
    most_mb: int = 300
    # Executions in a run are bounded by time; a target that asks a server is slow.
    is_slow: bool = False


def check(target: Target, data: bytes, *, slower: float = 1.0) -> None:
    """Run one input; raise what the target raises, or Blowup.

    `slower` is by how much instruments slow a target down.
    """
    most_s = (target.most_s if len(data) <= target.max_bytes else target.large_s) * slower
    before_kb = peak_kb()
    took_s = _seconds(target, data)
    if (grown_kb := peak_kb() - before_kb) > target.most_mb * 1024:
        raise Blowup(f"{target.name}: {len(data)} bytes took {grown_kb // 1024} MB")
    if took_s > most_s:
        took_s = min(took_s, *(_seconds(target, data) for _ in range(_AGAIN)))
    if took_s > most_s:
        raise Blowup(f"{target.name}: {len(data)} bytes took {took_s:.2f} s, of {most_s:.2f}")


def enlarged(data: bytes, size: int) -> bytes:
    """Repeat a part of an input until it has about `size` bytes: what is quadratic shows there."""
    if not data:
        return data
    chance = random.Random(zlib.crc32(data))
    start, end = sorted((chance.randint(0, len(data)), chance.randint(0, len(data))))
    if chance.random() < 0.5:  # short parts, such as one character, are the worst ones
        end = min(end, start + 1 + chance.randrange(4))
    part = data[start:end] or data[-1:]
    return data[:start] + part * (size // len(part)) + data[end:]


def mutated(chance: random.Random, target: Target, seeds: Sequence[bytes] | None = None) -> bytes:
    """Make an input by chance of seeds, those of the target if there are no others."""
    seeds = seeds or target.seeds
    data = bytearray(chance.choice(seeds))
    for _ in range(chance.randint(1, 6)):
        at = chance.randint(0, len(data))
        end = min(len(data), at + chance.choice((0, 0, 1, 2, 8, 64)))
        match chance.randrange(4):
            case 0 if target.words:
                data[at:end] = chance.choice(target.words)
            case 1:
                data[at:end] = chance.randbytes(chance.randint(0, 4))
            case 2:
                data[at:end] = data[at:end] * chance.randint(2, 9)
            case _:
                other = chance.choice(seeds)
                cut = chance.randint(0, len(other))
                data[at:end] = other[cut : cut + chance.randint(0, 64)]
    return bytes(data[: target.max_bytes])


def text_of(data: bytes) -> str:
    """Decode an input; also to texts that no file has, but JSON: with lone surrogates."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace")


def expect(condition: bool, what: object) -> None:
    """Raise AssertionError, which `python -O` does not leave out."""
    if not condition:
        raise AssertionError(repr(what)[:2000])


def _seconds(target: Target, data: bytes) -> float:
    started_s = time.thread_time()
    target.run(data)
    return time.thread_time() - started_s


def peak_kb() -> int:
    """Return the most memory that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
