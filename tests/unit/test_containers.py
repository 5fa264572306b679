"""Dockerfile and compose.yaml. No container runs here: they are read, and what they say is checked
against the program."""

import argparse
import re
import shlex
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from scrapy.settings import Settings

from crawler import settings
from crawler.admin.routes import health
from crawler.commands.admin import Command as AdminCommand
from crawler.servers.redis.checks import NEEDED

ROOT = Path(__file__).resolve().parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, Any] = COMPOSE["services"]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
OURS = ("crawler", "admin")


def instructions(name: str) -> list[str]:
    return re.findall(rf"^{name} (.*)$", DOCKERFILE, re.MULTILINE)


def words(service: str) -> list[str]:
    command = SERVICES[service]["command"]
    text = command if isinstance(command, str) else "\n".join(command)
    return shlex.split(text.replace("$$", "$"))


@pytest.mark.parametrize("service", OURS)
def test_settings_of_a_service_are_settings(service: str) -> None:
    given = words(service)
    names = {word.partition("=")[0] for flag, word in pairwise(given) if flag == "-s"}
    assert names
    assert names <= set(dir(settings))


@pytest.mark.parametrize("service", OURS)
def test_servers_are_named_as_the_settings_read_them(service: str) -> None:
    source = Path(settings.__file__).read_text(encoding="utf-8")
    read = set(re.findall(r'environ\.get\("(\w+)"', source))
    # Those that the command line of the service passes on.
    used = {*re.findall(r"\$\{?(\w+)", " ".join(words(service)))}
    environment = SERVICES[service]["environment"]
    assert set(environment) <= read | used
    for name in ("REDIS_URL", "MONGO_URI"):
        host = re.search(r"://([^:/]+)", environment[name])
        assert host is not None
        assert host.group(1) in SERVICES[service]["depends_on"]


def test_what_is_optional_has_a_profile_and_holds_up_nothing_else() -> None:
    optional = {name for name, service in SERVICES.items() if "profiles" in service}
    assert optional == {"prometheus", "grafana", "postgresql", "kafka"}
    for service in SERVICES.values():
        for name, how in service.get("depends_on", {}).items():
            assert how["required"] is False if name in optional else "required" not in how
    # A value that must be set would be demanded of everybody.
    for name in ("postgresql", "kafka"):
        assert ":?" not in str(SERVICES[name])


def test_the_redis_keeps_what_it_acknowledges() -> None:
    given = words("redis")
    for name, _fact, needed, _risk in NEEDED:
        assert given[given.index(f"--{name}") + 1] == needed


def test_the_admin_command_has_the_options_that_it_is_given() -> None:
    parser, admin = argparse.ArgumentParser(), AdminCommand()
    admin.settings = Settings()
    admin.add_options(parser)
    command, *options = words("admin")
    assert command == "admin"
    parsed = parser.parse_args(options)
    port = f"127.0.0.1:{parsed.port}:{parsed.port}"
    assert SERVICES["admin"]["ports"] == [port]


def test_nothing_is_published_beyond_this_machine() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_a_token_is_demanded_and_none_is_written_down() -> None:
    for service in (*OURS, "prometheus"):
        assert SERVICES[service]["environment"]["ADMIN_TOKEN"].startswith("${ADMIN_TOKEN:?")


def test_all_that_is_copied_or_mounted_is_there() -> None:
    for line in instructions("COPY"):
        *sources, _target = line.split()
        for source in sources:
            assert (ROOT / source).exists()
            assert f"!{source}" in (ROOT / ".dockerignore").read_text().splitlines()
    mounts = [volume for service in SERVICES.values() for volume in service.get("volumes", ())]
    for source in (mount.partition(":")[0] for mount in mounts):
        assert (ROOT / source).exists() if source.startswith("./") else source in COMPOSE["volumes"]


def test_the_image_runs_without_rights_and_tells_its_health() -> None:
    assert instructions("USER") == ["crawler"]
    check = instructions("HEALTHCHECK")[0]
    path = re.search(r"127\.0\.0\.1:(\d+)(/\w+)", check)
    assert path is not None
    assert int(path.group(1)) == settings.ADMIN_PORT
    assert path.group(2) in {getattr(route, "path", "") for route in health.routes}


def test_prometheus_understands_its_configuration() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian's package prometheus)")
    for name in ("compose.yml", "prometheus.yml"):
        path = ROOT / "deploy" / "prometheus" / name
        done = subprocess.run(
            [promtool, "check", "config", "--syntax-only", path],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    found = yaml.safe_load((ROOT / "deploy/prometheus/compose.yml").read_text())
    (job,) = found["scrape_configs"]
    (discovery,) = job["dns_sd_configs"]
    assert set(discovery["names"]) <= set(SERVICES)
    assert discovery["port"] == settings.ADMIN_PORT
