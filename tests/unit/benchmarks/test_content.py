"""The truth that duplicates are measured by, and a first look at how they do."""

from benchmarks.content import likeness
from benchmarks.content.likeness import Seen
from demo.html import special_page


def test_pages_are_judged_by_how_much_of_their_articles_differs() -> None:
    one, copy, same, little, other = (
        Seen(1, changed, f"h{place}.test", 0) for place, changed in enumerate((0, 0, 1000, 200, 20))
    )
    stranger = Seen(2, 0, "h0.test", 0)
    same_pairs, different, little_pairs = likeness._pairs(
        [one, copy, same, little, other, stranger]
    )
    assert set(same_pairs) == {(one, copy), (one, same), (copy, same)}
    assert set(different) == {(page, other) for page in (one, copy, same, little)} | {
        (one, stranger)
    }
    assert set(little_pairs) == {(one, little), (copy, little)}


def test_versions_differ_as_much_as_is_said() -> None:
    for _, words, node in likeness._nodes(12):
        total = node.paragraphs * likeness.PARAGRAPH_WORDS
        assert len(special_page(node)) > 1000
        assert node.frame.split(":")[1] == node.host
        if words == likeness._DIFFERENT:
            assert total / node.changed <= likeness._DIFFERENT
        if words in (0, likeness._SAME):
            assert node.changed <= total / likeness._SAME


def test_articles_are_found_in_other_frames_and_others_are_not_taken_for_them() -> None:
    pages = list(likeness._read(likeness._nodes(120)))
    same, different, _ = likeness._pairs(pages)
    found, wrong = sum(map(likeness._are_near, same)), sum(map(likeness._are_near, different))
    assert len(same) == 360
    assert found / len(same) > 0.9
    assert wrong / (found + wrong) < 0.02
