"""READERS is checked at the start of a crawl: types, paths, functions."""

from typing import Any

import pytest
from scrapy.settings import Settings

from crawler.errors import ConfigurationError
from crawler.reading.own import own_readers
from tests.support import readers

TITLE = "tests.support.readers.title"


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, {}),
        ({"application/x-foo": TITLE}, {"application/x-foo": TITLE}),
        (f'{{"Application/X-Foo ": "{TITLE}"}}', {"application/x-foo": TITLE}),
        ({"text/html": readers.title}, {"text/html": TITLE}),
    ],
)
def test_a_reader_is_given_by_its_path_or_as_a_function(given: Any, found: dict[str, str]) -> None:
    assert own_readers(Settings({"READERS": given})) == found


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ([1], r"READERS is \[1\]; give a JSON object"),
        ({"pdf": TITLE}, "READERS has the type 'pdf'; give"),
        ({"a/b": 5}, r"READERS\['a/b'\] is 5; give"),
        ({"a/b": "title"}, "which cannot be imported"),
        ({"a/b": "no.such.module.title"}, r"cannot be imported \(No module named 'no'\)"),
        ({"a/b": "tests.support.readers.none"}, "which cannot be imported"),
        ({"a/b": lambda body, url: {}}, "which cannot be imported"),
        ({"a/b": "tests.support.readers.__doc__"}, "which is no function"),
        ({"a/b": "tests.support.readers.of_one_argument"}, "does not take two arguments"),
    ],
)
def test_a_wrong_one_is_named(given: Any, error: str) -> None:
    with pytest.raises(ConfigurationError, match=error):
        own_readers(Settings({"READERS": given}))
