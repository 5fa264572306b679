"""MinHash: estimates the similarity of two sets, as datasketch does, and better."""

import random

import numpy as np
import pytest
from datasketch import MinHash
from hypothesis import given
from hypothesis import strategies as st

from crawler.dedup.content import shingles_of
from crawler.dedup.minhash import BANDS, SKETCH_BYTES, bands_of, similarity, sketches

Hashes = np.ndarray

BANDS_OF_THE_FIRST_VERSION = [1383485682, 1474715124, 2972146168, 2415764135, 3950942822]
BITS_OF_THE_FIRST_VERSION = "773fd5d2f0f94c58"


def pair(size: int, shared: int, seed: int = 1) -> tuple[Hashes, Hashes]:
    """Two sets of so many hashes each, of which they share some."""
    hashes = np.random.default_rng(seed).integers(0, 2**64, 2 * size, dtype=np.uint64)
    return hashes[:size], np.concatenate((hashes[:shared], hashes[size : 2 * size - shared]))


def estimates(size: int, shared: int, count: int = 60) -> np.ndarray:
    pairs = [pair(size, shared, seed) for seed in range(count)]
    hashed = sketches([each for both in pairs for each in both])
    found = zip(hashed[::2], hashed[1::2], strict=True)
    return np.array([similarity(one, other) for one, other in found])


def of_datasketch(hashes: Hashes) -> MinHash:
    made = MinHash(num_perm=512, hashfunc=lambda value: value)
    made.update_batch([int(each) & 0xFFFF_FFFF for each in hashes])
    return made


@pytest.mark.parametrize("size", [48, 150, 1000])
@pytest.mark.parametrize("share", [0.95, 0.8, 0.6, 0.1])
def test_the_estimate_is_right_on_average_and_seldom_far_off(size: int, share: float) -> None:
    shared = round(size * share)
    truth = shared / (2 * size - shared)
    found = estimates(size, shared)
    # That of 512 independent bits: these are a little better.
    deviation = (1 - truth**2) ** 0.5 / 512**0.5
    assert abs(found.mean() - truth) < 0.02
    assert found.std() < 1.2 * deviation
    assert np.abs(found - truth).max() < 5 * deviation


@pytest.mark.parametrize("share", [1.0, 0.95, 0.8, 0.5])
def test_it_is_what_datasketch_estimates_of_the_same_sets(share: float) -> None:
    for seed in range(5):
        one, other = pair(300, round(300 * share), seed)
        ours = similarity(*sketches([one, other]))
        assert ours == pytest.approx(of_datasketch(one).jaccard(of_datasketch(other)), abs=0.13)


def test_similar_texts_have_a_band_in_common_and_others_have_none() -> None:
    def common(size: int, shared: int) -> float:
        found = 0
        for seed in range(100):
            one, other = sketches(list(pair(size, shared, seed)))
            found += bool({*bands_of(one)} & {*bands_of(other)})
        return found / 100

    # Similarities of 0.9, 0.7 and 0.05.
    assert common(400, 379) > 0.98
    assert common(400, 329) > 0.75
    assert common(400, 38) < 0.03


@given(st.lists(st.sets(st.integers(0, 2**64 - 1), min_size=1, max_size=9), max_size=6))
def test_sets_that_are_hashed_together_have_the_sketches_they_have_alone(
    sets: list[set[int]],
) -> None:
    parts = [np.array(sorted(each), dtype=np.uint64) for each in sets]
    alone = [sketches([part])[0] for part in parts]
    assert sketches(parts) == alone
    assert all(len(each) == SKETCH_BYTES for each in alone)


def test_the_order_of_hashes_does_not_matter() -> None:
    one, _ = pair(100, 100)
    assert len({*sketches([one, one[::-1]])}) == 1


def test_hashes_are_not_changed() -> None:
    one, other = pair(100, 50)
    before = one.copy(), other.copy()
    sketches([one, other])
    assert (one == before[0]).all()
    assert (other == before[1]).all()


def test_an_article_with_a_sentence_more_is_similar() -> None:
    words = random.Random(1).choices([f"word{number}" for number in range(3000)], k=300)
    text = " ".join(words)
    parts = shingles_of([text, f"{text} and another sentence at its end", text[::-1]], 3)
    one, longer, other = sketches([part for part in parts if part is not None])
    assert 0.93 < similarity(one, longer) < 1
    assert similarity(one, other) < 0.2
    assert similarity(one, one) == 1


def test_no_sets_have_no_sketches() -> None:
    assert sketches([]) == []


def test_crawls_keep_their_sketches_from_one_version_to_the_next() -> None:
    (part,) = shingles_of([" ".join(f"word{number} of the text" for number in range(40))], 3)
    assert part is not None
    (sketch,) = sketches([part])
    assert bands_of(sketch) == BANDS_OF_THE_FIRST_VERSION
    assert len(BANDS_OF_THE_FIRST_VERSION) == BANDS
    assert sketch[20:28].hex() == BITS_OF_THE_FIRST_VERSION
