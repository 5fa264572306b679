"""The web is the same for the same options, and what is served is what the truth walks over."""

from urllib.parse import urljoin, urlsplit

import pytest
from parsel import Selector

from demo import graph
from demo.answers import Answers
from demo.clock import Clock
from demo.node import Behaviour, Node
from demo.tracking import without_tracking
from demo.web import Web, WebOptions

OPTIONS = WebOptions(hosts=64, pages=12, seed=3, zoo="full")


def body_of(answers: Answers, node: Node) -> bytes:
    answer = answers.answer(node.host, node.path)
    return answer.wire[answer.head_bytes :]


def canonical(base: str, href: str) -> str:
    parts = urlsplit(urljoin(base, href.strip()))
    path = parts.path.replace("é", "%C3%A9")
    # urllib keeps dot segments that climb above the root; browsers drop them.
    while path.startswith("/../"):
        path = path[3:]
    target = path + (f"?{parts.query}" if parts.query else "")
    return f"http://{parts.hostname}{without_tracking(target)}"


def links_in(body: bytes, base: str) -> set[tuple[str, bool]]:
    selector = Selector(body.decode())
    return {
        (canonical(base, a.attrib["href"]), "nofollow" in a.attrib.get("rel", ""))
        for a in selector.css("a[href]")
    }


def test_equal_options_give_equal_bytes() -> None:
    first, second = (Answers(Web(OPTIONS), Clock()) for _ in range(2))
    for number in range(0, 64, 5):
        node = Web(OPTIONS).page(number, 3)
        assert first.answer(node.host, node.path) == second.answer(node.host, node.path)


def test_another_seed_gives_another_web() -> None:
    other = WebOptions(hosts=64, pages=12, seed=4, zoo="full")
    bodies = [Answers(Web(options), Clock()).answer("s0.test", "/") for options in (OPTIONS, other)]
    assert bodies[0].wire != bodies[1].wire


@pytest.mark.parametrize("number", [0, 2, 10, 18, 22, 62])
def test_served_links_are_the_links_of_the_truth(number: int) -> None:
    web = Web(OPTIONS)
    answers = Answers(web, Clock())
    pages = [web.page(number, index) for index in range(web.profile(number).size)]
    special = [node for node in web.extras(number).values() if node.behaviour is Behaviour.PAGE]
    for node in pages + [node for node in special if not node.encoding and node.charset == "utf-8"]:
        expected = {(link.url, link.nofollow) for link in web.links(node)}
        assert links_in(body_of(answers, node), node.url) == expected


def test_links_are_written_in_many_forms() -> None:
    web = Web(WebOptions(hosts=20, pages=60, seed=1, zoo="none"))
    answers = Answers(web, Clock())
    text = b"".join(body_of(answers, web.page(0, index)) for index in range(30)).decode()
    for form in (
        'href="/',
        'href="../',
        'href="./../',
        'href="//s',
        'href="HTTP://S',
        ".test:80/",
        "#part-2",
        "utm_source=demo",
        'href=" /',
        "/café/",
        "%20notes",
    ):
        assert form in text, form


def test_pages_have_about_60_links_and_25_kilobytes() -> None:
    web = Web(WebOptions(hosts=20, pages=60, seed=1, zoo="none"))
    answers = Answers(web, Clock())
    bodies = [body_of(answers, web.page(number, 9)) for number in range(20)]
    assert all(55 <= body.count(b"<a href=") <= 70 for body in bodies)
    assert all(5_000 <= len(body) <= 62_000 for body in bodies)
    assert 15_000 <= sum(map(len, bodies)) / len(bodies) <= 35_000
    selector = Selector(bodies[0].decode())
    for element in ("html[lang]", "title", "meta[name=description]", "nav", "header", "footer"):
        assert selector.css(element), element
    assert len(" ".join(selector.css("main ::text").getall()).split()) >= 300


@pytest.mark.parametrize("index", range(45))
def test_a_path_leads_back_to_its_page(index: int) -> None:
    assert graph.page_index(7, graph.page_path(7, index)) == index


@pytest.mark.parametrize(
    ("host", "target"),
    [
        ("s64.test", "/"),
        ("s01.test", "/"),
        ("example.com", "/"),
        ("s0.test", "/nothing"),
        ("s0.test", "/news/wrong-3.html"),
        ("s0.test", ""),
    ],
)
def test_what_does_not_exist_is_not_found(host: str, target: str) -> None:
    assert Web(OPTIONS).find(host, target) is None


def test_every_kind_of_the_zoo_is_somewhere_in_64_hosts() -> None:
    web = Web(OPTIONS)
    profiles = [web.profile(number) for number in range(64)]
    assert len({name for known in profiles for name in known.features}) == 26
    assert len({known.robots.name for known in profiles}) == 28


def test_without_a_zoo_all_hosts_are_ordinary() -> None:
    web = Web(WebOptions(hosts=64, pages=12, seed=3, zoo="none"))
    assert not any(web.extras(number) for number in range(64))
    assert {web.profile(number).robots.name for number in range(64)} == {"allow_all"}


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"hosts": 0}, "hosts is 0; give a number from 1"),
        ({"pages": -1}, "pages is -1"),
        ({"seed": -1}, "seed is -1"),
        ({"zoo": "big"}, "zoo is 'big'; give one of none, demo, full"),
    ],
)
def test_impossible_options_are_refused(fields: dict[str, int], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        WebOptions(**fields)  # type: ignore[arg-type]
