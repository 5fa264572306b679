"""SimHash: near for near texts, and the same as the simhash package's for the same features."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simhash import Simhash

from crawler.dedup.content import distance, majorities, simhashes

BITS = 64

WORDS = [f"word{number}".encode() for number in range(2000)]


def text(seed: int, length: int = 400) -> list[bytes]:
    return random.Random(seed).choices(WORDS, k=length)


def simhash(words: list[bytes]) -> int:
    (found,) = simhashes([b" ".join(words).decode()], 3)
    assert found is not None
    return found


def hashes(words: list[str]) -> list[int | None]:
    """Return a hash for each word: the SimHash of a text of three words is that of its shingle."""
    return simhashes([f"first second {word}" for word in words], 3)


@given(st.sets(st.integers(0, 2**64 - 1), min_size=1, max_size=40))
def test_the_majority_is_what_the_simhash_package_makes_of_the_same_hashes(
    hashes: set[int],
) -> None:
    def its_own_number(feature: bytes) -> int:
        return int(feature) if feature.isdigit() else 0  # the package tries it on b"test"

    oracle = Simhash([str(value) for value in hashes], f=BITS, hashfunc=its_own_number)
    assert majorities([np.array(sorted(hashes), dtype=np.uint64)]) == [oracle.value]


def test_counting_in_chunks_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    words = text(1, 5000)
    whole = simhash(words)
    monkeypatch.setattr("crawler.dedup.content._CUTS", 2)
    assert simhash(words) == whole


def test_equal_texts_have_equal_hashes_and_the_order_of_words_counts() -> None:
    assert simhash(text(1)) == simhash(text(1))
    assert distance(simhash([b"a", b"b", b"c"]), simhash([b"c", b"b", b"a"])) > 3


def test_texts_that_differ_in_a_word_of_a_thousand_are_near() -> None:
    near = 0
    for seed in range(20):
        words = text(seed, 1000)
        other = [*words[:500], b"changed", *words[501:]]
        near += distance(simhash(words), simhash(other)) <= 6
    assert near == 20


def test_texts_with_nothing_in_common_are_far() -> None:
    assert all(distance(simhash(text(seed)), simhash(text(seed + 1000))) > 12 for seed in range(20))


@given(st.sets(st.text("abcdefgh_ä0", min_size=1, max_size=40)))
def test_each_word_has_a_hash_of_its_own_wherever_it_stands(words: set[str]) -> None:
    alone = [hashes([word])[0] for word in words]
    assert hashes(list(words)) == alone
    assert simhashes([f"  first -  second  {word} " for word in words], 3) == alone
    assert len(set(alone)) == len(words)


def test_every_byte_of_a_word_counts_and_none_of_its_neighbours() -> None:
    for size in range(1, 30):
        word = "a" * size
        others = [f"{word[:at]}b{word[at + 1 :]}" for at in range(size)]
        found = hashes([word, *others, f"{word}a", word])
        assert found[0] == found[-1]
        assert len(set(found)) == size + 2


def test_bits_of_words_are_as_often_set_as_not() -> None:
    found = np.array(hashes([word.decode() for word in WORDS]), dtype=np.uint64)
    set_in = [(int(bit) & found != 0).mean() for bit in (1 << np.arange(BITS, dtype=np.uint64))]
    assert 0.45 < min(set_in) < max(set_in) < 0.55


@given(st.lists(st.sampled_from([b"a", b"b", b"c"]), min_size=3, max_size=30))
def test_a_shingle_counts_once_as_for_the_simhash_package(words: list[bytes]) -> None:
    shingles = {b" ".join(words[at : at + 3]) for at in range(len(words) - 2)}

    def ours(shingle: bytes) -> int:
        return simhash(shingle.split(b" ")) if b" " in shingle else 0

    features = [shingle.decode() for shingle in shingles]
    assert simhash(words) == Simhash(features, f=BITS, hashfunc=ours).value


@pytest.mark.parametrize("words", ["", " ", "a", " a  b ", "a-b"])
def test_texts_of_few_words_have_no_hash(words: str) -> None:
    assert simhashes([words], 3) == [None]


@given(st.lists(st.text("ab ä-", max_size=60) | st.text(max_size=20), max_size=12))
def test_texts_that_are_hashed_together_have_the_hashes_they_have_alone(texts: list[str]) -> None:
    assert simhashes(texts, 4) == [simhashes([each], 4)[0] for each in texts]


def test_long_and_short_texts_are_hashed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [b" ".join(text(seed, size)).decode() for seed, size in enumerate((3000, 3, 255, 700))]
    alone = [simhashes([each], 3)[0] for each in texts]
    assert simhashes(texts, 3) == alone
    monkeypatch.setattr("crawler.dedup.content._CUTS", 3)
    assert simhashes(texts, 3) == alone


@pytest.mark.parametrize(("a", "b", "bits"), [(0, 0, 0), (0, 2**64 - 1, 64), (0b1010, 0b0110, 2)])
def test_distance_counts_the_bits_that_differ(a: int, b: int, bits: int) -> None:
    assert distance(a, b) == bits


@pytest.mark.parametrize(
    ("sentence", "hashed"),
    [
        (
            "word{0} of the Page, number-{0} some_thing_longer_than_sixteen{1}",
            0xB38B_DD24_4C34_1D59,
        ),
        (
            "Wörter {0} of THE page – “quoted” Größenverhältnisse{1} Ωmega 漢字{1}!",
            0xB8CA_A979_2202_9062,
        ),
        ("ΟΔΟΣ {0} İstanbul 😀 𝐀b{1}", 0xF2EB_4A77_860B_A481),
    ],
)
def test_pages_are_compared_with_those_of_earlier_versions(sentence: str, hashed: int) -> None:
    text = " ".join(sentence.format(number, number % 7) for number in range(60))
    assert simhashes([text], 3) == [hashed]
