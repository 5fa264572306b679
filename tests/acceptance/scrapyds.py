"""A real scrapyd on loopback with its files in a folder of the test's own.

with Scrapyd(tmp_path) as scrapyd:
    scrapyd.deploy()
    job = scrapyd.schedule({"seeds": "http://s0.test/"}, {"REDIS_URL": redis_url})
"""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

from tests.acceptance.crawls import ROOT
from tests.support.waiting import wait_until

PROJECT = "crawler"
_SOURCES = ("crawler", "setup.py", "pyproject.toml", "requirements.txt", "README.md", "LICENSE")
_CONFIGURATION = """
[scrapyd]
bind_address = 127.0.0.1
http_port = {port}
poll_interval = 0.2
logs_dir = {folder}/logs
eggs_dir = {folder}/eggs
dbs_dir = {folder}/dbs
"""
_DEPLOY = """
[settings]
default = crawler.settings

[deploy]
url = http://127.0.0.1:{port}/
project = {project}
"""


class Scrapyd:
    """A context manager: scrapyd runs inside the block. Its jobs end with it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "scrapyd"
        self._folder.mkdir()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Scrapyd":
        text = _CONFIGURATION.format(port=self._port, folder=self._folder)
        (self._folder / "scrapyd.conf").write_text(text)
        with (self._folder / "scrapyd.log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "scrapyd"],
                # Not in the project: its folder would hide the egg.
                cwd=self._folder,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        wait_until(self._answers, deadline_s=60, what="an answer of scrapyd")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process is not None
        for job in self.jobs("running"):
            self.cancel(job)
        wait_until(lambda: not self.jobs("running"), deadline_s=60, what="the end of all jobs")
        self._process.terminate()
        self._process.wait(60)

    def deploy(self) -> None:
        """Build the egg and send it, by the program that users have."""
        project = self._folder / "project"
        project.mkdir()
        for name in _SOURCES:
            source = ROOT / name
            if source.is_dir():
                without_caches = shutil.ignore_patterns("__pycache__")
                shutil.copytree(source, project / name, ignore=without_caches)
            else:
                shutil.copy(source, project)
        target = _DEPLOY.format(port=self._port, project=PROJECT)
        (project / "scrapy.cfg").write_text(target)
        done = subprocess.run(
            [Path(sys.executable).parent / "scrapyd-deploy"],
            cwd=project,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert '"status": "ok"' in done.stdout, done.stdout + done.stderr

    def spiders(self) -> list[str]:
        """Names of the spiders in the egg."""
        found: list[str] = self._get("listspiders.json", project=PROJECT)["spiders"]
        return found

    def schedule(self, arguments: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
        """Start a crawl; returns the id of its job."""
        data = [("project", PROJECT), ("spider", "web"), *arguments.items()]
        data += [("setting", f"{name}={value}") for name, value in settings.items()]
        return str(self._post("schedule.json", data)["jobid"])

    def cancel(self, job: str) -> None:
        """End a job, as an operator would."""
        self._post("cancel.json", [("project", PROJECT), ("job", job)])

    def jobs(self, state: str) -> list[str]:
        """Ids of the jobs that are pending, running or finished."""
        return [job["id"] for job in self._get("listjobs.json", project=PROJECT)[state]]

    def log(self, job: str) -> str:
        """What a job has logged."""
        path = self._folder / "logs" / PROJECT / "web" / f"{job}.log"
        return path.read_text() if path.exists() else ""

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "scrapyd.log").read_text()
        try:
            return bool(self._get("daemonstatus.json"))
        except URLError:
            return False

    def _get(self, name: str, **query: str) -> Any:
        return self._answer(f"{name}?{urlencode(query)}")

    def _post(self, name: str, data: list[tuple[str, Any]]) -> Any:
        return self._answer(name, urlencode(data).encode())

    def _answer(self, path: str, data: bytes | None = None) -> Any:
        with urlopen(f"http://127.0.0.1:{self._port}/{path}", data, timeout=60) as response:
            answer = json.load(response)
        assert answer["status"] == "ok", answer
        return answer


def _environment() -> dict[str, str]:
    """Ours, without what would lead to the code outside the egg."""
    hidden = ("PYTHONPATH", "REDIS_URL", "MONGO_URI", "CRAWL_DIR")
    return {name: value for name, value in os.environ.items() if name not in hidden}
