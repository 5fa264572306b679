"""The command of docs/streams.md that crawls between topics, as it is written there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.crawls import ROOT, environment

BLOCK = re.compile(r"<!-- runnable -->\n```sh\n(.*?)```", re.DOTALL)


@pytest.mark.timeout(300)
def test_the_command_of_the_documentation_crawls_between_topics() -> None:
    (command,) = BLOCK.findall((ROOT / "docs" / "streams.md").read_text(encoding="utf-8"))
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    run = subprocess.run(
        ["bash", "-c", command],
        cwd=ROOT,
        env=environment() | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    counts = dict(re.findall(r"Messages in ([a-z-]+): ([0-9,]+)", run.stdout))
    assert int(counts["crawled-documents"]) > 10
    assert int(counts["discovered-urls"]) > 10
    assert counts["crawl-completed"] == "1"
    for schema in ("document/1", "discovered/1", "completed/1"):
        assert f'"schema": "{schema}"' in run.stdout
