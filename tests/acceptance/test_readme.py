"""Every command of the README that is marked as runnable runs, in a copy of the project."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from demo.process import DemoServer
from demo.web import WebOptions
from tests.support.cluster import oldest_programs

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"<!-- runnable -->\n```sh\n(.*?)```", re.DOTALL)
WEB = WebOptions(hosts=6, pages=6, seed=1, zoo="none")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is in the repository."""
    folder = tmp_path_factory.mktemp("project")
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


@pytest.fixture(scope="module")
def web() -> Iterator[DemoServer]:
    with DemoServer(WEB) as server:
        yield server


def blocks() -> list[str]:
    return BLOCK.findall((ROOT / "README.md").read_text())


def test_the_readme_has_runnable_commands() -> None:
    assert len(blocks()) >= 5


@pytest.mark.timeout(300)
def test_every_runnable_command_succeeds(
    project: Path, web: DemoServer, redis_url: str, mongo_uri: str
) -> None:
    script = "set -euo pipefail\n" + "\n".join(blocks())
    for public, local in (
        ("make crawl\n", 'make crawl ARGS="--hosts 6 --pages 6"\n'),
        ("warc:archive/'\"", "warc:archive/' --hosts 6 --pages 6\""),
        (".venv/bin/scrapy", "scrapy"),
        ("https://example.com/news", "http://s1.test/"),
        ("https://example.com", "http://s0.test/"),
        ("redis://redis.internal:6379/0", redis_url),
        ("mongodb://mongo.internal:27017/", mongo_uri),
        ("$(seq 10)", "$(seq 2)"),
        ("fleet web -n 4", "fleet web -n 2"),
        ("--domain example.com", "--domain s0.test"),
        # The server of the tests listens on a socket, which redis-cli takes by another option.
        ('redis-cli -u "$REDIS_URL"', f"redis-cli -s {urlsplit(redis_url).path}"),
    ):
        assert public in script, f"{public!r} is no longer in the README"
        script = script.replace(public, local)
    # The client alone: a server beside it on PATH would be taken for the embedded one.
    tools = project / "tools"
    tools.mkdir()
    (tools / "redis-cli").symlink_to(oldest_programs() / "redis-cli")
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), str(tools), os.environ["PATH"]]),
        "VENV": sys.prefix,
        "SCRAPY_SETTINGS_MODULE": "tests.acceptance.readme_settings",
        "README_OVERRIDES": json.dumps(web.overrides),
        "PYTHONPATH": str(project),
    }
    for name in ("REDIS_URL", "MONGO_URI", "CRAWL_DIR"):
        environment.pop(name, None)
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=project,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    lines = (project / "pages.jsonl").read_text().splitlines()
    assert lines
    assert all(json.loads(line)["url"].startswith("http://s") for line in lines)
