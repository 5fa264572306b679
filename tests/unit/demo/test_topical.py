"""A web of two topics: what it is made of, and that a crawl can reach all of it."""

from demo.topical import OFF, ON, TopicalAnswers, TopicalWeb

WEB = TopicalWeb(60, articles=8)


def test_equal_arguments_give_equal_webs() -> None:
    other = TopicalWeb(60, articles=8)
    assert other.pages == WEB.pages
    assert other.html(7) == WEB.html(7)
    assert TopicalWeb(60, articles=8, seed=2).pages != WEB.pages


def test_every_page_can_be_reached_from_the_seeds() -> None:
    known = {WEB.number_of[url] for url in WEB.seeds}
    found = list(known)
    for number in found:
        new = {target for target, _ in WEB.pages[number].links} - known
        known |= new
        found += sorted(new)
    assert len(found) == len(WEB.pages)


def test_few_pages_are_on_topic_and_most_links_between_hosts_keep_to_their_topic() -> None:
    assert 0.1 < WEB.share_on_topic() < 0.3
    across = [
        (page.topic, WEB.pages[target].topic)
        for page in WEB.pages
        for target, _ in page.links
        if page.url.split("/")[2] != WEB.pages[target].url.split("/")[2]
    ]
    for topic in (ON, OFF):
        targets = [there for here, there in across if here == topic]
        assert 0.6 < targets.count(topic) / len(targets) < 0.97


def test_some_hosts_on_topic_are_linked_only_from_pages_off_topic() -> None:
    hosts = {page.url.split("/")[2] for page in WEB.pages}
    linked = {
        WEB.pages[target].url.split("/")[2]
        for page in WEB.pages
        if page.topic == ON
        for target, _ in page.links
        if page.url.split("/")[2] != WEB.pages[target].url.split("/")[2]
    }
    hidden = hosts - linked
    assert any(page.topic == ON for page in WEB.pages if page.url.split("/")[2] in hidden)


def test_no_word_belongs_to_one_topic_alone() -> None:
    on, off = (
        {word for text in WEB.texts(kind, 60) for word in text.split()} for kind in (ON, OFF)
    )
    assert len(on & off) > 0.6 * len(on | off)


def test_the_server_notes_the_pages_that_are_fetched() -> None:
    answers = TopicalAnswers(WEB)
    host, path = WEB.pages[3].url.split("/", 3)[2:]
    answer = answers.answer(host, f"/{path}")
    assert answer.status == 200
    assert WEB.html(3) in answer.wire
    assert answers.answer(host, "/robots.txt").status == 404
    assert answers.fetched == [3]
