"""The hand-written robots expectations agree with an independent parser, and among themselves."""

import pytest
from protego import Protego

from demo.profile import DEMO_FEATURES, FULL_FEATURES
from demo.robots_kinds import DEMO_KINDS, FULL_KINDS, RobotsKind
from demo.web import Web, WebOptions

PARSED = [kind for kind in DEMO_KINDS if kind.status not in {403, 404}]


@pytest.mark.parametrize("agent", ["crawler", "otherbot", "somebody"])
@pytest.mark.parametrize("kind", PARSED, ids=lambda kind: kind.name)
def test_expectations_agree_with_a_parser(kind: RobotsKind, agent: str) -> None:
    parser = Protego.parse(kind.body.decode("utf-8-sig"))
    for path in [*kind.probes, "/", "/news/anything-1.html"]:
        allowed = parser.can_fetch(f"http://s1.test{path}", agent)
        assert kind.decide(path, agent) == ("allow" if allowed else "deny"), path
    assert (parser.crawl_delay(agent) or 0.0) == kind.crawl_delay_s(agent)


def test_names_are_unique() -> None:
    names = [kind.name for kind in DEMO_KINDS + FULL_KINDS]
    names += DEMO_FEATURES + FULL_FEATURES
    assert len(names) == len(set(names))


def test_the_huge_file_is_longer_than_crawlers_must_read() -> None:
    long = next(kind for kind in DEMO_KINDS if kind.name == "very_long")
    assert len(long.body) > 512 * 1024


def test_probes_do_not_hide_ordinary_pages() -> None:
    web = Web(WebOptions(zoo="full"))
    for number in range(64):
        profile = web.profile(number)
        pages = {web.page(number, index).path for index in range(profile.size)}
        assert not pages & web.extras(number).keys()
