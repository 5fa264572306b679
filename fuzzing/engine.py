"""Run one target until its time is over. `python -m fuzzing.engine`, started by `fuzzing run`.

First atheris makes inputs that reach more and more of the code, which it keeps as the corpus. The
instruments for that take most of the time. So a second run, without them, makes many more inputs of
that corpus by chance, and measures the time of each.

atheris ends the process itself, so what was counted is written to a file once a second.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import signal
import sys
import time
import traceback
import zlib
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from fuzzing.target import Blowup, Target, check, enlarged, mutated

# By how much instruments slow Python down, at most. What is too slow is run again without them.
_SLOWER = 10.0
# One execution of so many is of a large input. They are slow, and counted like others.
_LARGE_EVERY = 300
_KEPT = 50
# Inputs by chance between two settings of the alarm.
_AT_ONCE = 20
# Files of the corpus of which inputs are made by chance.
_SEEDS = 2000
_TIMEOUT_S, _MEMORY_MB = 30, 2000


class Run:
    """Executions of a target, and the first input for each place where it failed."""

    def __init__(self, target: Target, folder: Path, *, slower: float) -> None:
        self._target, self._folder, self._slower = target, folder, slower
        self._executions = 0
        self._failures: set[tuple[str, str]] = set()
        self._written_s = self._started_s = time.monotonic()

    def one(self, data: bytes) -> None:
        """Run an input, and sometimes a large one made of it."""
        self._check(data)
        if not self._target.is_slow and self._executions % _LARGE_EVERY == 0:
            self._check(enlarged(data, self._target.large_bytes))
        if time.monotonic() - self._written_s >= 1:
            self.write()

    def _check(self, data: bytes) -> None:
        self._executions += 1
        try:
            check(self._target, data, slower=self._slower)
        except Exception as error:  # noqa: BLE001 - whatever a target raises is found
            self._keep(data, error)

    def _keep(self, data: bytes, error: Exception) -> None:
        place = traceback.extract_tb(error.__traceback__)[-1]
        key = (type(error).__name__, f"{Path(place.filename).stem}-{place.lineno}")
        if key in self._failures or len(self._failures) >= _KEPT:
            return
        self._failures.add(key)
        path = self._folder / f"{key[0]}-{key[1]}-{zlib.crc32(data):08x}"
        path.write_bytes(data)
        print(f"{self._target.name}: {error!r:.300}: {path}", file=sys.stderr, flush=True)
        self.write()

    def write(self) -> None:
        """Say how many there were."""
        now_s = time.monotonic()
        self._written_s = now_s
        said = {"executions": self._executions, "seconds": round(now_s - self._started_s, 1)}
        (self._folder / "said.json").write_text(json.dumps(said), encoding="utf-8")


def main() -> None:
    """Fuzz; with atheris this never returns."""
    parser = argparse.ArgumentParser(prog="fuzzing.engine")
    parser.add_argument("module", help="that has the target")
    parser.add_argument("target")
    parser.add_argument("--seconds", type=int, required=True)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--found", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--by-chance", action="store_true", help="without atheris")
    given = parser.parse_args()
    # What is left out is logged, a thousand times a second.
    logging.disable(logging.CRITICAL)
    (_by_chance if given.by_chance else _guided)(given)


def _guided(given: argparse.Namespace) -> None:
    atheris = import_module("atheris")
    # Only what the target needs is imported, as instruments make it slow.
    with atheris.instrument_imports(include=["crawler", "protego"]):
        target = _target(given)
    given.corpus.mkdir(parents=True, exist_ok=True)
    for data in target.seeds:
        (given.corpus / f"seed-{zlib.crc32(data):08x}").write_bytes(data)
    words = given.found / "words"
    words.write_text("\n".join(map(_quoted, target.words)) + "\n", encoding="ascii")
    run = Run(target, given.found, slower=_SLOWER)
    options = [
        *(f"-max_total_time={given.seconds}", f"-max_len={target.max_bytes}", f"-dict={words}"),
        *(f"-timeout={_TIMEOUT_S}", f"-rss_limit_mb={_MEMORY_MB}", f"-seed={given.seed}"),
        *(f"-artifact_prefix={given.found}/", "-verbosity=0", str(given.corpus)),
    ]
    atheris.Setup([sys.argv[0], *options], run.one)
    atheris.Fuzz()


def _by_chance(given: argparse.Namespace) -> None:
    target, until_s = _target(given), time.monotonic() + given.seconds
    chance = random.Random(given.seed)
    files = sorted(given.corpus.iterdir()) if given.corpus.is_dir() else []
    chance.shuffle(files)
    seeds = [*target.seeds, *(path.read_bytes() for path in files[:_SEEDS])]
    run = Run(target, given.found, slower=1.0)

    def hangs(*_: object) -> NoReturn:
        raise Blowup(f"{target.name}: an input took more than {_TIMEOUT_S} s")

    signal.signal(signal.SIGALRM, hangs)
    while time.monotonic() < until_s:
        signal.alarm(_TIMEOUT_S)
        for _ in range(_AT_ONCE):
            run.one(mutated(chance, target, seeds))
    signal.alarm(0)
    run.write()


def _target(given: argparse.Namespace) -> Target:
    targets: tuple[Target, ...] = import_module(given.module).TARGETS
    return next(each for each in targets if each.name == given.target)


def _quoted(word: bytes) -> str:
    return '"' + "".join(f"\\x{byte:02x}" for byte in word) + '"'


if __name__ == "__main__":
    main()
