"""The pinned packages: complete, by hashes, from no named index, and audited if that can be."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
LOCKS = {
    "requirements.lock": re.findall(
        r"requirements[\w-]*\.txt", MAKEFILE.split("LOCKED_IMAGE :=")[1].split("LOCKS :=")[0]
    ),
    "requirements-embedded.lock": ["requirements-embedded.txt"],
}
# Those of the demo, of `make crawl` and of the image; others are extras of their own.
LINUX = {"sys_platform": "linux", "platform_machine": "x86_64", "python_full_version": "3.11.9"}


def pins(name: str) -> list[tuple[str, list[str]]]:
    """Return each pinned requirement with its hashes."""
    text = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line.partition(" #")[0] for line in text.splitlines()]
    kept = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
    return [(line.partition("--hash")[0], re.findall(r"--hash=(\S+)", line)) for line in kept]


def wanted(name: str) -> list[Requirement]:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    texts = [line.partition(" #")[0].strip() for line in lines]
    return [Requirement(text) for text in texts if text and not text.startswith("#")]


@pytest.mark.parametrize("lock", LOCKS)
def test_every_pin_has_one_version_and_its_hashes(lock: str) -> None:
    found = pins(lock)
    assert found
    for text, hashes in found:
        assert re.fullmatch(r"[\w.-]+(\[[\w,-]+\])?==[\w.!+]+( ; .*)?", text.strip()), text
        assert hashes
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", each) for each in hashes)
    # Whoever installs chooses the index.
    assert not re.search(r"://|--(extra-)?index-url|--find-links", (ROOT / lock).read_text("utf-8"))


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_satisfies_the_requirements(lock: str) -> None:
    pinned = {}
    for text, _ in pins(lock):
        one = Requirement(text)
        if one.marker is None or one.marker.evaluate(LINUX):
            pinned[canonicalize_name(one.name)] = next(iter(one.specifier)).version
    for name in LOCKS[lock]:
        for one in wanted(name):
            if one.marker is None or Marker(str(one.marker)).evaluate(LINUX):
                version = pinned.get(canonicalize_name(one.name))
                assert version, f"{one.name} of {name} is not in {lock}: run make lock"
                assert one.specifier.contains(version, prereleases=True), f"{one}: run make lock"


def test_the_image_and_make_install_by_hashes(tmp_path: Path) -> None:
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert "pip install --no-cache-dir --require-hashes -r requirements.lock\n" in dockerfile
    assert "!requirements.lock" in (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    said = run("make", "crawl", f"VENV={_venv(tmp_path)}", "LOCKED=1").stdout
    locks = " ".join(f"-r {name}" for name in LOCKS)
    assert f"--disable-pip-version-check --require-hashes {locks}\n" in said


def _venv(folder: Path) -> Path:
    """A Python that only says how it is called."""
    _program(folder / "venv" / "bin" / "python", 'echo "python $*"')
    return folder / "venv"


def _program(path: Path, script: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def run(*command: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    inherited = {"MAKEFLAGS", "MFLAGS", "MAKELEVEL"}
    environment = {name: value for name, value in os.environ.items() if name not in inherited}
    if path is not None:
        environment["PATH"] = f"{path}:{environment['PATH']}"
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


KNOWN = {"name": "scrapy", "version": "2.19.0", "vulns": []}
BAD = KNOWN | {"vulns": [{"id": "PYSEC-1", "fix_versions": ["2.19.1"]}]}
UNKNOWN = {"name": "scrapy", "skip_reason": "Dependency not found on PyPI"}


@pytest.mark.parametrize(
    ("packages", "code", "said"),
    [
        ([KNOWN, UNKNOWN], 0, "1 of 2 packages were audited: no known vulnerabilities"),
        ([BAD, UNKNOWN], 1, "scrapy 2.19.0: PYSEC-1, mended in 2.19.1"),
        # pip-audit calls both a success.
        ([UNKNOWN], 0, "NOT AUDITED: the database of advisories cannot be reached (it knows none"),
        (None, 0, "NOT AUDITED: the database of advisories cannot be reached (no route to host)"),
    ],
)
def test_an_audit_fails_on_findings_and_says_when_nothing_was_audited(
    tmp_path: Path, packages: list[dict[str, object]] | None, code: int, said: str
) -> None:
    answer = tmp_path / "answer.json"
    answer.write_text(json.dumps({"dependencies": packages}))
    script = "echo 'no route to host' >&2"
    if packages is not None:
        write = f'case $option in --output=*) cp {answer} "${{option#*=}}";; esac'
        script = f"for option; do {write}; done"
    _program(tmp_path / "pip-audit", f"{script}; exit 1")
    done = run(".ci/audit", "requirements.lock", path=tmp_path)
    assert said in done.stdout
    assert done.returncode == code
