"""Words of a text: what the regular expression of words finds, in lower case."""

import re

from hypothesis import given
from hypothesis import strategies as st

from crawler.util import words
from crawler.util.words import words_of

WORD = re.compile(r"(?![\u3040-\u9fff])(?:(?![\u3040-\u9fff])\w)+|(?=\w)[\u3040-\u9fff]")


def test_words_are_compared_without_case_and_punctuation() -> None:
    found = words_of("Ein Bär, ein BÄR! – 3.5").decode().split(" ")
    assert [word for word in found if word] == ["ein", "bär", "ein", "bär", "3", "5"]


def test_each_character_of_chinese_and_japanese_is_a_word() -> None:
    assert words_of("Das 中文abcカナ、한국어 말").decode().split() == [
        *("das", "中", "文", "abc", "カ", "ナ", "한국어", "말")
    ]
    assert words_of("ΑΣ中文").decode().split() == ["ας", "中", "文"]


@given(st.text(st.characters(codec="ascii")) | st.text(st.characters(codec="utf-8")))
def test_words_are_what_the_regular_expression_of_words_finds(any_text: str) -> None:
    found = words_of(any_text).decode().split(" ")
    assert [word for word in found if word] == WORD.findall(any_text.lower())


def test_every_character_is_part_of_a_word_or_not_as_for_regular_expressions() -> None:
    # Between letters, for some depend on what is around them; those of two units are tried above.
    every = "".join(f"a{chr(code)}b " for code in range(0x10000) if not 0xD800 <= code < 0xE000)
    for start in range(0, len(every), 400):
        part = every[start : start + 400]
        assert words_of(part).decode().split() == WORD.findall(part.lower())


def test_half_a_surrogate_pair_is_no_word() -> None:
    assert words_of("ä\ud800b \udc00").split() == ["ä".encode(), b"b"]


def test_half_a_character_is_a_word_too() -> None:
    assert words_of("a \ud800 b") == words_of("A \ud800 B")


def test_a_long_text_is_split_in_pieces_with_the_same_result() -> None:
    part = "Ein ΟΔΟΣ Weg 道路 İstanbul \U0001f600 and ΣΑΣ "
    text = part * (300_000 // len(part))
    assert words_of(text) == words._words_of(text)
    assert words_of("x" * 250_000) == b"x" * 250_000
    longest = max(map(len, words._pieces(text)))
    assert longest <= words._PIECE_CHARS
