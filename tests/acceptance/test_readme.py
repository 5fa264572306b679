"""Every command of the README that is marked as runnable runs, in a copy of the project."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from demo.process import DemoServer
from demo.web import WebOptions
from tests.support.cluster import oldest_programs
from tests.support.written import copy_project, replaced, run_script, runnable_blocks

WEB = WebOptions(hosts=6, pages=6, seed=1, zoo="none")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is in the repository."""
    return copy_project(tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="module")
def web() -> Iterator[DemoServer]:
    with DemoServer(WEB) as server:
        yield server


def test_the_readme_has_runnable_commands() -> None:
    assert len(runnable_blocks("README.md")) >= 5


@pytest.mark.timeout(300)
def test_every_runnable_command_succeeds(
    project: Path, web: DemoServer, redis_url: str, mongo_uri: str
) -> None:
    pairs = (
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
    )
    script = replaced("\n".join(runnable_blocks("README.md")), pairs)
    # The client alone: a server beside it on PATH would be taken for the embedded one.
    tools = project / "tools"
    tools.mkdir()
    (tools / "redis-cli").symlink_to(oldest_programs() / "redis-cli")
    variables = {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), str(tools), os.environ["PATH"]]),
        "VENV": sys.prefix,
        "SCRAPY_SETTINGS_MODULE": "tests.acceptance.readme_settings",
        "README_OVERRIDES": json.dumps(web.overrides),
        "PYTHONPATH": str(project),
    }
    run_script(script, project, variables, timeout_s=280)
    lines = (project / "pages.jsonl").read_text().splitlines()
    assert lines
    assert all(json.loads(line)["url"].startswith("http://s") for line in lines)
