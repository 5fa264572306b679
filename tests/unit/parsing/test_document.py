"""What pages ask of crawlers by their headers."""

import pytest

from crawler.parsing.document import Directives, of_headers, of_meta


@pytest.mark.parametrize(
    ("values", "noindex", "nofollow"),
    [
        ([], False, False),
        (["noindex"], True, False),
        (["NoFollow , noindex"], True, True),
        (["none"], True, True),
        (["noindex", "nofollow"], True, True),
        (["otherbot: noindex"], False, False),
        (["otherbot: noarchive, noindex"], False, False),
        (["Crawler: noindex"], True, False),
        (["*: nofollow"], False, True),
        (["otherbot: none, crawler: nofollow"], False, True),
        (["unavailable_after: 25 Jun 2030 15:00:00 PST, noindex"], True, False),
        (["max-snippet:-1, nofollow"], False, True),
        (["max-image-preview:none"], False, False),
        (["max-image-preview: none"], False, False),
        (["max-image-preview: none, nofollow"], False, True),
        (["max-snippet : -1, max-video-preview: 0 noindex"], True, False),
        (["unavailable_after: Sat, 25 Jun 2010 15:00 GMT, noindex"], True, False),
        (["unavailable_after: Saturday, 25-Jun-10 15:00:00 GMT, nofollow"], False, True),
        (["unavailable_after: Jun 25, 2010 15:00:00 GMT, noindex"], True, False),
        (["unavailable_after: 2010-06-25T15:00:00+00:00, noindex"], True, False),
        (["unavailable_after: 25-Jun-10 15:00 GMT, noindex"], True, False),
        (["unavailable_after: 15:00, noindex"], True, False),
        (["otherbot: unavailable_after: Sat, 25 Jun 2010 15:00 GMT, noindex"], False, False),
        (["crawler: unavailable_after: Sat, 25 Jun 2010 15:00 GMT, noindex"], True, False),
        (["otherbot: max-image-preview: none, crawler: noindex"], True, False),
        (["crawler: max-image-preview:none"], False, False),
        (["crawler : noindex"], True, False),
        (["other crawler: noindex"], False, False),
        ([""], False, False),
    ],
)
def test_headers_speak_to_all_crawlers_or_to_one(
    values: list[str], noindex: bool, nofollow: bool
) -> None:
    assert of_headers(values, "crawler") == Directives(noindex, nofollow)


@pytest.mark.parametrize(
    ("content", "noindex", "nofollow"),
    [
        ("none", True, True),
        ("NOINDEX", True, False),
        ("noindex nofollow", True, True),
        ("noindex,nofollow", True, True),
        ("index, follow", False, False),
        ("max-image-preview: none", False, False),
        ("max-image-preview:none", False, False),
        ("max-snippet: -1, max-image-preview: none, nofollow", False, True),
        ("max-image-preview: none noindex", True, False),
        ("max-image-preview:, noindex", True, False),
        ("unavailable_after: Sat, 25 Jun 2010 15:00 GMT, noindex", True, False),
        ("unavailable_after: 25-Jun-2010 15:00:00 EST", False, False),
        ("max-image-preview: large, none", True, True),
        ("", False, False),
    ],
)
def test_a_meta_tag_asks_by_words_and_not_by_values(
    content: str, noindex: bool, nofollow: bool
) -> None:
    assert of_meta(content) == Directives(noindex, nofollow)


@pytest.mark.parametrize("text", ["max-snippet", "unavailable_after", "max-snippet:", "crawler"])
def test_a_header_of_blanks_is_read_in_no_time(text: str) -> None:
    # With time in proportion to its square it would take minutes.
    assert of_headers([text + " " * 200_000], "crawler") == Directives()


@pytest.mark.parametrize("name", ["MJ12bot", "my.bot-2", "360Spider"])
def test_a_header_speaks_to_crawlers_whose_names_have_digits_and_dots(name: str) -> None:
    assert of_headers([f"{name.lower()}: noindex"], name).noindex
    assert not of_headers([f"{name}x: noindex"], name).noindex
