"""POST /seed/urls and /url/limit."""

import logging
from typing import Any

import pytest

from crawler.admin.routes import MAX_SEEDS
from crawler.scheduling.options import CrawlOptions
from tests.integration.admin.api import Api


@pytest.mark.parametrize(
    "body",
    [
        ["http://a.test/", "http://b.test/"],
        "http://a.test/,http://b.test/",
        "http://a.test/ http://b.test/",
        {"urls": ["http://a.test/", "http://b.test/"]},
        {"urls": "http://a.test/, http://b.test/"},
    ],
)
async def test_seeds_come_as_a_list_or_as_text(api: Api, body: Any) -> None:
    found = await api.json("POST", "/seed/urls", body)
    assert (found["added"], found["known"], found["rejected"]) == (2, 0, 0)
    assert {lease.entry.url for lease in await api.claim()} == {"http://a.test/", "http://b.test/"}


async def test_each_url_has_its_answer_in_its_place(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    await api.json("POST", "/url/limit", {"excludedDomains": ["no.test"], "urlLengthLimit": 40})
    await api.json("POST", "/seed/urls", ["http://a.test/known"])
    given = [
        "HTTP://A.test:80/known",
        "nonsense",
        "http://www.no.test/",
        "ftp://a.test/",
        "http://user:secret@a.test/",
        f"http://a.test/{'x' * 40}",
        "http://a.test/new",
    ]
    with caplog.at_level(logging.INFO, "crawler.admin.audit"):
        found = await api.json("POST", "/seed/urls", given)
    assert [(seed["state"], seed["reason"]) for seed in found["urls"]] == [
        ("known", ""),
        ("rejected", "no_scheme"),
        ("rejected", "excluded"),
        ("rejected", "scheme"),
        ("rejected", "credentials"),
        ("rejected", "too_long"),
        ("added", ""),
    ]
    assert [seed["given"] for seed in found["urls"]] == given
    assert found["urls"][0]["url"] == "http://a.test/known"
    assert all(seed["detail"] for seed in found["urls"] if seed["state"] == "rejected")
    assert (found["added"], found["known"], found["rejected"]) == (1, 1, 5)
    [line] = [record.getMessage() for record in caplog.records]
    assert line == "127.0.0.1 admin POST /seed/urls: 200 (1 added, 1 known, 5 rejected)"


async def test_seeds_of_new_domains_widen_the_scope_seeds(api: Api) -> None:
    await api.json("POST", "/seed/urls", ["http://www.one.test/", "http://two.test/"])
    members = await api.redis.smembers("{web}:seed_domains")
    assert {name.decode() for name in members} == {"one.test", "two.test"}


@pytest.mark.parametrize(
    "body", [None, 3, [], "", " , ", {"urls": []}, {"url": "http://a.test/"}, [1], [["http://a"]]]
)
async def test_what_are_no_seeds_is_refused(api: Api, body: Any) -> None:
    problem = await api.json("POST", "/seed/urls", body, status=422)
    assert problem["status"] == 422
    assert problem["detail"]


async def test_so_many_seeds_are_refused(api: Api) -> None:
    urls = ["http://a.test/"] * (MAX_SEEDS + 1)
    problem = await api.json("POST", "/seed/urls", urls, status=422)
    assert problem["detail"] == "Give 1 to 10,000 URLs, not 10,001."


async def test_limits_are_checked_stored_and_told(api: Api) -> None:
    none = {"excludedDomains": [], "depthLimit": 0, "urlLengthLimit": 0}
    assert await api.json("GET", "/url/limit") == none
    found = await api.json(
        "POST",
        "/url/limit",
        {"excludedDomains": "B.test, .a.test", "depthLimit": 3, "urlLengthLimit": 100},
    )
    assert found == {
        "excludedDomains": ["a.test", "b.test"],
        "depthLimit": 3,
        "urlLengthLimit": 100,
    }
    assert await api.json("GET", "/url/limit") == found
    now = CrawlOptions().changed((await api.json("GET", "/status"))["options"])
    assert (now.excluded_domains, now.max_depth, now.max_url_length) == (
        ("a.test", "b.test"),
        3,
        100,
    )
    found = await api.json("POST", "/url/limit", {"depthLimit": None, "excludedDomains": None})
    assert found == {"excludedDomains": [], "depthLimit": 0, "urlLengthLimit": 100}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "Name a limit"),
        ({"depthLimit": -1}, "body.depthLimit"),
        ({"depthLimit": "deep"}, "body.depthLimit"),
        ({"urlLengthLimit": 1.5}, "body.urlLengthLimit"),
        ({"depth": 3}, "body.depth"),
        ({"excludedDomains": ["http://a.test/"]}, "which is no domain"),
        ({"excludedDomains": [7]}, "body.excludedDomains"),
    ],
)
async def test_a_wrong_limit_changes_nothing(api: Api, body: Any, said: str) -> None:
    problem = await api.json("POST", "/url/limit", body, status=422)
    assert said in problem["detail"]
    assert (await api.json("GET", "/status"))["options"] == {}
