"""All that the OpenAPI document allows, asked of a real server: with and without the token."""

import tomllib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis as redis_client
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import checks
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

import crawler
from crawler.admin.routes import CrawlContext
from crawler.admin.server import create_api
from tests.integration.admin.api import TOKEN
from tests.integration.admin.servers import served

ROOT = Path(__file__).resolve().parents[3]
# Endless: it has tests of its own.
ENDLESS = ("/events",)
OPEN = ("/healthz",)
DOCUMENT = create_api(CrawlContext("web", None)).openapi()
FEW = settings(
    max_examples=2,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
MORE = settings(FEW, max_examples=6)
CHECKS = [
    checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


def operations() -> list[Any]:
    schema = schemathesis.openapi.from_dict(DOCUMENT)
    return [found.ok() for found in schema.get_all_operations()]


@pytest.fixture
def address(redis_url: str) -> Iterator[str]:
    with served(redis_url) as url:
        yield url


def ask_all(ask: Callable[[Any], None], *, but: tuple[str, ...], wrong: bool) -> int:
    """Ask what each operation allows, or what it does not as well; says how many there were."""
    asked = 0
    for operation in operations():
        if operation.path in but:
            continue
        asked += 1
        allowed = operation.as_strategy(generation_mode=GenerationMode.POSITIVE)
        (MORE if wrong else FEW)(given(case=allowed)(ask))()
        if wrong:
            others = operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)
            # An operation without parameters takes nothing that could be wrong.
            with suppress(Unsatisfiable):
                MORE(given(case=others)(ask))()
    return asked


def test_the_document_has_every_route_of_the_issue() -> None:
    found = {
        f"{method.upper()} {path}" for path, item in DOCUMENT["paths"].items() for method in item
    }
    assert found >= {
        "POST /seed/urls",
        "POST /url/limit",
        "GET /metrics",
        "GET /scheduler/status",
        "GET /status",
        "GET /hosts",
        "GET /hosts/{host}",
        "PATCH /hosts/{host}",
        "DELETE /hosts/{host}/queue",
        "GET /hosts/{host}/robots",
        "DELETE /hosts/{host}/robots",
        "GET /hosts/{host}/dns",
        "DELETE /hosts/{host}/dns",
        "GET /urls",
        "GET /urls/refusals",
        "GET /crawls",
        "GET /log",
        "GET /options",
        "PATCH /options",
        "POST /workers/{worker}/stop",
        "GET /hosts/{host}/report",
        "GET /dead/groups",
        "GET /pages",
        "GET /pages/page",
        "DELETE /urls",
        "GET /dead",
        "POST /dead/requeue",
        "POST /crawl/pause",
        "POST /crawl/resume",
        "GET /workers",
        "GET /pages/search",
        "GET /events",
        "GET /healthz",
        "GET /readyz",
    }


def test_nothing_that_the_document_allows_is_a_server_error(address: str) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}

    def ask(case: Any) -> None:
        response = case.call(base_url=address, headers=headers)
        case.validate_response(response, checks=CHECKS)

    assert ask_all(ask, but=ENDLESS, wrong=True) >= 23
    assert httpx.get(f"{address}/status", headers=headers).status_code == 200


def test_without_the_token_nothing_is_answered_and_nothing_is_written(
    address: str, redis_url: str
) -> None:
    with redis_client.Redis.from_url(redis_url) as redis:

        def everything() -> dict[bytes, bytes]:
            return {key: redis.dump(key) for key in redis.scan_iter("*")}

        before = everything()

        def ask(case: Any) -> None:
            response = case.call(base_url=address, headers={"Authorization": "Bearer guess"})
            # Soon there are too many wrong ones.
            assert response.status_code in (401, 429)
            assert response.headers["content-type"] == ["application/problem+json"]

        assert ask_all(ask, but=OPEN, wrong=False) >= 23
        assert everything() == before


def test_the_document_itself_needs_the_token_and_has_the_version(address: str) -> None:
    assert httpx.get(f"{address}/openapi.json").status_code == 401
    headers = {"Authorization": f"Bearer {TOKEN}"}
    document = httpx.get(f"{address}/openapi.json", headers=headers).json()
    assert document["paths"] == DOCUMENT["paths"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert document["info"]["version"] == crawler.__version__ == project["version"]


def test_the_page_about_the_api_is_our_own_and_has_no_data(address: str) -> None:
    page = httpx.get(f"{address}/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert "/seed/urls" not in page.text
    assert httpx.get(f"{address}/redoc").status_code == 401


def test_every_operation_but_health_names_the_token_in_the_document() -> None:
    for path, item in DOCUMENT["paths"].items():
        for operation in item.values():
            assert ("security" in operation) != (path in OPEN), path
