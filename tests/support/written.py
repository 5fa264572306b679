"""Commands as the README and the docs have them: read from their pages, and run as they stand."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"<!-- runnable -->\n```sh\n(.*?)```", re.DOTALL)
# What would lead a script to another project, or to servers of whoever runs the tests.
_NOT_PASSED_ON = ("CRAWL_DIR", "MONGO_URI", "REDIS_URL", "SCRAPY_SETTINGS_MODULE")


def runnable_blocks(page: str) -> list[str]:
    """Return the blocks of a page that are marked as runnable, in their order."""
    return _BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))


def replaced(script: str, pairs: Iterable[tuple[str, str]]) -> str:
    """Replace what is not for tests in a script; it must be there."""
    for public, local in pairs:
        assert public in script, f"{public!r} is no longer in the page"
        script = script.replace(public, local)
    return script


def copy_project(folder: Path) -> Path:
    """Copy what is in the repository to a folder."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target)
    return folder


def run_script(script: str, folder: Path, variables: Mapping[str, str], *, timeout_s: float) -> str:
    """Run a script in a folder until a command of it fails; return its output."""
    environment = {name: value for name, value in os.environ.items() if name not in _NOT_PASSED_ON}
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-c", f"set -euo pipefail\n{script}"],
        cwd=folder,
        env={**environment, "PATH": programs, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout
