"""Fuzz what reads foreign bytes, run an input again, and write the table of docs/reliability.md.

`python -m fuzzing run [--minutes M] [--only TARGET …] [--corpus FOLDER] [--no-record]` fuzzes each
target for its share of the time, one after the other. `python -m fuzzing case FILE …` runs inputs
that were found; the name of their folder is their target. `python -m fuzzing render` makes the
table.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from benchmarks.command import end_servers_on_sigterm
from benchmarks.machine import short_commit
from fuzzing import results
from fuzzing.target import Target, check
from fuzzing.targets import TARGETS

# Found inputs, and the corpora that runs have grown; not part of the repository.
_FOLDER = Path(".fuzzing")
# Importing with instruments takes some seconds, and the last input its time.
_START_S, _SHARE_S = 900, 10
# Parts of a corpus of real files, see tests/support/corpus.py, that are further seeds.
_FILES = 300


def main(argv: Sequence[str] | None = None) -> int:
    """Run, try or render; 1 if an input failed."""
    parser = argparse.ArgumentParser(prog="fuzzing", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="look for inputs that break a target")
    run.add_argument("--minutes", type=float, default=10.0, help="for all targets together")
    run.add_argument("--only", nargs="+", choices=TARGETS, metavar="TARGET")
    run.add_argument("--seed", type=int, default=0, help="of the fuzzer; 0: another one each time")
    run.add_argument("--corpus", type=Path, help="folder of real files, as further seeds")
    run.add_argument("--no-record", action="store_true", help="keep no line for the table")
    run.set_defaults(do=_run)
    case = commands.add_parser("case", help="run inputs that were found")
    case.add_argument("files", type=Path, nargs="+", metavar="FILE")
    case.set_defaults(do=_case)
    commands.add_parser("render", help="write the table").set_defaults(do=_render)
    given = parser.parse_args(argv)
    end_servers_on_sigterm()
    try:
        code: int = given.do(given)
    except KeyboardInterrupt:
        return 130
    return code


def _run(given: argparse.Namespace) -> int:
    if find_spec("atheris") is None:
        print(
            "fuzzing: pip install -r requirements-fuzz.txt (CPython 3.11 to 3.13)", file=sys.stderr
        )
        return 2
    names = given.only or [*TARGETS]
    share_s = max(_SHARE_S, round(given.minutes * 60 / len(names)))
    found = []
    for name in names:
        found.append(_fuzz(TARGETS[name], share_s, given.seed, given.corpus))
        if not given.no_record:
            # At once: a long run may be ended early.
            results.keep(found[-1])
    executions = sum(each.executions for each in found)
    bad = sum(each.failures + each.hangs for each in found)
    print(f"{executions:,} executions of {len(found)} targets, {bad} failures")
    return 1 if bad else 0


def _fuzz(target: Target, seconds: int, seed: int, corpus: Path | None) -> results.Result:
    """Fuzz a target in a process of its own, and run again what it found."""
    folder = _FOLDER / "corpus" / target.name
    folder.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(_real_files(target.name, corpus)):
        (folder / f"real-{number:04d}").write_bytes(data[: target.max_bytes])
    for path in sorted((results.CASES / target.name).glob("*")):
        shutil.copy(path, folder)
    counts, took_s, failures, hangs = [], 0.0, 0, 0
    for by_chance in (False, True):
        with tempfile.TemporaryDirectory(prefix="fuzzing-") as name:
            found = Path(name)
            command = [sys.executable, "-m", "fuzzing.engine", target.run.__module__, target.name]
            command += [f"--seconds={seconds // 2}", f"--corpus={folder}", f"--found={found}"]
            command += [f"--seed={seed}", *(["--by-chance"] if by_chance else [])]
            code = _wait(command, found, seconds // 2 + _START_S)
            said = _said(found)
            counts.append(int(said.get("executions", 0)))
            took_s += said.get("seconds", 0.0)
            bad, ended = _confirmed(target, found)
            if code and not ended:
                print((found / "log").read_text(errors="replace")[-2000:], file=sys.stderr)
            failures, hangs = failures + bad, hangs + max(ended, int(code != 0))
    print(f"{target.name}: {sum(counts):,} executions in {took_s:.0f} s", flush=True)
    return results.Result(
        target.name,
        at=time.strftime("%Y-%m-%d"),
        commit=short_commit(),
        executions=sum(counts),
        guided=counts[0],
        seconds=took_s,
        failures=failures,
        hangs=hangs,
    )


def _confirmed(target: Target, found: Path) -> tuple[int, int]:
    """Keep what failed and fails again, and what atheris ended; return how many there are."""
    failures = [path for path in sorted(found.iterdir()) if path.is_file() and "-" in path.name]
    ended = [path for path in failures if path.name.startswith(("timeout-", "oom-", "crash-"))]
    confirmed = [path for path in failures if path not in ended and not _passes(target, path)]
    for path in [*confirmed, *ended]:
        kept = _FOLDER / "found" / target.name / path.name
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, kept)
        print(f"{target.name}: {kept}", file=sys.stderr)
    return len(confirmed), len(ended)


def _wait(command: list[str], found: Path, timeout_s: float) -> int:
    """Run a process, and end what it started: atheris leaves without a word."""
    own = found / "tmp"
    own.mkdir()
    with (found / "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
            env={**os.environ, "PYTHONHASHSEED": "0", "TMPDIR": str(own)},
        )
        try:
            return process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return -1
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _said(folder: Path) -> dict[str, float]:
    path = folder / "said.json"
    found: dict[str, float] = json.loads(path.read_text()) if path.exists() else {}
    return found


def _passes(target: Target, path: Path) -> bool:
    """Run an input without instruments."""
    try:
        check(target, path.read_bytes())
    except Exception:  # noqa: BLE001 - whatever a target raises is a failure
        return False
    return True


def _case(given: argparse.Namespace) -> int:
    failed = 0
    for path in given.files:
        try:
            check(TARGETS[path.resolve().parent.name], path.read_bytes())
        except Exception:  # noqa: BLE001 - it is shown
            failed += 1
            print(f"{path}:\n{traceback.format_exc()}", file=sys.stderr)
        else:
            print(f"{path}: passes")
    return 1 if failed else 0


def _render(_given: argparse.Namespace) -> int:
    made = results.table(results.read(), TARGETS)
    page = results.PAGE.read_text(encoding="utf-8")
    results.PAGE.write_text(results.render(page, made), encoding="utf-8")
    print(results.PAGE)
    return 0


def _real_files(target: str, corpus: Path | None) -> Iterator[bytes]:
    """Yield files of a corpus that a target reads; none without one."""
    if corpus is None or not corpus.is_dir():
        return
    own = corpus / target
    if own.is_dir():
        yield from (path.read_bytes() for path in sorted(own.iterdir())[:_FILES])
    if target == "page":
        for path in sorted((corpus / "articles" / "html").glob("*.html.gz"))[:_FILES]:
            # The first byte chooses the type that is declared.
            yield b"\1" + gzip.decompress(path.read_bytes())
    if target == "robots" and (corpus / "robots.tar.gz").is_file():
        with tarfile.open(corpus / "robots.tar.gz") as tar:
            for member in [each for each in tar if each.isfile()][:_FILES]:
                file = tar.extractfile(member)
                if file is not None:
                    yield file.read()


if __name__ == "__main__":
    sys.exit(main())
