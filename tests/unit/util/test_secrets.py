"""No secret gets into a log, and nothing else is hidden."""

import pytest

from crawler.util.secrets import Mask, url_passwords, without_secrets


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("redis://user:pa55word@h:6379/0 is away", "redis://user:***@h:6379/0 is away"),
        ("redis://:pa55word@h is away", "redis://:***@h is away"),
        ("mongodb://u:a%40b@h1,h2/", "mongodb://u:***@h1,h2/"),
        ("GET http://me:secret@h.test/x", "GET http://me:***@h.test/x"),
        ("redis://:pa@55word@h is away", "redis://:***@h is away"),
        ("redis://u:…@pa55word@h is away", "redis://u:***@h is away"),
        ("password=…pa55word", "password=***"),
        ("X-Api-Key: abcdefgh", "X-Api-Key: ***"),
        ("/path?api-key=abc", "/path?api-key=***"),
        ("Authorization: Bearer abcdefgh.ijk", "Authorization: Bearer ***"),
        ("{b'Authorization': [b'Basic dTpw']}", "{b'Authorization': [b'Basic ***']}"),
        ("Proxy-Authorization: Basic dTpw", "Proxy-Authorization: Basic ***"),
        ("sent bearer 0123456789abcdef", "sent bearer ***"),
        ("'ADMIN_TOKEN': 'abc', 'X': 1", "'ADMIN_TOKEN': '***', 'X': 1"),
        ("/path?token=abc&page=2", "/path?token=***&page=2"),
        ("REDIS_PASSWORD=abc rest", "REDIS_PASSWORD=*** rest"),
        (
            "mongodb://h/?tlsCertificateKeyFilePassword=abc&tls=true",
            "mongodb://h/?tlsCertificateKeyFilePassword=***&tls=true",
        ),
        ("AWS_SESSION_TOKEN:abc%3D,X:1", "AWS_SESSION_TOKEN:***,X:1"),
        ('{"api_key": "abc"}', '{"api_key": "***"}'),
        (r'{"sasl.password": "a, \"b\" c", "d": "e"}', '{"sasl.password": "***", "d": "e"}'),
        (r"{'ssl.key.pem': '-----BEGIN KEY\na b'}", "{'ssl.key.pem': '***'}"),
    ],
)
def test_secrets_are_hidden(text: str, shown: str) -> None:
    assert without_secrets(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "http://h.test:8080/a and someone@example.com",
        "Dashboard and admin API: http://127.0.0.1:8800/ (token: .crawl/admin.token)",
        "Crawled (200) <GET http://h.test/secrets/tokens?page=2>",
        "redis://h:6379/0",
        "Crawled (200) <GET http://h.test:8080/@someone>",
        "the token is missing or wrong",
        "use postgresql://user:…@host:5432/database.",
        "use elasticsearch://user:…@host:9200/index",
        'use {"sasl.username": …, "sasl.password": …}.',
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert without_secrets(text) == text


def test_a_secret_that_is_known_is_hidden_wherever_it_is() -> None:
    mask = Mask(["s3cret-value", None, "", "ab", *url_passwords("redis://:p%40ssword@h")])
    assert mask("it is s3cret-value, or p@ssword, or p%40ssword") == "it is ***, or ***, or ***"
    assert mask("about") == "about"


@pytest.mark.parametrize(
    "sinks",
    [
        "mongo my_project.sinks.X://me:pa55word@h.test/x",
        "my_project.sinks.X:http://me:pa55word@h.test/x",
        "['mongo', 'my_project.sinks.X://me:pa55word@h.test']",
    ],
)
def test_sinks_with_a_password_have_it(sinks: str) -> None:
    assert set(url_passwords(sinks)) == {"pa55word"}
    assert "pa55word" not in without_secrets(sinks)


def test_an_address_that_is_none_has_no_secrets() -> None:
    assert url_passwords("http://[") == []
    assert url_passwords(None) == []
