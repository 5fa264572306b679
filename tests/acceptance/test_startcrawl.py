"""`scrapy startcrawl` makes a project that is tested, crawls and resumes as it is."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from scrapy.settings import default_settings
from scrapy.utils.misc import load_object

from crawler import project as project_module
from crawler import settings as ours
from crawler.project import Command, check_name
from demo.process import DemoServer
from demo.web import WebOptions
from tests.acceptance.crawls import ROOT, Run, environment, scrapy

WEB = WebOptions(hosts=1, pages=5, zoo="none")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("projects") / "mine"
    made = scrapy("startcrawl", "shop", str(folder), "--url", "http://s0.test")
    assert made.code == 0, made.stderr
    told = [line.strip() for line in made.stdout.splitlines()]
    # This project is not installed where the tests run.
    assert told[2] == f"cd {folder}"
    assert told[3].endswith(f"pip install '{ROOT}[embedded]'")
    assert told[4].endswith("scrapy crawl shop -O items.jsonl")
    return folder


def test_the_command_is_there_wherever_this_project_is_installed() -> None:
    facts = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert (
        load_object(
            facts["project"]["entry-points"]["scrapy.commands"]["startcrawl"].replace(":", ".")
        )
        is Command
    )
    assert "**/*.tmpl" in facts["tool"]["setuptools"]["package-data"]["crawler"]


def crawl(project: Path, web: DemoServer, redis_url: str, *more: str) -> Run:
    values = {
        "REDIS_URL": redis_url,
        "ALLOW_NETWORKS": "127.0.0.0/8",
        "DNS_OVERRIDES": json.dumps(web.overrides),
        "DELAY_MIN": 0.02,
        "DELAY_FACTOR": 0,
    }
    given = [word for name, value in values.items() for word in ("-s", f"{name}={value}")]
    run = scrapy("crawl", "shop", *given, *more, cwd=project)
    assert run.code == 0, run.stderr
    assert "Traceback" not in run.stderr, run.stderr
    return run


@pytest.mark.slow
def test_its_own_test_passes(project: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "unittest"],
        cwd=project,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Ran 1 test" in done.stderr


def test_it_crawls_its_site_with_a_dashboard_and_a_summary_and_resumes(
    project: Path, redis_url: str
) -> None:
    items = project / "items.jsonl"
    with DemoServer(WEB) as web:
        run = crawl(project, web, redis_url, "-O", "items.jsonl")
        found = [json.loads(line) for line in items.read_text().splitlines()]
        assert {"http://s0.test/"} < {item["url"] for item in found}
        assert all(item["title"] for item in found)
        assert "Dashboard and admin API: http://127.0.0.1:" in run.stderr
        assert "finished: nothing is left to crawl" in run.stderr
        again = crawl(project, web, redis_url, "-o", "items.jsonl")
    assert "nothing left to crawl" in again.stderr
    assert len(items.read_text().splitlines()) == len(found)
    status = scrapy("frontier", "status", "-s", f"REDIS_URL={redis_url}", cwd=project)
    assert status.stdout.splitlines()[0].split() == ["crawl", "shop"]


def test_its_spider_names_its_argument(project: Path) -> None:
    help_text = scrapy("crawl", "shop", "-h", cwd=project).stdout
    assert re.search(r"^  url +\(http://s0\.test/\)$", help_text, re.MULTILINE)


def test_every_name_among_its_settings_is_one(project: Path) -> None:
    text = (project / "shop" / "settings.py").read_text()
    names = set(re.findall(r"^(?:# )?([A-Z][A-Z_]+) = ", text, re.MULTILINE))
    assert {"ADDONS", "USER_AGENT", "DELAY_MIN", "ALLOW_NETWORKS"} <= names
    assert names <= {*dir(ours), *dir(default_settings)}


def test_its_containers_are_those_of_this_project(project: Path) -> None:
    compose = yaml.safe_load((project / "compose.yaml").read_text())
    whole: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
    crawler, admin = compose["services"]["crawler"], compose["services"]["admin"]
    assert crawler["build"]["additional_contexts"] == {"crawler": f"${{CRAWLER_SOURCE:-{ROOT}}}"}
    assert crawler["command"][:2] == ["crawl", "shop"]
    assert admin["command"] == [
        *("admin", "--crawl", "shop"),
        *whole["services"]["admin"]["command"][1:],
    ]
    assert admin["ports"] == whole["services"]["admin"]["ports"]
    safe = "--appendonly yes --appendfsync everysec"
    assert safe in compose["services"]["redis"]["command"]
    copied = re.findall(
        r"^COPY (?!--from)(\S+)", (project / "Dockerfile").read_text(), re.MULTILINE
    )
    assert copied
    assert all((project / name).exists() for name in copied)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "give the name of the project"),
        (("my-shop",), "The name is 'my-shop'; use up to 40 small letters"),
        (("class",), "The name is 'class'"),
        (("json",), "There is a Python package 'json' already"),
        (("crawler",), "There is a Python package 'crawler' already"),
        (("news", "FOLDER/full"), "full exists and is not empty"),
        (("news", "--url", "example.com"), "--url is 'example.com'; write it as https://"),
        (("news", "--url", 'https://a.test/"+x'), "write it as https://"),
    ],
)
def test_mistakes_write_nothing(tmp_path: Path, words: tuple[str, ...], told: str) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    words = tuple(word.replace("FOLDER", str(tmp_path)) for word in words)
    if words and len(words) != 2:
        words = (words[0], str(tmp_path / "new"), *words[1:])
    run = scrapy("startcrawl", *words)
    assert run.code == 2
    assert told in run.stderr
    assert "Traceback" not in run.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["full"]


def test_a_plain_name_is_good() -> None:
    check_name("my_shop2")


def test_an_installed_package_knows_the_folder_that_it_was_installed_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(project_module, "__file__", str(tmp_path / "crawler/project/__init__.py"))
    assert project_module.source() == ""
    facts = tmp_path / "mercator_crawler-1.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Name: mercator-crawler\nVersion: 1\n")
    (facts / "direct_url.json").write_text('{"dir_info": {}, "url": "file:///src/my%20crawler"}')
    monkeypatch.syspath_prepend(tmp_path)
    assert project_module.source() == "/src/my crawler"
