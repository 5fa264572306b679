"""What docs/jobs.md writes for cron, Kubernetes and scrapyd can be used as it stands."""

import re
import shlex
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
import yaml

from crawler.errors import ExitCode
from crawler.spiders.web import ARGUMENTS
from demo.process import DemoServer
from demo.web import Web, WebOptions
from tests.acceptance.crawls import ROOT, Crawls, environment

DOCS = (ROOT / "docs" / "jobs.md").read_text(encoding="utf-8")
MANIFEST = ROOT / "deploy" / "kubernetes" / "cronjob.yaml"
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
SMALL = WebOptions(hosts=2, pages=3, seed=2, zoo="none")


def crontab(name: str) -> tuple[dict[str, str], str]:
    """The variables and the command of the crontab with this mark."""
    [text] = re.findall(rf"<!-- {name} -->\n```\n(.*?)```", DOCS, re.DOTALL)
    *variables, line = text.strip().splitlines()
    times = re.match(r"(?:[\d*/,-]+ ){5} *", line)
    assert times
    # In a crontab it would be the end of the line.
    assert "%" not in line
    return dict(each.split("=", 1) for each in variables), line[times.end() :]


@pytest.mark.skipif(shutil.which("flock") is None, reason="there is no flock")
def test_the_line_for_cron_runs_as_cron_does_it(
    tmp_path: Path, redis_url: str, mongo_uri: str, mongo_db_name: str
) -> None:
    variables, command = crontab("cron")
    assert variables.keys() == {"REDIS_URL", "MONGO_URI"}
    crawls = Crawls(tmp_path, redis_url, mongo_uri, mongo_db_name)
    with DemoServer(SMALL, tmp_path / "access.log") as web:
        # Another folder, site and servers; nothing else is changed.
        settings = {**crawls.settings(web), "USER_AGENT": "tests/1.0 (+http://a.test/)"}
        more = shlex.join(
            part for each in settings.items() for part in ("-s", f"{each[0]}={each[1]}")
        )
        for written, used in (
            # First: the other paths may be in there.
            ("/tmp/", f"{tmp_path}/"),
            ("/srv/crawler", str(ROOT)),
            (".venv/bin/scrapy", str(Path(sys.executable).with_name("scrapy"))),
            ("https://example.com", Web(SMALL).seeds[0]),
            ("-s PROGRESS=off", f"-s PROGRESS=off {more}"),
        ):
            assert written in command
            command = command.replace(written, used)
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            env=environment(),
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
    assert (done.returncode, done.stderr) == (ExitCode.DONE, "")
    assert "Spider closed (finished)" in (tmp_path / "crawl-web.log").read_text()


def test_the_line_for_scrapyd_names_arguments_of_the_spider() -> None:
    _, command = crontab("scrapyd")
    words = shlex.split(command)
    assert words[0] == "curl"
    given = {
        name: value
        for flag, each in pairwise(words)
        if flag == "-d"
        for name, value in parse_qs(each).items()
    }
    assert (given.pop("project"), given.pop("spider")) == (["crawler"], ["web"])
    assert given.keys() <= set(ARGUMENTS)


def test_the_manifest_for_kubernetes_starts_the_image_as_it_is() -> None:
    job: dict[str, Any] = yaml.safe_load(MANIFEST.read_text(encoding="utf-8"))
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "CronJob")
    spec = job["spec"]["jobTemplate"]["spec"]
    pod = spec["template"]["spec"]
    # A policy by exit codes needs it.
    assert pod["restartPolicy"] == "Never"
    [codes] = [
        rule["onExitCodes"] for rule in spec["podFailurePolicy"]["rules"] if "onExitCodes" in rule
    ]
    assert codes["values"] == [ExitCode.MISTAKE, ExitCode.DATA_LOST]
    [container] = pod["containers"]
    assert 'ENTRYPOINT ["scrapy"]' in DOCKERFILE
    verb, spider, *flags = container["args"]
    assert (verb, spider) == ("crawl", "web")
    arguments = {each.partition("=")[0] for flag, each in pairwise(flags) if flag == "-a"}
    assert arguments <= set(ARGUMENTS)
    [mount] = container["volumeMounts"]
    assert f"CRAWL_DIR={mount['mountPath']}" in DOCKERFILE
    assert f"--uid {pod['securityContext']['runAsUser']} " in DOCKERFILE
