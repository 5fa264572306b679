"""Which types are downloaded."""

import pytest

from crawler.download.receiver import AcceptedTypes

TYPES = AcceptedTypes(["text/html", "Application/XML ", "audio/*"])


@pytest.mark.parametrize(
    "header",
    [
        "text/html",
        "TEXT/HTML; charset=utf-8",
        " text/html ;x",
        "text/html, charset=utf-8",
        "text/html,image/png",
        "application/xml",
        "audio/ogg",
        # Nothing is known of these, so they may be pages.
        "",
        ";",
        "nonsense",
    ],
)
def test_a_wanted_or_unknown_type_is_accepted(header: str) -> None:
    assert header in TYPES


@pytest.mark.parametrize(
    "header", ["image/png", "text/css", "application/pdf", "video/mp4; x=text/html", "text/htmlx"]
)
def test_another_type_is_not(header: str) -> None:
    assert header not in TYPES


@pytest.mark.parametrize("types", [[], ["*/*"]])
def test_all_types_may_be_accepted(types: list[str]) -> None:
    assert "image/png" in AcceptedTypes(types)
