"""Messages as `python -m demo streams` prints them."""

from demo.streams import shown


def test_every_field_of_a_message_is_seen_and_long_values_are_cut() -> None:
    message = {"url": "http://a.test/", "links": ["b", "c", "d"], "text": "x" * 500, "title": "T"}
    lines = shown(message).splitlines()
    assert max(map(len, lines)) <= 120
    text = " ".join(line.strip() for line in lines)
    assert '"links": ["b", "c", "…"]' in text
    assert f'"text": "{"x" * 80}…", "title": "T"}}' in text
