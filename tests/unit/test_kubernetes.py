"""deploy/kubernetes: every manifest is one that Kubernetes takes, and says what the program does.

No cluster runs here. kubectl, where there is one, puts the folders together as `apply -k` does.
"""

import argparse
import re
import shutil
import subprocess
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from scrapy.settings import Settings

from crawler import settings
from crawler.commands.admin import Command as AdminCommand
from crawler.servers.redis.checks import NEEDED
from crawler.spiders.web import ARGUMENTS

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
FOLDERS = ("base", "servers", "autoscaling", "example")
MANIFESTS = sorted(
    path
    for path in FOLDER.rglob("*.yaml")
    if path.name not in ("kustomization.yaml", "adapter.yaml")
)
# Of the secret that ../example says how to make.
SECRET = {"ADMIN_TOKEN", "MONGO_PASSWORD", "MONGO_URI", "REDIS_PASSWORD", "REDIS_URL"}
IMAGE = "registry.example.com/crawler:latest"


def read(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


@cache
def everything() -> dict[tuple[str, str], dict[str, Any]]:
    """All objects of the manifests, by kind and name."""
    return {
        (each["kind"], each["metadata"]["name"]): each
        for path in MANIFESTS
        if path.parent != FOLDER
        for each in read(path)
    }


def pod(kind: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = everything()[kind, name]["spec"]["template"]["spec"]
    return found


def container(kind: str, name: str) -> dict[str, Any]:
    [found] = pod(kind, name)["containers"]
    return dict(found)


def literals(folder: str) -> dict[str, str]:
    [whole] = read(FOLDER / folder / "kustomization.yaml")
    [generator] = whole["configMapGenerator"]
    return dict(each.split("=", 1) for each in generator["literals"])


WORKLOADS = [
    ("Deployment", "crawler"),
    ("Deployment", "admin"),
    ("StatefulSet", "redis"),
    ("StatefulSet", "mongo"),
]
OURS = WORKLOADS[:2]


def check(manifest: dict[str, Any]) -> None:
    version = kubernetes_validate.latest_version()
    kubernetes_validate.validate(manifest, version, strict=True)


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_kubernetes_takes_every_manifest(path: Path) -> None:
    manifests = read(path)
    assert manifests
    for manifest in manifests:
        check(manifest)


def test_a_mistake_in_a_manifest_is_found() -> None:
    [manifest] = read(FOLDER / "base" / "disruption-budget.yaml")
    manifest["spec"]["maxUnavailible"] = 1
    with pytest.raises(kubernetes_validate.ValidationError):
        check(manifest)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl")
@pytest.mark.parametrize("folder", FOLDERS)
def test_the_folders_fit_together(folder: str) -> None:
    built = subprocess.run(
        ["kubectl", "kustomize", str(FOLDER / folder)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert not built.stderr
    manifests = list(yaml.safe_load_all(built.stdout))
    for manifest in manifests:
        check(manifest)
    if folder == "example":
        assert {each["metadata"].get("namespace") for each in manifests} == {"crawler"}
        [config] = [each for each in manifests if each["kind"] == "ConfigMap"]
        assert config["data"].keys() == literals("base").keys()


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_file_belongs_to_its_folder(folder: str) -> None:
    [whole] = read(FOLDER / folder / "kustomization.yaml")
    assert whole["kind"] == "Kustomization"
    there = {path.name for path in MANIFESTS if path.parent.name == folder}
    assert {name for name in whole["resources"] if name.endswith(".yaml")} == there
    for name in whole["resources"]:
        assert (FOLDER / folder / name).exists()


def test_crawl_processes_get_arguments_and_settings_that_there_are() -> None:
    verb, spider, *flags = container("Deployment", "crawler")["args"]
    assert (verb, spider) == ("crawl", "web")
    given = {
        flag: {value.partition("=")[0] for each, value in pairwise(flags) if each == flag}
        for flag in ("-a", "-s")
    }
    assert {"seeds", "crawl"} <= given["-a"] <= set(ARGUMENTS)
    assert {"CRAWL_IDLE", "ADMIN_HOST"} <= given["-s"] <= set(dir(settings))


def test_the_dashboard_gets_options_that_its_command_has() -> None:
    command, *options = container("Deployment", "admin")["args"]
    parser, admin = argparse.ArgumentParser(), AdminCommand()
    admin.settings = Settings()
    admin.add_options(parser)
    parsed = parser.parse_args(options)
    assert (command, parsed.port) == ("admin", settings.ADMIN_PORT)
    # The name by which pods ask for it.
    assert ("Service", "admin") in everything()
    assert parsed.set == ["ADMIN_HOSTS=admin"]


@pytest.mark.parametrize(("kind", "name"), OURS)
def test_what_the_arguments_name_is_configured(kind: str, name: str) -> None:
    found = container(kind, name)
    assert found["image"] == IMAGE
    names = set(re.findall(r"\$\((\w+)\)", " ".join(found["args"])))
    assert names <= literals("base").keys()
    assert literals("example").keys() <= literals("base").keys()
    sources = [next(iter(each.values()))["name"] for each in found["envFrom"]]
    assert sources == ["crawler", "crawler-servers"]
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert f"--uid {pod(kind, name)['securityContext']['runAsUser']} " in dockerfile
    assert found["volumeMounts"][0]["mountPath"] == "/data"
    assert "ENV CRAWL_DIR=/data" in dockerfile
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        # Needs no token.
        assert found[probe]["httpGet"]["path"] == "/healthz"


def test_the_secret_has_what_the_pods_read() -> None:
    text = (FOLDER / "example" / "kustomization.yaml").read_text()
    assert set(re.findall(r"--from-literal=(\w+)=", text)) == SECRET
    used = {
        variable["valueFrom"]["secretKeyRef"]["key"]
        for name in ("redis", "mongo")
        for variable in container("StatefulSet", name)["env"]
        if "valueFrom" in variable
    }
    assert used == {"REDIS_PASSWORD", "MONGO_PASSWORD"}


def test_the_redis_keeps_what_it_acknowledges() -> None:
    given = container("StatefulSet", "redis")["args"]
    for name, _fact, needed, _risk in NEEDED:
        assert given[given.index(f"--{name}") + 1] == needed


@pytest.mark.parametrize(("kind", "name"), WORKLOADS)
def test_pods_have_no_rights_that_they_do_not_need(kind: str, name: str) -> None:
    whole, one = pod(kind, name), container(kind, name)
    assert whole["automountServiceAccountToken"] is False
    assert whole["securityContext"]["runAsNonRoot"] is True
    assert whole["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert one["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert one["resources"]["limits"]["memory"]


@pytest.mark.parametrize(("kind", "name"), WORKLOADS)
def test_every_pod_has_a_policy_for_both_directions(kind: str, name: str) -> None:
    labels = everything()[kind, name]["spec"]["template"]["metadata"]["labels"]
    types: set[str] = set()
    for (other, _), manifest in everything().items():
        if other == "NetworkPolicy":
            wanted = manifest["spec"]["podSelector"]["matchLabels"]
            if wanted.items() <= labels.items():
                types |= set(manifest["spec"]["policyTypes"])
    assert types == {"Ingress", "Egress"}


def test_processes_have_time_to_finish_and_are_not_all_drained_at_once() -> None:
    assert pod("Deployment", "crawler")["terminationGracePeriodSeconds"] > (
        settings.DOWNLOAD_TIMEOUT
    )
    budget = everything()["PodDisruptionBudget", "crawler"]["spec"]
    labels = everything()["Deployment", "crawler"]["spec"]["selector"]["matchLabels"]
    assert budget["selector"]["matchLabels"] == labels


def test_processes_are_added_by_a_metric_that_there_is() -> None:
    scaler = everything()["HorizontalPodAutoscaler", "crawler"]["spec"]
    target = scaler["scaleTargetRef"]
    assert (target["kind"], target["name"]) in everything()
    [metric] = scaler["metrics"]
    [rules] = read(FOLDER / "autoscaling" / "adapter.yaml")
    [rule] = rules["rules"]["external"]
    assert metric["external"]["metric"]["name"] == rule["name"]["as"]
    assert int(metric["external"]["target"]["averageValue"]) == settings.CONCURRENT_REQUESTS
    name = rule["seriesQuery"].partition("{")[0]
    assert f"`{name}`" in (ROOT / "docs" / "metrics.md").read_text()


@pytest.mark.parametrize(("kind", "name"), OURS)
def test_prometheus_finds_the_pods_by_their_labels_and_ports(kind: str, name: str) -> None:
    # Debian's promtool knows nothing of Kubernetes, and cannot check it.
    [config] = read(FOLDER / "autoscaling" / "scrape.yml")
    [job] = config["scrape_configs"]
    assert job["kubernetes_sd_configs"] == [{"role": "pod"}]
    keep = job["relabel_configs"][0]
    labels = everything()[kind, name]["spec"]["template"]["metadata"]["labels"]
    label, port = keep["source_labels"]
    assert label.removeprefix("__meta_kubernetes_pod_label_") == "app_kubernetes_io_name"
    assert port == "__meta_kubernetes_pod_container_port_name"
    [given] = container(kind, name)["ports"]
    assert keep["regex"] == f"{labels['app.kubernetes.io/name']};{given['name']}"
    assert given["containerPort"] == settings.ADMIN_PORT
